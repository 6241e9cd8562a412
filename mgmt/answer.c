#include "mgmt/answer.h"
#include "mgmt/answer_client.h"
#include "mgmt/mgmt.h"
#include <stdarg.h>

void
answers_open(struct answers *answers)
{
    memset(answers, 0, sizeof(*answers));
    answers->unsent_tail = &answers->unsent;
    answers->waiting_tail = &answers->waiting;
    reply_memory_open(&answers->memory, LIMIT_REPLY_BYTES);
}

void
answers_close(struct answers *answers)
{
    reply_memory_close(&answers->memory);
}

/* ---- words ---- */

const char *
answer_word(struct slice argument, char out[ANSWER_WORD_BYTES])
{
    size_t bytes = MIN(argument.bytes, ANSWER_WORD_BYTES - 1);

    for (size_t i = 0; i < bytes; i++) {
        uint8_t c = argument.data[i];
        out[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[bytes] = '\0';
    return out;
}

bool
answer_argument_is(const struct later *later, uint32_t index, const char *lower)
{
    return index < later->args_count && slice_equal_nocase(later->args[index], lower);
}

/* ---- the reply ---- */

struct reply *
answer_begin(struct mgmt *mgmt, const struct later *later)
{
    struct answers *answers = &mgmt->answers;

    reply_memory_reset(&answers->memory);
    reply_init(&answers->reply, later->wire, &answers->memory.sink);
    reply_begin(&answers->reply, later->correlation);
    return &answers->reply;
}

static void
answer_post(struct mgmt *mgmt, struct later *later)
{
    struct mail mail = { .kind = MAIL_LATER_REPLY, .p = later };

    if (!dataplane_post(mgmt->dataplane, later->from, &mail)) {
        later->next = NULL;
        *mgmt->answers.unsent_tail = later;
        mgmt->answers.unsent_tail = &later->next;
    }
}

void
answer_end(struct mgmt *mgmt, struct later *later)
{
    struct answers *answers = &mgmt->answers;

    reply_end(&answers->reply);
    if (answers->memory.sink.failed) {
        reply_restart(&answers->reply);
        reply_error(&answers->reply, "ERR the reply is longer than 4 MiB");
        reply_end(&answers->reply);
    }
    struct slice bytes = reply_memory_bytes(&answers->memory);
    if (bytes.bytes <= sizeof(later->answer)) {
        memcpy(later->answer, bytes.data, bytes.bytes);
    } else {
        later->answer_big = malloc(bytes.bytes);
        CHECK(later->answer_big != NULL);
        memcpy(later->answer_big, bytes.data, bytes.bytes);
    }
    later->answer_bytes = (uint32_t)bytes.bytes;
    later->answered = true;
    answers->served++;
    answer_post(mgmt, later);
}

void
answer_error(struct mgmt *mgmt, struct later *later, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    reply_error(answer_begin(mgmt, later), text);
    answer_end(mgmt, later);
}

/* ---- mail ---- */

void
answers_take(struct mgmt *mgmt, struct later *later)
{
    if (later->answered && later->session_id == 0) {
        free(later->answer_big);
        later->answer_big = NULL;
        later->answer_bytes = 0;
        answer_post(mgmt, later);
        return;
    }
    switch (later->kind) {
    case LATER_INFO:
        answer_info(mgmt, later);
        break;
    case LATER_CONFIG:
        answer_config(mgmt, later);
        break;
    case LATER_CLIENT_LIST:
    case LATER_CLIENT_KILL:
        answer_clients(mgmt, later);
        break;
    case LATER_KEYS:
    case LATER_FABRIC_ATTACH:
    case LATER_FABRIC_RESUME:
    case LATER_FABRIC_DETACH:
        CHECK(!"a command of another thread came to the management core");
    }
}

bool
answers_tick(struct mgmt *mgmt, int64_t now_ms)
{
    struct answers *answers = &mgmt->answers;

    for (struct later *later = answers->unsent; later != NULL; later = answers->unsent) {
        struct mail mail = { .kind = MAIL_LATER_REPLY, .p = later };
        struct later *next = later->next; /* posted, it is the lcore's */
        if (!dataplane_post(mgmt->dataplane, later->from, &mail)) {
            break;
        }
        answers->unsent = next;
        if (next == NULL) {
            answers->unsent_tail = &answers->unsent;
        }
    }
    answer_clients_tick(mgmt, now_ms);
    return answers->unsent != NULL || answers->jobs != NULL;
}
