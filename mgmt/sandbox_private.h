/* sandbox_private.h - what sandbox*.c and their test share; nobody else includes it. */
#pragma once
#include "config/settings.h"
#include <limits.h>
#include <linux/filter.h>

struct mgmt;

/* Work that makes system calls: X(id, name). A thread's list is the union of its needs. */
#define SANDBOX_NEEDS(X)                                                                                               \
    X(BASE, "base")                   /* any thread: memory, time, waking another, its end, a crash report */          \
    X(IDLE, "idle")                   /* an lcore without work: lcores.idle is live, so every policy */                \
    X(SOCKET, "socket")               /* connections of the kernel's TCP and Unix sockets */                           \
    X(HELPER, "helper")               /* the helper's sleep */                                                         \
    X(MGMT, "management")             /* listeners, management socket, metrics, files, page population */              \
    X(SHM, "shm")                     /* fabric port on shm */                                                         \
    X(FABRIC, "fabric-sockets")       /* fabric port on net, tcp, tcp;ofi_rxm, udp;ofi_rxd or sockets */               \
    X(FABRIC_DEVICE, "fabric-device") /* fabric port on efa, efa-direct or verbs;ofi_rxm */                            \
    X(AF_PACKET, "af_packet")         /* ethernet port on net_af_packet */                                             \
    X(TAP, "tap")                     /* ethernet port on net_tap */                                                   \
    X(PCAP, "pcap")                   /* ethernet port on net_pcap */                                                  \
    X(PCI, "pci")                     /* ethernet port on a card, through vfio-pci or a UIO driver */                  \
    X(LIBRARY, "library")             /* a thread of libfabric or DPDK */

enum sandbox_need_index {
#define SANDBOX_NEED_INDEX(id, ...) SANDBOX_INDEX_##id,
    SANDBOX_NEEDS(SANDBOX_NEED_INDEX)
#undef SANDBOX_NEED_INDEX
        SANDBOX_NEED_COUNT
};

/* Bits of a set of needs. */
enum sandbox_need {
#define SANDBOX_NEED_BIT(id, ...) SANDBOX_##id = 1 << SANDBOX_INDEX_##id,
    SANDBOX_NEEDS(SANDBOX_NEED_BIT)
#undef SANDBOX_NEED_BIT
};

extern const char *const sandbox_need_names[SANDBOX_NEED_COUNT];

/* ---- sandbox_needs.c: who needs what ---- */

uint32_t sandbox_needs_of_port(const struct port_settings *port);
/* Its ports' needs and those of an idle lcore. `has_streams`: connections of the kernel's sockets come to it. */
uint32_t sandbox_needs_of_lcore(const struct settings *settings, bool has_streams, uint32_t lcore);
/* Whether it polls an ethernet port. */
bool sandbox_has_ethernet(const struct settings *settings, uint32_t lcore);

/* ---- sandbox_calls.c: which calls ---- */

enum sandbox_check {
    SANDBOX_ANY,      /* whatever its arguments: these cost nothing beside the call */
    SANDBOX_NO_EXEC,  /* memory that cannot be executed */
    SANDBOX_OWN,      /* first argument: this process */
    SANDBOX_SELF,     /* first argument: 0, the caller */
    SANDBOX_FATAL,    /* first argument: a signal that crash.c reports, but SIGSYS: nobody defuses the filter */
    SANDBOX_GET_NAME, /* first argument: PR_GET_NAME */
    SANDBOX_UNIX,     /* first argument: AF_UNIX; for AF_INET, whose interfaces the doctor would ask: EPERM */
    SANDBOX_REFUSED,  /* answered with EPERM: the caller asks, and does without */
};

/* A row: this need makes this call. `unseen`: why it is listed although a run of `test/external/sandbox.py --trace`
 * need not show it; NULL when it has to. */
struct sandbox_call {
    enum sandbox_need need;
    const char *name;
    enum sandbox_check check;
    const char *unseen;
};

extern const struct sandbox_call sandbox_calls[];
extern const size_t sandbox_call_count;

/* Its number here; below 0: this architecture does not have it. Aborts when there is no such call anywhere. */
int sandbox_call_number(const struct sandbox_call *call);

/* ---- sandbox_filter.c: the list as a program for seccomp ---- */

struct sandbox_filter {
    struct sock_fprog program; /* .filter is malloc()ed */
    uint32_t calls;            /* permitted */
};

/* Make the filter of a set of needs. Aborts out of memory and when a row names no system call.
 * Cost     about a millisecond. */
void sandbox_filter_open(struct sandbox_filter *filter, uint32_t needs);
void sandbox_filter_close(struct sandbox_filter *filter);
/* Restrict the calling thread. 0 or -errno. In signal handlers too. */
int sandbox_filter_take(const struct sandbox_filter *filter);
/* Whether this kernel has seccomp filters that trap. */
bool sandbox_filter_is_possible(void);
/* Remember the names of all calls for sandbox_call_name(). */
void sandbox_names_open(void);

/* ---- sandbox_files.c: Landlock ---- */

#define SANDBOX_PLACES_MAX 48

enum sandbox_access { SANDBOX_READ = 1, SANDBOX_SAVE = 2, SANDBOX_MAKE = 4, SANDBOX_REMOVE = 8, SANDBOX_SHARE = 16 };

/* Everything below a directory. */
struct sandbox_place {
    char path[PATH_MAX];
    uint32_t access; /* of enum sandbox_access */
};

struct sandbox_files {
    struct sandbox_place places[SANDBOX_PLACES_MAX];
    uint32_t count;
    bool connects; /* may bind and connect TCP */
    bool abstract; /* may reach abstract Unix sockets of others */
    int fd;        /* -1: no Landlock */
};

/* Version of Landlock's interface in this kernel; 0: it has none, or it is not switched on. */
int sandbox_files_abi(void);
/* Add a directory; it need not exist, and accesses of one that is there already add up. */
void sandbox_files_add(struct sandbox_files *files, const char *path, uint32_t access);
/* The places of a thread with these needs. */
void sandbox_files_gather(struct sandbox_files *files, const struct mgmt *mgmt, uint32_t needs);
/* Make the rule set, its descriptor in `fd`. 0 or -errno. */
int sandbox_files_open(struct sandbox_files *files);
void sandbox_files_close(struct sandbox_files *files);
/* Restrict the calling thread, which has set no_new_privs. 0 or -errno. In signal handlers too. */
int sandbox_files_take(const struct sandbox_files *files);
/* For people: "none", or "reads /proc, saves in /etc/sluice". */
const char *sandbox_files_text(const struct sandbox_files *files, char *out, size_t out_bytes);

/* ---- sandbox.c ---- */

/* What is to be restricted in one thread; -1 and NULL for what is left out. */
struct sandbox_profile {
    const char *kind;
    uint32_t needs;
    uint64_t capabilities; /* kept where the process has them */
    struct sandbox_filter filter;
    struct sandbox_files files;
    bool has_filter;
};
/* Restrict the calling thread; *step names what failed. 0 or -errno. In signal handlers too. */
int sandbox_restrict(const struct sandbox_profile *profile, const char **step);
