#include "tools/bench/matrix_veth.h"
#include "tools/bench/servers.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#define PROGRAM_SECONDS_MAX 20

/* The far end computes its checksums itself: a veth's half-made ones are for kernels only. */
static const char *const steps[][12] = {
    { "ip", "link", "set", "lo", "up" },
    { "ip", "link", "add", "wire1", "type", "veth", "peer", "name", "wire0" },
    { "ethtool", "-K", "wire1", "tx", "off", "rx", "off", "tso", "off", "gso", "off" },
    { "ethtool", "-K", "wire0", "tx", "off", "rx", "off", "tso", "off", "gso", "off" },
    { "ip", "address", "add", MATRIX_VETH_CLIENT "/24", "dev", "wire1" },
    { "ip", "link", "set", "wire0", "up" },
    { "ip", "link", "set", "wire1", "up" },
};

int
matrix_veth_open(char *why, size_t why_bytes)
{
    int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0 || unshare(CLONE_NEWNET) != 0) {
        snprintf(why, why_bytes, "a network namespace of its own: %s: needs CAP_SYS_ADMIN", strerror(errno));
        if (home >= 0) {
            close(home);
        }
        return -1;
    }
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        char output[256], reason[256];
        if (!program_run(steps[i], -1, PROGRAM_SECONDS_MAX, output, sizeof(output), reason, sizeof(reason))) {
            snprintf(why, why_bytes, "%s %s %s: %.200s", steps[i][0], steps[i][1], steps[i][2], reason);
            matrix_veth_close(home);
            return -1;
        }
    }
    return home;
}

void
matrix_veth_close(int home)
{
    if (home >= 0) {
        CHECK(setns(home, CLONE_NEWNET) == 0);
        close(home);
    }
}
