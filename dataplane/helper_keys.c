/* helper_keys.c - KEYS: the keys that match are copied while the index is walked, for a reply begins with their number.
 * What was copied is given back as the answer grows, so both together stay near the size of one. */
#include "dataplane/dataplane.h"
#include "dataplane/glob.h"
#include "dataplane/helper.h"
#include "store/scan.h"

#define CHAIN_ROOM   256 /* records of one step of the scan */
#define LENGTH_BYTES sizeof(uint16_t)
static_assert(LIMIT_KEY_BYTES <= UINT16_MAX, "a key's length is 16 bits");

void
helper_keys_begin(struct helper *helper)
{
    struct helper_job *job = &helper->job;
    job->is_walking = true;
    job->cursor = job->left = 0;
    stream_out_init(&job->keys, helper->memory, &helper->reserve, LIMIT_REPLY_BYTES);
    stream_out_init(&job->later->out, helper->memory, &helper->reserve, LIMIT_REPLY_BYTES);
    bool good = glob_open(job->pattern, job->later->args[0], false);
    assert(good); /* exec_keys() looked */
    (void)good;
}

void
helper_keys_end(struct helper *helper)
{
    stream_out_fini(&helper->job.keys);
}

/* Nothing of a chain that finds no memory stays: it is looked at again. */
static enum helper_step
walk_step(struct helper *helper)
{
    struct helper_job *job = &helper->job;
    const struct record *found[CHAIN_ROOM];
    struct sink *sink = &job->keys.sink;
    struct scan_step step = scan_next(helper->store, job->cursor, found, CHAIN_ROOM);
    uint64_t mark = sink_offset(sink), taken = 0;
    for (uint32_t i = 0; i < step.count; i++) {
        struct slice key = record_key(found[i]);
        if (glob_match(job->pattern, key)) {
            uint16_t bytes = (uint16_t)key.bytes;
            sink_write(sink, slice_of(&bytes, LENGTH_BYTES));
            sink_write(sink, key);
            taken++;
        }
    }
    if (sink->failed) {
        sink_rewind(sink, mark);
        return job->keys.starved ? HELPER_STEP_STARVED : HELPER_STEP_TOO_LONG;
    }
    job->cursor = step.next;
    job->left += taken;
    return step.next == 0 ? HELPER_STEP_DONE : HELPER_STEP_MORE;
}

static void
answer_begin(struct helper *helper)
{
    struct helper_job *job = &helper->job;
    job->is_walking = false;
    reply_init(&job->reply, job->later->wire, &job->later->out.sink);
    reply_begin(&job->reply, job->later->correlation);
    reply_array(&job->reply, (uint32_t)job->left);
}

static void
answer_key(struct helper *helper)
{
    struct helper_job *job = &helper->job;
    struct stream_out *keys = &job->keys;
    uint16_t bytes;
    stream_out_copy(keys, keys->acknowledged, (uint8_t *)&bytes, LENGTH_BYTES);
    stream_out_copy(keys, keys->acknowledged + LENGTH_BYTES, helper->key, bytes);
    stream_out_acknowledge(keys, keys->acknowledged + LENGTH_BYTES + bytes);
    reply_bulk(&job->reply, slice_of(helper->key, bytes));
    job->left--;
}

enum helper_step
helper_keys_step(struct helper *helper)
{
    struct helper_job *job = &helper->job;
    struct stream_out *out = &job->later->out;
    enum helper_step step = HELPER_STEP_MORE;
    if (job->is_walking) {
        for (uint32_t i = 0; i < HELPER_STEP_CHAINS && step == HELPER_STEP_MORE; i++) {
            step = walk_step(helper);
        }
        if (step != HELPER_STEP_DONE) {
            return step;
        }
        answer_begin(helper);
    }
    for (uint32_t i = 0; i < HELPER_STEP_KEYS && job->left > 0 && !out->sink.failed; i++) {
        answer_key(helper);
    }
    if (job->left > 0 && !out->sink.failed) {
        return HELPER_STEP_MORE;
    }
    reply_end(&job->reply);
    if (!out->sink.failed) {
        return HELPER_STEP_DONE;
    }
    return out->starved ? HELPER_STEP_NO_MEMORY : HELPER_STEP_TOO_LONG;
}
