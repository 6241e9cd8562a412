#include "mgmt/sandbox.h"
#include "dataplane/helper.h"
#include "mgmt/crash.h"
#include "mgmt/log.h"
#include "mgmt/mgmt.h"
#include "mgmt/sandbox_private.h"
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_MS    10000 /* for all threads to restrict themselves, on a busy machine */
#define BLOCKED_MS  100   /* a thread that blocks the signal for so long does so for good */
#define THREADS_MAX 512
#define OWN_IPC     (1ull << CAP_IPC_LOCK)

/* Two for lcores: one of them may have the ethernet port. */
enum profile_id { PROFILE_MGMT, PROFILE_LCORE, PROFILE_LCORE_ETHERNET, PROFILE_HELPER, PROFILE_LIBRARY, PROFILE_COUNT };

static const char *const profile_kinds[PROFILE_COUNT] = { "management", "lcore", "lcore", "helper", "library" };

/* What one thread was asked to do. */
struct job {
    pid_t tid;
    enum profile_id profile;
    int64_t asked_ms;
    const char *step;      /* that failed */
    int error;             /* 0 or -errno */
    _Atomic uint32_t done; /* release by the thread, pairs with the acquire in look_at() */
};

static struct sandbox_profile profiles[PROFILE_COUNT];
static struct job jobs[THREADS_MAX];
static uint32_t job_count, unreachable;
static int signal_number, landlock_version; /* of what threads have taken */
static char state_text[512] = "off";

/* ---- who needs what ---- */

static enum profile_id
profile_of(const struct mgmt *mgmt, pid_t tid)
{
    const struct dataplane *dataplane = mgmt->dataplane;

    if (tid == getpid()) {
        return PROFILE_MGMT;
    }
    if (tid == dataplane->helper->tid) {
        return PROFILE_HELPER;
    }
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        if (dataplane->lcores[i]->tid == tid) {
            return sandbox_has_ethernet(mgmt->settings, i) ? PROFILE_LCORE_ETHERNET : PROFILE_LCORE;
        }
    }
    return PROFILE_LIBRARY;
}

static void
decide_needs(const struct mgmt *mgmt)
{
    uint32_t ports = 0;

    for (uint32_t i = 0; i < mgmt->settings->port_count; i++) {
        ports |= sandbox_needs_of_port(&mgmt->settings->ports[i]);
    }
    /* What others need is left to their lcores; but the provider "sockets" has a thread of its own. */
    uint32_t beside = ports & (SANDBOX_FABRIC_DEVICE | SANDBOX_TAP | SANDBOX_PCAP | SANDBOX_PCI);
    profiles[PROFILE_MGMT].needs = SANDBOX_BASE | SANDBOX_MGMT | beside;
    profiles[PROFILE_HELPER].needs = SANDBOX_BASE | SANDBOX_HELPER;
    profiles[PROFILE_LIBRARY].needs = SANDBOX_BASE | SANDBOX_LIBRARY | beside | (ports & SANDBOX_FABRIC);
    for (uint32_t i = 0; i < mgmt->dataplane->lcore_count; i++) {
        uint32_t needs = sandbox_needs_of_lcore(mgmt->settings, mgmt->streams.count > 0, i);
        profiles[sandbox_has_ethernet(mgmt->settings, i) ? PROFILE_LCORE_ETHERNET : PROFILE_LCORE].needs = needs;
    }
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        profiles[i].kind = profile_kinds[i];
        profiles[i].files.fd = -1;
        /* The kernel asks for it where pages are pinned beyond RLIMIT_MEMLOCK, and devices pin some while they run. */
        profiles[i].capabilities = profiles[i].needs & (SANDBOX_FABRIC_DEVICE | SANDBOX_PCI) ? OWN_IPC : 0;
    }
}

/* ---- restricting the calling thread: only what a signal handler may do ---- */

/* The bounding set is dropped where the thread may do so; where it may not, no_new_privs makes it meaningless. */
static int
drop_capabilities(uint64_t kept)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) != 0) {
        return -errno;
    }
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
        if (!(kept >> capability & 1)) {
            (void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
    }
    for (int half = 0; half < 2; half++) {
        data[half].permitted &= (uint32_t)(kept >> 32 * half);
        data[half].effective = data[half].permitted;
        data[half].inheritable = 0; /* and with it the ambient ones */
    }
    return syscall(SYS_capset, &header, data) == 0 ? 0 : -errno;
}

int
sandbox_restrict(const struct sandbox_profile *profile, const char **step)
{
    int rc;

    *step = "no_new_privs";
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -errno;
    }
    *step = "capabilities";
    rc = drop_capabilities(profile->capabilities);
    if (rc == 0 && profile->files.fd >= 0) {
        *step = "Landlock";
        rc = sandbox_files_take(&profile->files);
    }
    if (rc == 0 && profile->has_filter) {
        *step = "seccomp";
        rc = sandbox_filter_take(&profile->filter);
    }
    return rc;
}

static void
on_signal(int number, siginfo_t *info, void *context)
{
    int error = errno;

    struct job *job = &jobs[(uint32_t)info->si_value.sival_int % THREADS_MAX];
    if (info->si_code == SI_QUEUE && info->si_pid == getpid() && job->tid == gettid()) {
        job->error = sandbox_restrict(&profiles[job->profile], &job->step);
        store_release(&job->done, 1); /* pairs with the acquire in look_at() */
    }
    errno = error;
}

/* ---- every other thread ---- */

/* A real-time signal that nobody has a handler for: DPDK's tap driver takes one. */
static bool
take_signal(struct sigaction *before)
{
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };

    sigfillset(&action.sa_mask);
    for (signal_number = SIGRTMIN; signal_number <= SIGRTMAX; signal_number++) {
        if (sigaction(signal_number, NULL, before) == 0 && before->sa_handler == SIG_DFL) {
            return sigaction(signal_number, &action, NULL) == 0;
        }
    }
    return false;
}

/* What the kernel says of a thread; false: it has ended. */
struct thread_status {
    char name[32];
    unsigned long long capabilities, blocked;
    int no_new_privs, seccomp;
};

static bool
read_status(pid_t tid, struct thread_status *out)
{
    char path[64], line[256];

    memset(out, 0, sizeof(*out));
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        (void)(sscanf(line, "Name: %31s", out->name) == 1 || sscanf(line, "CapEff: %llx", &out->capabilities) == 1 ||
               sscanf(line, "SigBlk: %llx", &out->blocked) == 1 ||
               sscanf(line, "NoNewPrivs: %d", &out->no_new_privs) == 1 ||
               sscanf(line, "Seccomp: %d", &out->seccomp) == 1);
    }
    if (file != NULL) {
        fclose(file);
    }
    return file != NULL;
}

static bool
ask_thread(const struct mgmt *mgmt, pid_t tid)
{
    siginfo_t info = { .si_signo = signal_number, .si_code = SI_QUEUE };

    if (job_count == THREADS_MAX) {
        return false;
    }
    jobs[job_count] = (struct job){ .tid = tid, .profile = profile_of(mgmt, tid), .asked_ms = loop_now_ms() };
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = (int)job_count++;
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signal_number, &info) == 0 || errno == ESRCH;
}

static struct job *
job_of(pid_t tid)
{
    for (uint32_t i = 0; i < job_count; i++) {
        if (jobs[i].tid == tid) {
            return &jobs[i];
        }
    }
    return NULL;
}

enum look { LOOK_DONE, LOOK_WAIT, LOOK_FAILED };

/* A thread that blocks the signal cannot be restricted: where there is seccomp, that is a reason not to start. An
 * emulator, which has none, has such threads of its own. */
static enum look
look_at(const struct job *job, bool fatal, char *why, size_t why_bytes)
{
    struct thread_status status;

    /* acquire: pairs with the release in on_signal() */
    if (load_acquire(&job->done)) {
        snprintf(why, why_bytes, "sandbox: thread %d: %s: %s", (int)job->tid, job->step, strerror(-job->error));
        return job->error == 0 ? LOOK_DONE : LOOK_FAILED;
    }
    if (!read_status(job->tid, &status)) {
        return LOOK_DONE; /* it has ended */
    }
    bool late = loop_now_ms() - job->asked_ms >= LIMIT_MS;
    bool blocked = loop_now_ms() - job->asked_ms >= BLOCKED_MS && (status.blocked >> (signal_number - 1) & 1);
    snprintf(why, why_bytes,
             "sandbox: thread %d (%s) %s and cannot be restricted; --set sandbox.mode=off starts without",
             (int)job->tid, status.name, blocked ? "blocks the signal that asks it to" : "does not take a signal");
    if (blocked && !fatal) {
        unreachable++;
        return LOOK_DONE;
    }
    return blocked || late ? LOOK_FAILED : LOOK_WAIT;
}

/* One look at every thread there is. */
static enum look
look_at_all(const struct mgmt *mgmt, bool fatal, char *why, size_t why_bytes)
{
    DIR *dir = opendir("/proc/self/task");
    enum look worst = LOOK_DONE;
    struct dirent *entry;

    unreachable = 0;
    if (dir == NULL) {
        snprintf(why, why_bytes, "sandbox: /proc/self/task: %s; --set sandbox.mode=off starts without",
                 strerror(errno));
        return LOOK_FAILED;
    }
    while (worst != LOOK_FAILED && (entry = readdir(dir)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        const struct job *job = job_of(tid);
        if (tid <= 0 || tid == getpid()) {
            continue;
        }
        if (job != NULL) {
            worst = MAX(worst, look_at(job, fatal, why, why_bytes));
        } else if (ask_thread(mgmt, tid)) {
            worst = MAX(worst, LOOK_WAIT);
        } else {
            snprintf(why, why_bytes, "sandbox: thread %d cannot be asked: %s", (int)tid,
                     job_count == THREADS_MAX ? "too many threads" : strerror(errno));
            worst = LOOK_FAILED;
        }
    }
    closedir(dir);
    return worst;
}

/* Until a look finds only threads that are restricted: what they start inherits it. */
static bool
restrict_others(const struct mgmt *mgmt, bool fatal, char *why, size_t why_bytes)
{
    struct timespec pause = { .tv_nsec = 200000 };
    struct sigaction before;
    enum look look;

    if (!take_signal(&before)) {
        snprintf(why, why_bytes, "sandbox: no real-time signal is free");
        return false;
    }
    while ((look = look_at_all(mgmt, fatal, why, why_bytes)) == LOOK_WAIT) {
        nanosleep(&pause, NULL);
    }
    sigaction(signal_number, &before, NULL);
    return look == LOOK_DONE;
}

/* ---- the whole ---- */

static void
say_missing(char *missing, size_t bytes, const char *what)
{
    size_t used = strlen(missing);
    snprintf(missing + used, bytes - used, "%s%s", used > 0 ? ", " : "", what);
}

static void
open_profiles(const struct mgmt *mgmt, bool filters, char *missing, size_t missing_bytes)
{
    int version = sandbox_files_abi(), landlock = version > 0 ? 0 : -ENOSYS;

    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        struct sandbox_profile *profile = &profiles[i];
        if (profile->needs == 0) {
            continue; /* no such lcore */
        }
        profile->has_filter = filters;
        if (filters) {
            sandbox_filter_open(&profile->filter, profile->needs);
        }
        sandbox_files_gather(&profile->files, mgmt, profile->needs);
        landlock = landlock != 0 ? landlock : sandbox_files_open(&profile->files);
    }
    if (!filters) {
        say_missing(missing, missing_bytes, "seccomp filters");
    }
    for (size_t i = 0; landlock != 0 && i < PROFILE_COUNT; i++) {
        sandbox_files_close(&profiles[i].files);
    }
    if (landlock != 0) {
        say_missing(missing, missing_bytes, "Landlock");
        return;
    }
    landlock_version = version;
}

static void
close_profiles(void)
{
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        sandbox_filter_close(&profiles[i].filter);
        sandbox_files_close(&profiles[i].files);
    }
}

bool
sandbox_enter(const struct mgmt *mgmt, char *why, size_t why_bytes)
{
    bool required = strcmp(mgmt->settings->sandbox_mode, "required") == 0, filters = sandbox_filter_is_possible();
    char missing[256] = "";
    const char *step;

    decide_needs(mgmt);
    if (strcmp(mgmt->settings->sandbox_mode, "off") == 0) {
        return true;
    }
    if (CRASH_SANITIZED) { /* its own calls, threads and files are not ours to list */
        snprintf(state_text, sizeof(state_text), "off: built with a sanitizer");
        snprintf(why, why_bytes, "sandbox.mode: \"required\", but this program was built with a sanitizer");
        return !required;
    }
    open_profiles(mgmt, filters, missing, sizeof(missing));
    if (required && missing[0] != '\0') {
        snprintf(why, why_bytes, "sandbox.mode: \"required\", but this kernel has no %s; \"on\" takes what there is",
                 missing);
        return false;
    }
    sandbox_names_open();
    tzset(); /* reads /etc/localtime, once; and jansson /dev/urandom, for keys that nobody can guess */
    json_object_seed(0);
    if (!restrict_others(mgmt, filters || required, why, why_bytes)) {
        return false;
    }
    if (unreachable > 0) {
        say_missing(missing, sizeof(missing), "threads that block signals");
    }
    int rc = sandbox_restrict(&profiles[PROFILE_MGMT], &step);
    if (rc != 0) {
        snprintf(why, why_bytes, "sandbox: %s: %s", step, strerror(-rc));
        return false;
    }
    close_profiles();
    snprintf(state_text, sizeof(state_text), "on%s%s", missing[0] == '\0' ? "" : ", without ", missing);
    if (missing[0] != '\0') {
        log_warning("sandbox: %s", state_text);
    }
    return true;
}

/* ---- what is said of it ---- */

const char *
sandbox_state(void)
{
    return state_text;
}

int
sandbox_landlock(void)
{
    return landlock_version;
}

static json_t *
needs_text(uint32_t needs)
{
    char text[256] = "";

    for (size_t i = 0; i < SANDBOX_NEED_COUNT; i++) {
        if (needs >> i & 1) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof(text) - used, "%s%s", used > 0 ? " " : "", sandbox_need_names[i]);
        }
    }
    return json_string(text);
}

/* What the threads of one kind have in common. */
struct summary {
    int threads;
    unsigned long long capabilities; /* of any */
    bool no_new_privs, seccomp;      /* of all */
};

static void
summarise(const struct mgmt *mgmt, struct summary summaries[PROFILE_COUNT])
{
    DIR *dir = opendir("/proc/self/task");
    struct thread_status status;
    struct dirent *entry;

    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        summaries[i] = (struct summary){ .no_new_privs = true, .seccomp = true };
    }
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0 && read_status(tid, &status)) {
            struct summary *summary = &summaries[profile_of(mgmt, tid)];
            summary->threads++;
            summary->capabilities |= status.capabilities;
            summary->no_new_privs = summary->no_new_privs && status.no_new_privs == 1;
            summary->seccomp = summary->seccomp && status.seccomp == 2;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static json_t *
capabilities_text(unsigned long long capabilities)
{
    return capabilities == 0         ? json_string("none")
           : capabilities == OWN_IPC ? json_string("ipc_lock")
                                     : json_sprintf("0x%llx", capabilities);
}

json_t *
sandbox_threads(const struct mgmt *mgmt)
{
    struct summary summaries[PROFILE_COUNT];
    static char files[4096];
    json_t *rows = json_array();

    summarise(mgmt, summaries);
    for (size_t i = 0; i < PROFILE_COUNT; i++) {
        const struct sandbox_profile *profile = &profiles[i];
        if (profile->needs == 0 || summaries[i].threads == 0) {
            continue;
        }
        json_array_append_new(
            rows, json_pack("{s:s,s:i,s:o,s:b,s:b,s:i,s:s,s:o}", "kind", profile->kind, "threads", summaries[i].threads,
                            "capabilities", capabilities_text(summaries[i].capabilities), "no_new_privs",
                            summaries[i].no_new_privs, "seccomp", summaries[i].seccomp, "calls",
                            (int)profile->filter.calls, "files",
                            sandbox_landlock() > 0 ? sandbox_files_text(&profile->files, files, sizeof(files)) : "all",
                            "needs", needs_text(profile->needs)));
    }
    return rows;
}
