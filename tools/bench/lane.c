#include "tools/bench/lane.h"
#include "config/cycles.h"
#include "tools/bench/machine.h"

/* Round trips after a switch that are not kept. */
#define LEAD_IN 16
#define POLL_NS 100000000

/* ---- whose turn it is ---- */

static void
lane_stop(struct lane *lane)
{
    if (lane->pid != 0 && !lane->is_stopped) {
        machine_process_stop(lane->pid);
        lane->is_stopped = true;
    }
}

static void
lane_continue(struct lane *lane)
{
    if (lane->is_stopped) {
        machine_process_continue(lane->pid);
        lane->is_stopped = false;
    }
}

static void
lanes_turn(struct lanes *lanes, uint32_t index)
{
    for (uint32_t i = 0; i < lanes->count; i++) {
        if (i != index) {
            lane_stop(&lanes->lanes[i]);
        }
    }
    lane_continue(&lanes->lanes[index]);
}

/* ---- connections ---- */

static enum floor_kind
floor_kind_of(const struct client_options *options)
{
    return options->fabric.provider != NULL ? FLOOR_FABRIC : options->path != NULL ? FLOOR_UNIX : FLOOR_TCP;
}

static bool
samples_reserve(struct lane *lane, uint64_t samples)
{
    lane->ticks = malloc(samples * sizeof(*lane->ticks));
    if (lane->ticks != NULL) {
        memset(lane->ticks, 1, samples * sizeof(*lane->ticks)); /* no page fault while measuring */
    }
    return lane->ticks != NULL;
}

static bool
lane_open(struct lanes *lanes, uint32_t index, char *why, size_t why_bytes)
{
    struct lane *lane = &lanes->lanes[index];
    char reason[CLIENT_WHY_BYTES];
    if (lane->kind == LANE_FLOOR) {
        return floor_connect(lane->floor, why, why_bytes);
    }
    lanes_turn(lanes, index);
    lane->client = client_open(&lane->options, reason, sizeof(reason));
    if (lane->client != NULL) {
        lane->subscriber = client_open(&lane->options, reason, sizeof(reason));
    }
    if (lane->subscriber == NULL) {
        snprintf(why, why_bytes, "%s: %.*s", lane->label, (int)sizeof(reason), reason);
        return false;
    }
    return true;
}

bool
lanes_open(struct lanes *lanes, int peer_cpu, char *why, size_t why_bytes)
{
    const struct client_options *ours = &lanes->lanes[0].options;
    for (uint32_t i = 0; i < lanes->count; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (!samples_reserve(lane, lanes->samples)) {
            snprintf(why, why_bytes, "no memory for %llu samples", (unsigned long long)lanes->samples);
            return false;
        }
        if (lane->kind == LANE_FLOOR) { /* it forks: before anything of libfabric is open */
            enum floor_kind kind = floor_kind_of(ours);
            lane->floor = lanes->floor_host != NULL ? floor_open_remote(kind, &ours->fabric, lanes->floor_host,
                                                                        lanes->floor_port, why, why_bytes)
                                                    : floor_open(kind, &ours->fabric, peer_cpu, why, why_bytes);
            if (lane->floor == NULL) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < lanes->count; i++) {
        if (!lane_open(lanes, i, why, why_bytes)) {
            return false;
        }
    }
    return true;
}

static void
lane_disconnect(struct lane *lane)
{
    client_close(lane->client);
    client_close(lane->subscriber);
    lane->client = lane->subscriber = NULL;
}

void
lanes_close(struct lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->count; i++) {
        struct lane *lane = &lanes->lanes[i];
        lanes_turn(lanes, i);
        operation_close(&lane->operation);
        if (lane->client != NULL) {
            operation_cleanup(lane->client);
        }
        lane_disconnect(lane);
        floor_close(lane->floor);
        lane->floor = NULL;
        free(lane->ticks);
        lane->ticks = NULL;
    }
    for (uint32_t i = 0; i < lanes->count; i++) {
        lane_continue(&lanes->lanes[i]);
    }
}

/* ---- one operation ---- */

static struct floor_sizes
floor_sizes_of(const struct operation *operation)
{
    struct floor_sizes sizes = { .request_bytes = (uint32_t)operation->request[0].bytes, .reply_count = 1 };
    sizes.reply_bytes[0] = (uint32_t)operation->answer[0].bytes;
    if (operation->subscriber != NULL) {
        sizes.reply_bytes[sizes.reply_count++] = (uint32_t)operation->message[0].bytes;
    }
    return sizes;
}

static bool
floor_fits(const struct floor *floor, const struct floor_sizes *sizes)
{
    uint32_t largest = sizes->request_bytes;
    for (uint32_t i = 0; i < sizes->reply_count; i++) {
        largest = MAX(largest, sizes->reply_bytes[i]);
    }
    return floor_frame_bytes(floor) == UINT32_MAX || largest + 32 <= floor_frame_bytes(floor);
}

static enum operation_status
floor_begin(const struct lanes *lanes, struct lane *lane, char *why, size_t why_bytes)
{
    if (lane->floor == NULL || !lanes->lanes[0].takes_part) {
        snprintf(why, why_bytes, "there is nothing to compare with");
        return OPERATION_REFUSED;
    }
    struct floor_sizes sizes = floor_sizes_of(&lanes->lanes[0].operation);
    if (!floor_fits(lane->floor, &sizes)) {
        snprintf(why, why_bytes, "request or reply do not fit one frame");
        return OPERATION_REFUSED;
    }
    return OPERATION_OK;
}

/* The connection is of no use any more. */
static enum operation_status
lane_break(struct lane *lane)
{
    operation_close(&lane->operation);
    lane_disconnect(lane);
    floor_close(lane->floor);
    lane->floor = NULL;
    lane->takes_part = false;
    return OPERATION_BROKEN;
}

enum operation_status
lane_begin(struct lanes *lanes, uint32_t index, enum operation_id id, char *why, size_t why_bytes)
{
    struct lane *lane = &lanes->lanes[index];
    enum operation_status status = OPERATION_BROKEN;
    lane->done = 0;
    lane->takes_part = false;
    if (lane->kind == LANE_FLOOR) {
        status = floor_begin(lanes, lane, why, why_bytes);
    } else if (lane->client == NULL) {
        snprintf(why, why_bytes, "the connection is gone");
    } else {
        lanes_turn(lanes, index);
        operation_close(&lane->operation);
        status =
            operation_open(&lane->operation, id, lane->client, lane->subscriber, lanes->value_bytes, why, why_bytes);
    }
    lane->takes_part = status == OPERATION_OK;
    return status == OPERATION_BROKEN ? lane_break(lane) : status;
}

static void
client_poll(struct client *client)
{
    struct slice view;
    if (client != NULL) {
        client_raw_receive(client, &view); /* a failure is met again by the next round trip */
    }
}

/* A session of the fabric that nobody looks at for as long as its lease is taken for dead; subscribers wait for seven
 * operations. */
static void
lanes_poll(struct lanes *lanes)
{
    int64_t now = machine_now_ns();
    if (now - lanes->polled_ns < POLL_NS) {
        return;
    }
    lanes->polled_ns = now;
    for (uint32_t i = 0; i < lanes->count; i++) {
        client_poll(lanes->lanes[i].client);
        client_poll(lanes->lanes[i].subscriber);
    }
}

/* Round trips taken: fewer than `count` after Ctrl-C. False: `why`. */
static bool
operation_block(struct operation *operation, uint64_t *ticks, uint32_t count, uint32_t *taken, char *why,
                size_t why_bytes)
{
    for (*taken = 0; *taken < count && !machine_interrupted(); (*taken)++) {
        uint64_t begin = cycles_now();
        bool good = operation_run(operation, *taken % OPERATION_VARIANTS, why, why_bytes);
        uint64_t end = cycles_now();
        if (UNLIKELY(!good)) {
            return false;
        }
        ticks[*taken] = end - begin;
    }
    return true;
}

enum operation_status
lane_block(struct lanes *lanes, uint32_t index, uint32_t count, bool keep, char *why, size_t why_bytes)
{
    static uint64_t ticks[LEAD_IN + LANE_BLOCK];
    struct lane *lane = &lanes->lanes[index];
    uint32_t lead = lanes->count > 1 ? LEAD_IN : 0, taken = lead + count;
    bool good;
    CHECK(lane->takes_part && count <= LANE_BLOCK && (!keep || lane->done + count <= lanes->samples));
    lanes_turn(lanes, index);
    lanes_poll(lanes);
    if (lane->kind == LANE_FLOOR) { /* its blocks end whole */
        struct floor_sizes sizes = floor_sizes_of(&lanes->lanes[0].operation);
        good = floor_run(lane->floor, &sizes, ticks, lead + count, why, why_bytes);
    } else {
        good = operation_is_silent(&lane->operation, why, why_bytes) &&
               operation_block(&lane->operation, ticks, lead + count, &taken, why, why_bytes) &&
               operation_is_silent(&lane->operation, why, why_bytes);
    }
    if (keep && good && taken > lead) {
        memcpy(lane->ticks + lane->done, ticks + lead, (taken - lead) * sizeof(*ticks));
        lane->done += taken - lead;
    }
    return good ? OPERATION_OK : lane_break(lane);
}

void
lane_finish(struct lanes *lanes, uint32_t index, enum operation_id id)
{
    struct lane *lane = &lanes->lanes[index];
    lane->results[id] = summary_of(lane->ticks, lane->done, machine_ns_per_cycle());
}
