#include "mgmt/notify.h"
#include "config/units.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

bool
notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    size_t bytes = path == NULL ? 0 : strlen(path);

    if (bytes < 2 || bytes >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@')) {
        return false;
    }
    memcpy(to.sun_path, path, bytes);
    if (path[0] == '@') {
        to.sun_path[0] = '\0'; /* abstract: the name is as long as given, without a NUL behind */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes));
    close(fd);
    return sent == (ssize_t)strlen(state);
}

void
notify_reloading(void)
{
    struct timespec now;
    char state[64];

    clock_gettime(CLOCK_MONOTONIC, &now); /* so that systemd can tell this reload from an earlier one */
    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
    notify_send(state);
}

void
notify_stopping(uint64_t most_ms)
{
    char state[64];

    snprintf(state, sizeof(state), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu", (unsigned long long)most_ms * 1000);
    notify_send(state);
}

uint64_t
notify_watchdog_ms(void)
{
    const char *period = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t us, whose;

    if (period == NULL || unit_parse_count(period, &us) != UNIT_OK) {
        return 0;
    }
    if (pid != NULL && (unit_parse_count(pid, &whose) != UNIT_OK || whose != (uint64_t)getpid())) {
        return 0;
    }
    return us / 2000;
}
