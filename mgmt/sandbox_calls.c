/* sandbox_calls.c - which system calls each kind of work makes after the start, one row each.
 *
 * Found by `test/external/sandbox.py --trace`, which runs every kind of port that a development machine can have under
 * strace: it fails when a call is missing here, and when nobody makes one that is listed without a reason. "a/b": the
 * first of them that the architecture has; arm64 lacks the older ones. */
#include "mgmt/sandbox_private.h"

#define CRASH   "a crash report"
#define ABORT   "a message of the C library before it aborts"
#define CLOCK   "where the vDSO cannot read the clock itself"
#define HEAP    "the C library's memory: an lcore's grows when it first uses a module's thread-local variables"
#define ARENAS  "the C library's memory: it counts CPUs before it makes the ninth arena, without files by the third call"
#define CONNECT "a connection that this side begins"
#define DRIVER  "not run here: from DPDK's source"
#define VERBS   "not run here: from the sources of libfabric and rdma-core"

const struct sandbox_call sandbox_calls[] = {
    { SANDBOX_BASE, "write", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "futex", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "exit", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "exit_group", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "rt_sigreturn", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "rt_sigprocmask", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "restart_syscall", SANDBOX_ANY, "a wait that SIGSTOP interrupted" },
    { SANDBOX_BASE, "clock_nanosleep", SANDBOX_ANY, "the end, until other members have reported to the store" },
    { SANDBOX_BASE, "madvise", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "mmap", SANDBOX_NO_EXEC, NULL },
    { SANDBOX_BASE, "munmap", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "mprotect", SANDBOX_NO_EXEC, NULL },
    { SANDBOX_BASE, "mremap", SANDBOX_ANY, HEAP },
    { SANDBOX_BASE, "brk", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "writev", SANDBOX_ANY, ABORT },
    { SANDBOX_BASE, "clock_gettime", SANDBOX_ANY, CLOCK },
    { SANDBOX_BASE, "gettimeofday", SANDBOX_ANY, CLOCK },
    { SANDBOX_BASE, "getpid", SANDBOX_ANY, NULL },
    { SANDBOX_BASE, "openat", SANDBOX_REFUSED, ARENAS },
    { SANDBOX_BASE, "sched_getaffinity", SANDBOX_ANY, ARENAS },
    { SANDBOX_BASE, "gettid", SANDBOX_ANY, CRASH },
    { SANDBOX_BASE, "tgkill", SANDBOX_OWN, CRASH },
    { SANDBOX_BASE, "prctl", SANDBOX_GET_NAME, CRASH },
    { SANDBOX_BASE, "rt_sigaction", SANDBOX_FATAL, CRASH },
    { SANDBOX_BASE, "pause/ppoll", SANDBOX_ANY, CRASH },

    { SANDBOX_IDLE, "sched_yield", SANDBOX_ANY, NULL },
    { SANDBOX_IDLE, "ppoll", SANDBOX_ANY, NULL },
    { SANDBOX_IDLE, "read", SANDBOX_ANY, NULL },

    { SANDBOX_SOCKET, "epoll_wait/epoll_pwait", SANDBOX_ANY, NULL },
    { SANDBOX_SOCKET, "recvfrom", SANDBOX_ANY, NULL },
    { SANDBOX_SOCKET, "sendto", SANDBOX_ANY, NULL },
    { SANDBOX_SOCKET, "sendmsg", SANDBOX_ANY, NULL },
    { SANDBOX_SOCKET, "epoll_ctl", SANDBOX_ANY, NULL },
    { SANDBOX_SOCKET, "getpeername", SANDBOX_ANY, NULL },
    { SANDBOX_SOCKET, "getsockname", SANDBOX_ANY, NULL },
    { SANDBOX_SOCKET, "shutdown", SANDBOX_ANY, NULL },
    { SANDBOX_SOCKET, "close", SANDBOX_ANY, NULL },

    { SANDBOX_HELPER, "poll/ppoll", SANDBOX_ANY, NULL },
    { SANDBOX_HELPER, "read", SANDBOX_ANY, NULL },

    { SANDBOX_MGMT, "read", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "epoll_wait/epoll_pwait", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "epoll_ctl", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "poll/ppoll", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "accept4", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "recvfrom", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "sendto", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "sendmsg", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "setsockopt", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "getsockopt", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "shutdown", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "socket", SANDBOX_UNIX, NULL },
    { SANDBOX_MGMT, "close", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "openat", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "newfstatat", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "fstat", SANDBOX_ANY, "arm64, where the C library asks for a descriptor's state so" },
    { SANDBOX_MGMT, "getdents64", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "readlink/readlinkat", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "access/faccessat", SANDBOX_ANY, "`sluicectl doctor` where there are devices" },
    { SANDBOX_MGMT, "faccessat2", SANDBOX_ANY, NULL }, /* realpath(), after a ".." */
    { SANDBOX_MGMT, "statfs", SANDBOX_ANY, "`sluicectl doctor` where there are huge pages" },
    { SANDBOX_MGMT, "getcwd", SANDBOX_ANY, "settings from a file with a relative path" },
    { SANDBOX_MGMT, "lseek", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "fcntl", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "fsync", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "fchmod", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "fchown", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "rename/renameat", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "unlink/unlinkat", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "getrandom", SANDBOX_ANY, "a temporary file's name, where the first is taken" },
    { SANDBOX_MGMT, "prlimit64", SANDBOX_SELF, NULL },
    { SANDBOX_MGMT, "sched_setaffinity", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "sched_getaffinity", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "get_mempolicy", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "getrusage", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "uname", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "sysinfo", SANDBOX_ANY, "qsort() of many rows asks how much memory there is" },
    { SANDBOX_MGMT, "geteuid", SANDBOX_ANY, NULL },
    { SANDBOX_MGMT, "sched_yield", SANDBOX_ANY, "the end, while an lcore's mail ring is full" },

    { SANDBOX_SHM, "openat", SANDBOX_ANY, NULL },
    { SANDBOX_SHM, "newfstatat", SANDBOX_ANY, NULL },
    { SANDBOX_SHM, "fstat", SANDBOX_ANY, "arm64, where the C library asks for a descriptor's state so" },
    { SANDBOX_SHM, "close", SANDBOX_ANY, NULL },
    { SANDBOX_SHM, "process_vm_writev", SANDBOX_REFUSED, NULL },
    { SANDBOX_SHM, "process_vm_readv", SANDBOX_REFUSED, "a peer that offers more than a frame" },

    { SANDBOX_FABRIC, "epoll_wait/epoll_pwait", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "poll/ppoll", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "recvfrom", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "recvmsg", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "sendto", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "sendmsg", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "accept", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "socket", SANDBOX_ANY, CONNECT },
    { SANDBOX_FABRIC, "bind", SANDBOX_ANY, CONNECT },
    { SANDBOX_FABRIC, "connect", SANDBOX_ANY, CONNECT },
    { SANDBOX_FABRIC, "getsockopt", SANDBOX_ANY, CONNECT },
    { SANDBOX_FABRIC, "setsockopt", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "fcntl", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "getpeername", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "getsockname", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "epoll_ctl", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "shutdown", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "close", SANDBOX_ANY, NULL },
    { SANDBOX_FABRIC, "openat", SANDBOX_REFUSED, NULL }, /* the size of a huge page, for buffers that grow */
    { SANDBOX_FABRIC, "newfstatat/fstat", SANDBOX_REFUSED, NULL },

    { SANDBOX_FABRIC_DEVICE, "ioctl", SANDBOX_ANY, VERBS }, /* address handles, memory registration */
    { SANDBOX_FABRIC_DEVICE, "read", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "poll/ppoll", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "epoll_wait/epoll_pwait", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "epoll_ctl", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "fcntl", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "eventfd2", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "getsockname", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "openat", SANDBOX_ANY, VERBS }, /* efa has an shm inside, for peers on the same host */
    { SANDBOX_FABRIC_DEVICE, "newfstatat", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "fstat", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "close", SANDBOX_ANY, VERBS },
    { SANDBOX_FABRIC_DEVICE, "process_vm_writev", SANDBOX_REFUSED, VERBS },
    { SANDBOX_FABRIC_DEVICE, "process_vm_readv", SANDBOX_REFUSED, VERBS },

    { SANDBOX_AF_PACKET, "sendto", SANDBOX_ANY, NULL },
    { SANDBOX_AF_PACKET, "poll/ppoll", SANDBOX_ANY, "every frame of the ring waits to be sent" },

    { SANDBOX_TAP, "readv", SANDBOX_ANY, NULL },
    { SANDBOX_TAP, "writev", SANDBOX_ANY, NULL },
    { SANDBOX_TAP, "ioctl", SANDBOX_ANY, NULL },
    { SANDBOX_TAP, "sendmsg", SANDBOX_ANY, "the end, where the interface is still in our network namespace" },
    { SANDBOX_TAP, "recvmsg", SANDBOX_ANY, "news of an interface in our network namespace" },

    { SANDBOX_PCAP, "sendto", SANDBOX_ANY, NULL },
    { SANDBOX_PCAP, "poll/ppoll", SANDBOX_ANY, NULL },
    { SANDBOX_PCAP, "ioctl", SANDBOX_ANY, NULL }, /* of an interface that went down: is it? */
    { SANDBOX_PCAP, "getsockopt", SANDBOX_ANY, NULL },
    { SANDBOX_PCAP, "setsockopt", SANDBOX_ANY, NULL },

    { SANDBOX_PCI, "ioctl", SANDBOX_ANY, DRIVER }, /* interrupts, mappings of a device that is reset */
    { SANDBOX_PCI, "read", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "pread64", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "pwrite64", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "eventfd2", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "openat", SANDBOX_ANY, DRIVER }, /* physical addresses in /proc/self/pagemap */
    { SANDBOX_PCI, "lseek", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "get_mempolicy", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "set_mempolicy", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "memfd_create", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "ftruncate", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "fallocate", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "fcntl", SANDBOX_ANY, DRIVER },
    { SANDBOX_PCI, "close", SANDBOX_ANY, DRIVER },

    { SANDBOX_LIBRARY, "epoll_wait/epoll_pwait", SANDBOX_ANY, NULL },
    { SANDBOX_LIBRARY, "epoll_create/epoll_create1", SANDBOX_ANY, DRIVER },
    { SANDBOX_LIBRARY, "epoll_ctl", SANDBOX_ANY, DRIVER },
    { SANDBOX_LIBRARY, "read", SANDBOX_ANY, DRIVER },
    { SANDBOX_LIBRARY, "close", SANDBOX_ANY, DRIVER },
    { SANDBOX_LIBRARY, "timerfd_settime", SANDBOX_ANY, DRIVER },
};

const size_t sandbox_call_count = ARRAY_COUNT(sandbox_calls);
