/* resp_driver.c - resp_decode() and resp_take() against a guard page. */
#include "test/codec/resp_driver.h"
#include <sys/mman.h>
#include <unistd.h>

const struct decode_limits resp_limits_full = { LIMIT_REQUEST_ARGS, LIMIT_VALUE_BYTES, LIMIT_REQUEST_BYTES };
const struct decode_limits resp_limits_unauth = { LIMIT_UNAUTH_ARGS, LIMIT_UNAUTH_ARG_BYTES, LIMIT_REQUEST_BYTES };

static uint8_t *pages, *guard;
static size_t pages_bytes;
static uint64_t calls, takes;
static struct resp_outcome outcomes[2];
static uint32_t turn;

void
resp_driver_open(size_t bytes_max)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    pages_bytes = ALIGN_UP(bytes_max, page) + page;
    pages = mmap(NULL, pages_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    guard = pages + pages_bytes - page;
    CHECK(mprotect(guard, page, PROT_NONE) == 0);
    for (uint32_t i = 0; i < ARRAY_COUNT(outcomes); i++) {
        outcomes[i].text = malloc(bytes_max + 1);
        CHECK(outcomes[i].text != NULL);
    }
}

void
resp_driver_close(void)
{
    munmap(pages, pages_bytes);
    free(outcomes[0].text);
    free(outcomes[1].text);
}

static void
outcome_fill(struct resp_outcome *outcome, const struct request *request, const uint8_t *wire, size_t bytes)
{
    outcome->wire_bytes = request->wire_bytes;
    outcome->command = request->command;
    outcome->empty = request_is_empty(request);
    outcome->args_count = request->args_count;
    CHECK(request->wire_bytes > 0 && request->wire_bytes <= bytes);
    CHECK(request->error == NULL && request->correlation == 0);
    memcpy(outcome->text, wire, bytes);
    for (uint32_t i = 0; !outcome->empty && i <= request->args_count; i++) {
        struct slice word = i == 0 ? request->name : request->args[i - 1].bytes;
        CHECK(word.data >= wire && word.data + word.bytes <= wire + request->wire_bytes);
        CHECK(i == 0 || request->args[i - 1].kind == ARG_BYTES);
        outcome->words[i] = (struct resp_span){ (uint32_t)(word.data - wire), (uint32_t)word.bytes };
    }
}

/* resp_take() takes nothing but what resp_decode() takes (NULL: nothing), and understands it alike. */
static void
take_check(const uint8_t *at, size_t seen, const struct decode_limits *limits, const struct request *whole)
{
    static struct arg args[LIMIT_REQUEST_ARGS];
    struct arg_room room = { args, 1, ARRAY_COUNT(args) };
    struct request request;

    memset(&request, 0xee, sizeof(request));
    memset(args, 0xee, sizeof(args));
    if (resp_take(at, seen, limits, &room, &request, 1) == 0) {
        CHECK(room.used == 1);
        return;
    }
    CHECK(whole != NULL && whole->command == request.command && whole->args_count == request.args_count);
    CHECK(whole->name.data == request.name.data && whole->name.bytes == request.name.bytes);
    CHECK(whole->wire_bytes == request.wire_bytes && request.correlation == 0 && request.error == NULL);
    CHECK(request.args == args + 1 && room.used == 1 + request.args_count);
    for (uint32_t i = 0; i < request.args_count; i++) {
        CHECK(request.args[i].kind == ARG_BYTES);
        CHECK(whole->args[i].bytes.data == request.args[i].bytes.data);
        CHECK(whole->args[i].bytes.bytes == request.args[i].bytes.bytes);
    }
    takes++;
}

/* What must hold between two calls: nothing is looked at again, and `wanted` does not exceed what may arrive. */
static void
state_check(const struct resp_state *before, const struct resp_state *state, size_t seen, size_t bytes_max)
{
    bool body = state->expected > 0 && state->bulk_bytes >= 0;
    CHECK(state->scanned >= state->position && state->scanned <= seen);
    CHECK(body || state->scanned + 1 >= seen); /* a CR that was the last byte is found again */
    CHECK(state->position >= before->position && state->scanned >= before->scanned);
    CHECK(state->done >= before->done && (state->expected == 0 || state->done < state->expected));
    CHECK(state->wanted > seen && state->wanted <= MAX(bytes_max + 1, MAX(seen + 1, sizeof("*0\r\n") - 1)));
}

static const struct resp_outcome *
drive(struct slice wire, size_t first, size_t step, bool wanted, const struct decode_limits *limits)
{
    static struct resp_span spans[LIMIT_REQUEST_ARGS + 1];
    static struct arg args[LIMIT_REQUEST_ARGS + 3];
    struct resp_outcome *outcome = &outcomes[turn++ % ARRAY_COUNT(outcomes)];
    struct resp_state state = { 0 };
    size_t seen = MIN(first, wire.bytes);

    CHECK(wire.bytes <= (size_t)(guard - pages));
    calls = 0;
    for (;;) {
        uint8_t *at = guard - seen;
        struct arg_room room = { args, 3, ARRAY_COUNT(args) };
        struct request request;
        struct resp_state before = state;

        memset(&request, 0xee, sizeof(request));
        memset(args, 0xee, sizeof(args));
        memcpy(at, wire.data, seen);
        outcome->status = resp_decode(&state, spans, at, seen, limits, &room, &request);
        outcome->error = outcome->status == CODEC_MALFORMED ? request.error : NULL;
        calls++;
        take_check(at, seen, limits, outcome->status == CODEC_OK && *at == '*' ? &request : NULL);
        if (outcome->status == CODEC_OK) {
            CHECK(request.args == args + 3 && room.used == 3 + request.args_count);
            CHECK(memcmp(&state, &(struct resp_state){ 0 }, sizeof(state)) == 0);
            outcome_fill(outcome, &request, at, seen);
            return outcome;
        }
        CHECK(room.used == 3);
        if (outcome->status == CODEC_MALFORMED) {
            CHECK(strncmp(request.error, "ERR Protocol error: ", 20) == 0);
            return outcome;
        }
        CHECK(outcome->status == CODEC_SHORT && memcmp(at, wire.data, seen) == 0);
        state_check(&before, &state, seen, limits->request_bytes_max);
        if (step == 0 || seen == wire.bytes) {
            return outcome;
        }
        seen = MIN(wanted ? state.wanted : seen + step, wire.bytes);
    }
}

const struct resp_outcome *
resp_drive(struct slice wire, size_t first, size_t step, const struct decode_limits *limits)
{
    return drive(wire, first, step, false, limits);
}

const struct resp_outcome *
resp_drive_wanted(struct slice wire, const struct decode_limits *limits)
{
    return drive(wire, 0, 1, true, limits);
}

struct slice
resp_word(const struct resp_outcome *outcome, uint32_t i)
{
    return slice_of(outcome->text + outcome->words[i].offset, outcome->words[i].bytes);
}

bool
resp_outcome_equal(const struct resp_outcome *a, const struct resp_outcome *b)
{
    if (a->status != b->status) {
        return false;
    }
    if (a->status != CODEC_OK) {
        return a->status == CODEC_SHORT || strcmp(a->error, b->error) == 0;
    }
    if (a->wire_bytes != b->wire_bytes || a->command != b->command || a->empty != b->empty ||
        a->args_count != b->args_count) {
        return false;
    }
    for (uint32_t i = 0; !a->empty && i <= a->args_count; i++) {
        if (!slice_equal(resp_word(a, i), resp_word(b, i))) {
            return false;
        }
    }
    return true;
}

uint64_t
resp_driver_calls(void)
{
    return calls;
}

uint64_t
resp_driver_takes(void)
{
    return takes;
}
