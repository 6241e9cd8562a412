#include "config/limits.h"
#include "config/paths.h"
#include "mgmt/ctl_wire.h"
#include "tools/sluicectl.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int connection = -1;
static char path[256];
static bool errors_in_json;

static double
now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void
fail_in_json(void)
{
    errors_in_json = true;
}

void
fail(int status, const char *format, ...)
{
    char what[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    fflush(stdout);
    if (errors_in_json) {
        json_t *line = json_pack("{s:i,s:b,s:s}", "version", CTL_VERSION, "ok", 0, "error", what);
        if (line == NULL) { /* what was repeated is not UTF-8 */
            line = json_pack("{s:i,s:b,s:s}", "version", CTL_VERSION, "ok", 0, "error", "an argument is not UTF-8");
        }
        json_dumpf(line, stderr, JSON_COMPACT);
        fputc('\n', stderr);
        json_decref(line);
    } else {
        fprintf(stderr, "sluicectl: %s\n", what);
    }
    exit(status);
}

/* 0 or errno. */
static int
try_connect(const char *to)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    if (strlen(to) >= sizeof(at.sun_path)) {
        return ENAMETOOLONG;
    }
    strcpy(at.sun_path, to);
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0) {
        return errno;
    }
    if (connect(connection, (struct sockaddr *)&at, sizeof(at)) == 0) {
        return 0;
    }
    int error = errno;
    close(connection);
    connection = -1;
    return error;
}

void
call_open(const struct options *options)
{
    int error;

    if (connection >= 0) {
        return;
    }
    if (options->socket != NULL) {
        snprintf(path, sizeof(path), "%s", options->socket);
    } else {
        paths_management_socket(path, sizeof(path));
    }
    error = try_connect(path);
    if (error == ENOENT && options->socket == NULL && getenv("SLUICE_CTL") == NULL &&
        try_connect(PATHS_SYSTEM_MANAGEMENT_SOCKET) == 0) {
        snprintf(path, sizeof(path), PATHS_SYSTEM_MANAGEMENT_SOCKET); /* an appliance started as root */
        return;
    }
    if (error != 0) {
        fail(EXIT_NOBODY, "cannot connect to %s: %s; -S PATH or SLUICE_CTL names another socket", path,
             strerror(error));
    }
}

/* What is left until `deadline`, for poll(). */
static int
left_ms(double deadline)
{
    double left = (deadline - now_s()) * 1000;
    return left <= 0 ? 0 : left > 1e9 ? 1000000000 : (int)left + 1;
}

static void
wait_for(short events, double deadline)
{
    struct pollfd ready = { .fd = connection, .events = events };
    int count;

    while ((count = poll(&ready, 1, left_ms(deadline))) < 0 && errno == EINTR) {
    }
    if (count <= 0) {
        fail(EXIT_BAD, "no answer in time; -t SECONDS waits longer");
    }
}

/* False: the other side has closed, perhaps with a line that says why. */
static bool
send_line(const char *line, size_t bytes, double deadline)
{
    while (bytes > 0) {
        wait_for(POLLOUT, deadline);
        ssize_t sent = send(connection, line, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        if (sent > 0) {
            line += sent;
            bytes -= (size_t)sent;
        }
    }
    return true;
}

/* One line of at most LIMIT_CTL_OUTPUT_BYTES; the caller frees it. */
static char *
receive_line(size_t *bytes, double deadline)
{
    size_t used = 0, room = 64 * KIB;
    char *line = malloc(room);

    CHECK(line != NULL);
    for (;;) {
        wait_for(POLLIN, deadline);
        ssize_t got = recv(connection, line + used, room - used, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (got <= 0) {
            fail(EXIT_NOBODY, "the appliance closed the connection");
        }
        char *end = memchr(line + used, '\n', (size_t)got);
        if (end != NULL) {
            *bytes = (size_t)(end - line);
            return line;
        }
        used += (size_t)got;
        if (used > 2 * LIMIT_CTL_OUTPUT_BYTES) {
            fail(EXIT_BAD, "the answer is too long to be one of an appliance");
        }
        if (used == room) {
            room *= 2;
            line = realloc(line, room);
            CHECK(line != NULL);
        }
    }
}

json_t *
call(const struct options *options, const char *command, json_t *args)
{
    double deadline = now_s() + options->timeout_s;
    json_t *request = json_pack("{s:i,s:s}", "version", CTL_VERSION, "command", command);
    json_error_t error;
    size_t bytes;

    call_open(options);
    if (args != NULL) {
        json_object_set_new(request, "args", args);
    }
    char *text = json_dumps(request, JSON_COMPACT);
    CHECK(text != NULL);
    bool closed = !send_line(text, strlen(text), deadline) || !send_line("\n", 1, deadline);
    (void)closed; /* what it said before, or the end, is what is read next */
    free(text);
    json_decref(request);

    char *line = receive_line(&bytes, deadline);
    json_t *reply = json_loadb(line, bytes, 0, &error);
    free(line);
    if (!json_is_object(reply) || !json_is_boolean(json_object_get(reply, "ok"))) {
        fail(EXIT_BAD, "the answer is not one of an appliance");
    }
    if (!json_is_true(json_object_get(reply, "ok"))) {
        fail(EXIT_BAD, "%s", get_text(reply, "error"));
    }
    json_t *result = json_incref(json_object_get(reply, "result"));
    json_decref(reply);
    return result;
}

bool
call_wait_for_end(double seconds)
{
    double deadline = now_s() + seconds;
    char bytes[256];

    for (;;) {
        struct pollfd ready = { .fd = connection, .events = POLLIN };
        int count = poll(&ready, 1, left_ms(deadline));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        if (recv(connection, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0 && errno != EAGAIN) {
            return true;
        }
    }
}
