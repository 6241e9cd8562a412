/* pipeline.c - requests patched, sent and counted. */
#include "tools/bench/pipeline.h"

/* More slots than that gain nothing: a batch seldom meets the end of the ring. */
#define RING_BYTES_ENOUGH (1u << 20)
/* Between two looks for replies while nothing comes. */
#define PATCHES_A_TURN    8

static bool
ring_fill(struct pipeline *pipeline, uint32_t slots, char *why, size_t why_bytes)
{
    const struct load *load = pipeline->load;
    uint64_t turn_bytes = 0, bytes = 0;
    for (uint32_t i = 0; i < load->schedule_count; i++) {
        turn_bytes += load->templates[load->schedule[i]].count;
    }
    CHECK(turn_bytes > 0); /* a load has at least one request, and none is empty */
    if (turn_bytes > PIPELINE_RING_BYTES_MAX) {
        snprintf(why, why_bytes, "the requests of one turn take %llu MiB, at most %u are encoded ahead",
                 (unsigned long long)(turn_bytes >> 20), PIPELINE_RING_BYTES_MAX >> 20);
        return false;
    }
    uint32_t turns = (slots + load->schedule_count - 1) / load->schedule_count;
    turns = (uint32_t)MAX((uint64_t)1, MIN((uint64_t)turns, RING_BYTES_ENOUGH / turn_bytes));
    pipeline->slot_count = turns * load->schedule_count;
    pipeline->offsets = malloc((pipeline->slot_count + 1) * sizeof(*pipeline->offsets));
    pipeline->ring = malloc(turns * turn_bytes);
    CHECK(pipeline->offsets != NULL && pipeline->ring != NULL);
    for (uint32_t slot = 0; slot < pipeline->slot_count; slot++) {
        const struct load_template *template = &load->templates[load->schedule[slot % load->schedule_count]];
        memcpy(pipeline->ring + bytes, template->bytes, template->count);
        pipeline->offsets[slot] = (uint32_t)bytes;
        bytes += template->count;
    }
    pipeline->offsets[pipeline->slot_count] = (uint32_t)bytes;
    return true;
}

bool
pipeline_open(struct pipeline *pipeline, const struct load *load, struct client *client, enum client_wire wire,
              uint32_t slots, uint64_t seed, char *why, size_t why_bytes)
{
    *pipeline = (struct pipeline){ .client = client, .load = load, .state.random.state = seed };
    scanner_init(&pipeline->scanner, wire, load->plan.ops[0].value_bytes);
    for (uint32_t i = 0; i < load->schedule_count; i++) {
        scanner_expect(&pipeline->scanner, load->plan.ops[load->schedule[i]].expected);
    }
    return ring_fill(pipeline, slots, why, why_bytes);
}

void
pipeline_close(struct pipeline *pipeline)
{
    client_close(pipeline->client);
    free(pipeline->ring);
    free(pipeline->offsets);
    *pipeline = (struct pipeline){ 0 };
}

static void
slot_patch(struct pipeline *pipeline)
{
    const struct load *load = pipeline->load;
    uint32_t turn = pipeline->patch_turn;
    load_patch(load, &pipeline->state, load->schedule[turn], pipeline->ring + pipeline->offsets[pipeline->patch_slot]);
    pipeline->patch_turn = turn + 1 == load->schedule_count ? 0 : turn + 1;
    pipeline->patch_slot++;
}

uint32_t
pipeline_issue(struct pipeline *pipeline, uint32_t count, bool *broken)
{
    uint32_t issued = 0;
    while (issued < count) {
        if (pipeline->issue_slot == pipeline->slot_count) {
            if (!pipeline_send(pipeline)) {
                *broken = true;
                return issued;
            }
            if (pipeline_backed_up(pipeline)) {
                return issued;
            }
            pipeline->issue_slot = pipeline->patch_slot = 0;
            pipeline->send_from = pipeline->send_to = 0;
        }
        uint32_t end = MIN(pipeline->issue_slot + (count - issued), pipeline->slot_count);
        while (pipeline->patch_slot < end) {
            slot_patch(pipeline);
        }
        issued += end - pipeline->issue_slot;
        pipeline->issued += end - pipeline->issue_slot;
        pipeline->issue_slot = end;
        pipeline->send_to = pipeline->offsets[end];
    }
    *broken = !pipeline_send(pipeline);
    return issued;
}

bool
pipeline_send(struct pipeline *pipeline)
{
    while (pipeline->send_from < pipeline->send_to) {
        ssize_t sent = client_raw_send(pipeline->client, pipeline->ring + pipeline->send_from,
                                       pipeline->send_to - pipeline->send_from);
        if (sent <= 0) {
            return sent == 0;
        }
        pipeline->send_from += (size_t)sent;
    }
    return true;
}

/* Up to the end of the ring. */
static void
patch_ahead(struct pipeline *pipeline, uint32_t ahead)
{
    for (int i = 0; i < PATCHES_A_TURN && pipeline->patch_slot < pipeline->slot_count &&
                    pipeline->patch_slot - pipeline->issue_slot < ahead;
         i++) {
        slot_patch(pipeline);
    }
}

static const char unasked[] = "a reply that nobody asked for";

bool
pipeline_receive(struct pipeline *pipeline, uint32_t ahead)
{
    struct slice view;
    if (UNLIKELY(client_raw_receive(pipeline->client, &view) != CLIENT_OK)) {
        return false;
    }
    if (view.bytes == 0) {
        patch_ahead(pipeline, ahead);
        return true;
    }
    client_raw_take(pipeline->client, scanner_scan(&pipeline->scanner, view));
    pipeline->done = pipeline->scanner.replies;
    if (UNLIKELY(pipeline->done > pipeline->issued)) {
        pipeline->scanner.malformed = unasked;
        pipeline->done = pipeline->issued;
    }
    return pipeline->scanner.malformed == NULL;
}

bool
pipeline_is_silent(struct pipeline *pipeline)
{
    struct slice view;
    if (client_raw_receive(pipeline->client, &view) == CLIENT_OK && view.bytes > 0) {
        pipeline->scanner.malformed = unasked;
        return false;
    }
    return true; /* what is closed now was answered */
}

const char *
pipeline_why(const struct pipeline *pipeline)
{
    return pipeline->scanner.malformed != NULL ? pipeline->scanner.malformed : client_why(pipeline->client);
}
