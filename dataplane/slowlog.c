#include "dataplane/slowlog.h"
#include "dataplane/lcore.h"

static_assert(SLOWLOG_ARG_BYTES < 256, "a length byte");

static uint16_t
text_fill(uint8_t text[SLOWLOG_TEXT_BYTES], const struct request *request)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < request->args_count && i < SLOWLOG_ARGS; i++) {
        char number[ARG_TEXT_BYTES];
        struct slice bytes = arg_bytes(&request->args[i], number);
        size_t kept = MIN(bytes.bytes, SLOWLOG_ARG_BYTES);
        if (used + 1 + kept > SLOWLOG_TEXT_BYTES) {
            break;
        }
        text[used++] = (uint8_t)kept;
        memcpy(text + used, bytes.data, kept);
        used += (uint32_t)kept;
    }
    return (uint16_t)used;
}

void
slowlog_write(struct lcore *lcore, const struct session *session, const struct request *request, uint32_t neighbours,
              uint64_t queue_cycles, uint64_t service_cycles)
{
    struct slowlog *log = lcore->slowlog;
    uint64_t number = load_relaxed(&log->count) + 1; /* one writer */
    struct slowlog_slot *slot = &log->slots[number % SLOWLOG_KEPT];
    struct slow_record record = {
        .number = number,
        .unix_ms = lcore->now_ms,
        .queue_ns = lcore_ns(lcore, queue_cycles),
        .service_ns = lcore_ns(lcore, service_cycles),
        .session_id = session->id,
        .neighbours = neighbours,
        .command = (uint16_t)request->command->id,
        .args_count = (uint16_t)MIN(request->args_count, UINT16_MAX),
    };
    uint64_t words[SLOWLOG_WORDS];

    if (!(request->command->flags & CMD_NOAUTH)) { /* AUTH and HELLO carry passwords */
        record.text_bytes = text_fill(record.text, request);
    }
    memcpy(words, &record, sizeof(record));
    uint64_t sequence = load_relaxed(&slot->sequence); /* one writer */
    store_relaxed(&slot->sequence, sequence + 1);
    fence_release(); /* pairs with the fence in slowlog_read(): a new word is seen with an odd sequence or a later one
                      */
    for (size_t i = 0; i < SLOWLOG_WORDS; i++) {
        store_relaxed(&slot->words[i], words[i]);
    }
    store_release(&slot->sequence, sequence + 2); /* pairs with the acquire in slowlog_read() */
    store_release(&log->count, number);           /* pairs with the acquire of whoever asks how many there are */
}

bool
slowlog_read(const struct slowlog *log, uint64_t number, struct slow_record *out)
{
    struct slowlog_slot *slot = (struct slowlog_slot *)&log->slots[number % SLOWLOG_KEPT];
    uint64_t words[SLOWLOG_WORDS];
    uint64_t before = load_acquire(&slot->sequence); /* pairs with the release at the end of slowlog_write() */

    for (size_t i = 0; i < SLOWLOG_WORDS; i++) {
        words[i] = load_relaxed(&slot->words[i]);
    }
    fence_acquire(); /* pairs with the fence in slowlog_write() */
    if ((before & 1) || load_relaxed(&slot->sequence) != before) {
        return false;
    }
    memcpy(out, words, sizeof(*out));
    return out->number == number && number != 0;
}
