#include "mgmt/mgmt.h"
#include "dataplane/hot_keys.h"
#include "mgmt/crash.h"
#include "mgmt/ctl.h"
#include "mgmt/ethernet.h"
#include "mgmt/live.h"
#include "mgmt/log.h"
#include "mgmt/notify.h"
#include "mgmt/placement.h"
#include "mgmt/sandbox.h"
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define TICK_MS        1  /* while something moves that must be looked after */
#define TICK_IDLE_MS   16 /* after IDLE_TICKS without: each wake-up may take some 20 us from an lcore on the same CPU */
#define IDLE_TICKS     100
#define MAIL_PER_TURN  256  /* from one lcore */
#define DRAIN_GRACE_MS 700  /* beyond shutdown.drain; with the rest of closing it stays below a second */
#define ENDING_MS      5000 /* beyond shutdown.drain, for systemd: closing frees all memory, which may take seconds */
#define FLUSH_MS       100  /* for the last answers on the management socket */
#define CTL_TICK_MS    100
#define SPARE_FILES    256 /* descriptors besides those of sessions */

#if defined(__x86_64__)
#define CYCLES_NAME "tsc"
#else
#define CYCLES_NAME "cntvct"
#endif

/* ---- what others ask ---- */

bool
mgmt_serves(const struct mgmt *mgmt)
{
    return mgmt->state == MGMT_RUN || mgmt->state == MGMT_LEAVE;
}

bool
mgmt_is_ready(const struct mgmt *mgmt)
{
    return mgmt->state == MGMT_RUN && mgmt->stalled_lcore < 0;
}

const char *
mgmt_state_text(const struct mgmt *mgmt)
{
    static const char *const texts[] = { "booting", "running", "leaving", "draining", "stopped" };
    return texts[mgmt->state];
}

const char *
mgmt_clock_text(const struct mgmt *mgmt)
{
    if (!mgmt->dataplane->trusts_cycles) {
        return "shared counter: the kernel does not trust the cycle counter";
    }
    return store_uses_cycles(mgmt->dataplane->store) ? CYCLES_NAME : "shared counter: the cycle counter is too coarse";
}

/* ---- boot ---- */

void
mgmt_raise_file_limit(const struct settings *settings)
{
    struct rlimit limit;
    rlim_t wanted = settings->limits_clients + SPARE_FILES;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return;
    }
    limit.rlim_cur = MIN(wanted, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        log_warning("limits.clients is %llu, but only %llu files may be open (RLIMIT_NOFILE): raise that limit",
                    (unsigned long long)settings->limits_clients, (unsigned long long)limit.rlim_cur);
    }
}

static bool
copy_path(char to[PATHS_SOCKET_BYTES], const char *from, const char *setting, char *why, size_t why_bytes)
{
    if (strlen(from) >= PATHS_SOCKET_BYTES) {
        snprintf(why, why_bytes, "%s: %s is longer than the %d bytes of a socket's path", setting, from,
                 PATHS_SOCKET_BYTES - 1);
        return false;
    }
    strcpy(to, from);
    return true;
}

/* Where "auto" is: the management socket in the runtime directory, the streams' beside it. */
static bool
resolve_paths(struct mgmt *mgmt, char *why, size_t why_bytes)
{
    const struct settings *settings = mgmt->settings;
    char path[SETTING_TEXT_BYTES + 32], dir[SETTING_TEXT_BYTES];

    if (strcmp(settings->management_socket, "auto") == 0) {
        paths_management_socket(path, sizeof(path));
        paths_runtime_dir(dir, sizeof(dir));
        if (strncmp(path, dir, strlen(dir)) == 0 && !paths_runtime_dir_make(dir, why, why_bytes)) {
            return false;
        }
    } else {
        snprintf(path, sizeof(path), "%s", settings->management_socket);
    }
    if (!copy_path(mgmt->ctl_path, path, "management.socket", why, why_bytes)) {
        return false;
    }
    if (strcmp(settings->streams_unix, "auto") == 0) {
        const char *slash = strrchr(mgmt->ctl_path, '/');
        snprintf(path, sizeof(path), "%.*ssluice.sock", slash == NULL ? 0 : (int)(slash - mgmt->ctl_path) + 1,
                 mgmt->ctl_path);
    } else {
        snprintf(path, sizeof(path), "%s", settings->streams_unix);
    }
    return copy_path(mgmt->unix_path, path, "streams.unix", why, why_bytes);
}

static int
open_ctl_listener(struct mgmt *mgmt, char *why, size_t why_bytes)
{
    const struct settings *settings = mgmt->settings;
    gid_t gid = (gid_t)-1;

    if (settings->management_group[0] != '\0') {
        const struct group *group = getgrnam(settings->management_group);
        if (group == NULL) {
            snprintf(why, why_bytes, "management.group: no group \"%s\" on this machine", settings->management_group);
            return -ENOENT;
        }
        gid = group->gr_gid;
    }
    return listener_open_unix(&mgmt->ctl_listener, mgmt->ctl_path, settings->management_mode_bits, gid,
                              "management.socket", why, why_bytes);
}

static void
mail_ready(struct watch *watch, uint32_t events)
{
    /* mail_sleep_end() clears the eventfd; the loop takes the mail after every wait. */
}

static void
signal_ready(struct watch *watch, uint32_t events)
{
    struct mgmt *mgmt = CONTAINER_OF(watch, struct mgmt, signal_watch);
    uint64_t signals = signals_take(watch->fd);

    if (signals & (1ull << SIGHUP)) {
        json_t *changed = json_array(), *restart = json_array();
        char why[SETTINGS_WHY_BYTES];
        (void)live_reload(mgmt, "SIGHUP", changed, restart, why, sizeof(why)); /* the log says it all */
        json_decref(changed);
        json_decref(restart);
    }
    if (signals & (1ull << SIGTERM | 1ull << SIGINT)) {
        mgmt->stop_now = mgmt->state == MGMT_DRAIN;
        mgmt_shutdown(mgmt, signals & (1ull << SIGTERM) ? "SIGTERM" : "SIGINT");
    }
}

/* Sockets first: a taken port is known before memory is populated and modules are opened. */
static int
mgmt_open(struct mgmt *mgmt, char *why, size_t why_bytes)
{
    int error = resolve_paths(mgmt, why, why_bytes) ? open_ctl_listener(mgmt, why, why_bytes) : -EINVAL;

    if (error == 0) {
        error = streams_open(&mgmt->streams, mgmt->settings, mgmt->unix_path, why, why_bytes);
    }
    if (error == 0) {
        error = http_open(&mgmt->http, mgmt->settings, why, why_bytes);
    }
    if (error == 0) {
        placement_open(mgmt);
        error = dataplane_open(mgmt->settings, &mgmt->dataplane, why, why_bytes);
    }
    if (error != 0) {
        return error;
    }
    CHECK(loop_open(&mgmt->loop) == 0);
    live_open(mgmt);
    live_apply(mgmt);
    metrics_open(&mgmt->metrics, mgmt->dataplane);
    answers_open(&mgmt->answers);
    error = dataplane_start(mgmt->dataplane);
    if (error != 0) {
        snprintf(why, why_bytes, "cannot start the lcores: %s", strerror(-error));
        return error;
    }
    mgmt->mail_watch =
        (struct watch){ .fd = mgmt->dataplane->mgmt_waker.event_fd, .events = EPOLLIN, .ready = mail_ready };
    mgmt->signal_watch = (struct watch){ .fd = signals_open(), .events = EPOLLIN, .ready = signal_ready };
    crash_open(mgmt);
    loop_add(&mgmt->loop, &mgmt->mail_watch);
    loop_add(&mgmt->loop, &mgmt->signal_watch);
    ctl_server_open(&mgmt->ctl, &mgmt->loop, mgmt->ctl_listener.fd, ctl_line, mgmt);
    http_start(&mgmt->http, &mgmt->loop, mgmt);
    streams_start(&mgmt->streams, &mgmt->loop, mgmt->dataplane);
    return 0;
}

static void
mgmt_say_ready(struct mgmt *mgmt)
{
    struct text line = { 0 };

    mgmt->state = MGMT_RUN;
    mgmt->ready_ms = loop_now_ms();
    ready_print(mgmt, &line);
    log_line(line.bytes);
    text_fini(&line);
    notify_send("READY=1");
}

/* ---- turns ---- */

static bool
take_mail(struct mgmt *mgmt)
{
    bool took = false;

    for (uint32_t i = 0; i < mgmt->dataplane->lcore_count; i++) {
        struct mail mail;
        for (int count = 0; count < MAIL_PER_TURN && mail_take(mgmt->dataplane->to_mgmt[i], &mail); count++) {
            took = true;
            if (mail.kind == MAIL_LATER_REQUEST) {
                answers_take(mgmt, mail.p);
            } else if (mail.kind == MAIL_HOT_KEYS) {
                struct hot_keys *hot = mail.p;
                hot->done(hot);
            } else {
                CHECK(mail.kind == MAIL_SESSIONS_LIST || mail.kind == MAIL_SESSION_KILL);
                answers_take_page(mgmt, &mail);
            }
        }
    }
    return took;
}

/* An lcore whose loop stands still is named, once; it is not ended, because that would lose everything. */
static void
look_for_stalled(struct mgmt *mgmt)
{
    int32_t stalled = -1;

    for (uint32_t i = 0; i < mgmt->dataplane->lcore_count; i++) {
        struct lcore *lcore = mgmt->dataplane->lcores[i];
        uint64_t turns = load_relaxed(&lcore->counters->turns);
        bool asleep = load_relaxed(&lcore->waker.sleeping) != 0;
        bool runs = load_relaxed(&lcore->state) == LCORE_RUN;
        if (runs && !asleep && turns == mgmt->loops_seen[i]) {
            stalled = (int32_t)i;
        }
        mgmt->loops_seen[i] = turns;
    }
    if (stalled >= 0 && stalled != mgmt->stalled_lcore) {
        const struct lcore *lcore = mgmt->dataplane->lcores[stalled];
        log_error("lcore %d (CPU %d, thread %d) stands still: no turn for a second", stalled, lcore->cpu, lcore->tid);
    }
    if (stalled < 0 && mgmt->stalled_lcore >= 0) {
        log_info("lcore %d turns again", mgmt->stalled_lcore);
    }
    mgmt->stalled_lcore = stalled;
}

/* So is a member of the store that does not report: what is removed cannot be freed, and writers will have to wait. */
static void
look_for_stalled_member(struct mgmt *mgmt)
{
    struct store_stats stats;

    store_stats(mgmt->dataplane->store, &stats);
    if (stats.stalled_member == mgmt->stalled_member) {
        return;
    }
    if (stats.stalled_member >= 0) {
        log_error("%s has not reported to the store for %.1f s: %llu bytes that were removed wait for it",
                  store_member_name(mgmt->dataplane->store, (uint32_t)stats.stalled_member),
                  (double)stats.stalled_ms / 1000, (unsigned long long)stats.limbo_bytes);
    } else {
        log_info("%s reports to the store again",
                 store_member_name(mgmt->dataplane->store, (uint32_t)mgmt->stalled_member));
    }
    mgmt->stalled_member = stats.stalled_member;
}

static void
tick_second(struct mgmt *mgmt, int64_t now_ms)
{
    metrics_tick(&mgmt->metrics);
    dataplane_refresh(mgmt->dataplane);
    ethernet_tick_second(mgmt);
    look_for_stalled(mgmt);
    look_for_stalled_member(mgmt);
    mgmt->second_ms = now_ms;
}

static void
mgmt_tick(struct mgmt *mgmt, uint64_t watchdog_ms)
{
    int64_t now_ms = loop_now_ms();
    bool moves = store_manage(mgmt->dataplane->store);

    moves |= answers_tick(mgmt, now_ms);
    moves |= ctl_sessions_tick(now_ms);
    moves |= ethernet_tick(mgmt);
    if (mgmt->state == MGMT_RUN) {
        moves |= streams_tick(&mgmt->streams, now_ms);
    }
    mgmt->idle_ticks = moves ? 0 : mgmt->idle_ticks + 1;
    if (now_ms - mgmt->ticked_ms >= CTL_TICK_MS) {
        mgmt->ticked_ms = now_ms;
        ctl_server_tick(&mgmt->ctl, now_ms);
        http_tick(&mgmt->http);
    }
    if (now_ms - mgmt->second_ms >= 1000) {
        tick_second(mgmt, now_ms);
    }
    if (watchdog_ms != 0 && now_ms - mgmt->watchdog_ms >= (int64_t)watchdog_ms && mgmt->stalled_lcore < 0) {
        mgmt->watchdog_ms = now_ms;
        notify_send("WATCHDOG=1");
    }
}

void
mgmt_leave(struct mgmt *mgmt, const char *by)
{
    if (mgmt->state != MGMT_RUN) {
        return;
    }
    log_info("%s: no new sessions; those that are there go on", by);
    mgmt->state = MGMT_LEAVE;
    store_relaxed(&mgmt->dataplane->live.leaving, true); /* see live.h: on the ports that lcores accept on */
    streams_stop(&mgmt->streams);
}

void
mgmt_shutdown(struct mgmt *mgmt, const char *by)
{
    if (!mgmt_serves(mgmt)) {
        return;
    }
    log_info("%s: no new connections, ending within %.1f s", by, (double)mgmt->settings->drain_time / 1000);
    mgmt->state = MGMT_DRAIN;
    mgmt->drain_begun_ms = loop_now_ms();
    notify_stopping(mgmt->settings->drain_time + ENDING_MS);
    if (mgmt->streams.loop != NULL) {
        streams_stop(&mgmt->streams);
    }
    dataplane_drain(mgmt->dataplane);
}

static bool
drain_is_late(const struct mgmt *mgmt)
{
    return mgmt->stop_now || (mgmt->state == MGMT_DRAIN && loop_now_ms() - mgmt->drain_begun_ms >
                                                               (int64_t)mgmt->settings->drain_time + DRAIN_GRACE_MS);
}

static void
mgmt_serve(struct mgmt *mgmt)
{
    uint64_t watchdog_ms = notify_watchdog_ms();

    while (!(mgmt->state == MGMT_DRAIN && dataplane_stopped(mgmt->dataplane)) && !drain_is_late(mgmt)) {
        bool busy = mgmt->idle_ticks < IDLE_TICKS || mgmt->state == MGMT_DRAIN;

        mail_sleep_begin(&mgmt->dataplane->mgmt_waker);
        bool took = take_mail(mgmt); /* posted before the flag could be seen */
        took = ctl_keys_walk(mgmt) || took;
        loop_turn(&mgmt->loop, took ? 0 : busy ? TICK_MS : TICK_IDLE_MS);
        mail_sleep_end(&mgmt->dataplane->mgmt_waker);
        take_mail(mgmt);
        mgmt_tick(mgmt, watchdog_ms);
    }
}

/* ---- the end ---- */

static void
mgmt_close(struct mgmt *mgmt)
{
    int64_t until_ms = loop_now_ms() + FLUSH_MS;

    mgmt->state = MGMT_STOPPED;
    while (!ctl_server_is_flushed(&mgmt->ctl) && loop_now_ms() < until_ms) {
        loop_turn(&mgmt->loop, 10);
    }
    ctl_server_close(&mgmt->ctl);
    http_close(&mgmt->http);
    listener_close(&mgmt->ctl_listener);
    loop_remove(&mgmt->loop, &mgmt->mail_watch);
    loop_remove(&mgmt->loop, &mgmt->signal_watch);
    loop_close(&mgmt->loop);
    answers_close(&mgmt->answers);
    metrics_close(&mgmt->metrics);
    ethernet_close(mgmt);
    if (mgmt->store_member != NULL) {
        store_online(mgmt->store_member);
        store_leave(mgmt->store_member);
    }
    dataplane_close(mgmt->dataplane);
    placement_close(mgmt);
    free(mgmt->written);
}

/* Lcores that do not stop cannot be joined; what must not stay behind is removed and the process ends. */
static _Noreturn void
mgmt_abandon(struct mgmt *mgmt)
{
    for (uint32_t i = 0; i < mgmt->dataplane->lcore_count; i++) {
        if (load_acquire(&mgmt->dataplane->lcores[i]->state) != LCORE_STOPPED) { /* pairs with lcore_end() */
            log_error("lcore %u has not drained", i);
        }
    }
    log_error("%s: ending at once", mgmt->stop_now ? "told twice" : "shutdown.drain is over");
    streams_stop(&mgmt->streams);
    listener_close(&mgmt->ctl_listener);
    _exit(1);
}

int
mgmt_run(struct mgmt *mgmt)
{
    char why[1024] = "";

    mgmt->stalled_lcore = mgmt->stalled_member = -1;
    mgmt->ctl_listener.fd = -1;
    log_open(mgmt->settings->log_level);
    mgmt_raise_file_limit(mgmt->settings);
    if (mgmt_open(mgmt, why, sizeof(why)) != 0 || !sandbox_enter(mgmt, why, sizeof(why))) {
        log_error("%s", why);
        streams_stop(&mgmt->streams);
        listener_close(&mgmt->ctl_listener);
        return 1; /* what else was opened ends with the process */
    }
    mgmt->second_ms = loop_now_ms();
    ethernet_log_start(mgmt);
    mgmt_say_ready(mgmt);
    mgmt_serve(mgmt);
    if (!dataplane_stopped(mgmt->dataplane)) {
        mgmt_abandon(mgmt);
    }
    int64_t drained_ms = loop_now_ms() - mgmt->drain_begun_ms;
    mgmt_close(mgmt);
    log_info("stopped after %.2f s", (double)drained_ms / 1000);
    return 0;
}
