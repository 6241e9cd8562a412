/* exec_fixture.c - see exec_fixture.h. */
#include "exec_fixture.h"
#include "codec/resp.h"
#include "dataplane/session.h"
#include <CUnit/Basic.h>

#define OUT_BYTES (8 * MIB)

int64_t fixture_now_ms;
enum fixture_decoy fixture_decoy;
const enum store_status *fixture_answers;
uint32_t fixture_answers_left;
uint32_t fixture_moving_views;
uint64_t fixture_views;

static struct store *store;
static struct store_member *member;
static struct session session;
static struct exec exec;
static struct request request;
static struct reply reply;
static struct sink sink;
static uint8_t out[OUT_BYTES], in[4 * MIB];
static struct arg args[LIMIT_REQUEST_ARGS];
static struct resp_span spans[LIMIT_REQUEST_ARGS + 1];

/* ---- between handlers and store ---- */

enum store_status __real_store_update(struct store_member *at, struct slice key, uint64_t hash, store_change_fn change,
                                      void *context);
enum store_status __wrap_store_update(struct store_member *at, struct slice key, uint64_t hash, store_change_fn change,
                                      void *context);
struct store_view __real_store_view(struct store_member *at, struct slice key, uint64_t hash);
struct store_view __wrap_store_view(struct store_member *at, struct slice key, uint64_t hash);

/* Versions that a racing writer might have left. */
static const struct record *
decoy_record(void)
{
    static _Alignas(16) uint8_t room[128];
    struct record *record = (struct record *)room;
    static const uint8_t hash[] = { 1, 0, 7, 0, 3, 0, 1, 'f', 'v' };
    static const uint8_t zset[] = { 1, 0, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 'm' };
    static const struct {
        enum record_type type;
        struct slice value;
    } decoys[] = {
        [DECOY_STRING] = { RECORD_STRING, { (const uint8_t *)"41", 2 } },
        [DECOY_HASH] = { RECORD_HASH, { hash, sizeof(hash) } },
        [DECOY_ZSET] = { RECORD_ZSET, { zset, sizeof(zset) } },
    };
    if (fixture_decoy <= DECOY_ABSENT) {
        return NULL;
    }
    record->type_flags = (uint8_t)decoys[fixture_decoy].type;
    record->key_bytes = 0;
    record->value_bytes = (uint32_t)decoys[fixture_decoy].value.bytes;
    memcpy(record_value_room(record), decoys[fixture_decoy].value.data, record->value_bytes);
    return record;
}

struct twice {
    store_change_fn change;
    void *context;
};

static enum store_change
change_twice(void *context, struct store_member *at, const struct record *old, struct record **fresh)
{
    struct twice *twice = context;
    enum store_change first = twice->change(twice->context, at, decoy_record(), fresh);
    if (first == STORE_NO_MEMORY) {
        return first;
    }
    struct record *before = *fresh;
    enum store_change second = twice->change(twice->context, at, old, fresh);
    if (before != NULL && *fresh != before) {
        memory_give(store_memory(at), before, record_bytes(before)); /* the store knows of one record */
    }
    return second;
}

enum store_status
__wrap_store_update(struct store_member *at, struct slice key, uint64_t hash, store_change_fn change, void *context)
{
    CU_ASSERT_EQUAL_FATAL(hash, store_hash(store, key)); /* handlers pass the key's own hash */
    if (fixture_answers_left > 0) {
        fixture_answers_left--;
        enum store_status answer = *fixture_answers++;
        if (answer != STORE_OK) {
            return answer;
        }
    }
    struct twice twice = { change, context };
    if (fixture_decoy != DECOY_NONE) {
        return __real_store_update(at, key, hash, change_twice, &twice);
    }
    return __real_store_update(at, key, hash, change, context);
}

struct store_view
__wrap_store_view(struct store_member *at, struct slice key, uint64_t hash)
{
    struct store_view view = __real_store_view(at, key, hash);
    fixture_views++;
    if (fixture_moving_views > 0) {
        fixture_moving_views--;
        view.version = ~fixture_views;
    }
    return view;
}

/* ---- one flat sink ---- */

static bool
out_more(struct sink *at, size_t bytes)
{
    at->failed = true;
    return false;
}

static void
out_rewind(struct sink *at, uint64_t offset)
{
    at->at = out + offset;
    at->failed = false;
}

static const struct sink_ops out_ops = { .more = out_more, .rewind = out_rewind };

/* ---- running ---- */

int
exec_fixture_open(void)
{
    struct store_config config = {
        .memory = { .reserve_bytes = 256 * MIB, .limit_bytes = 192 * MIB, .ahead_bytes = 64 * MIB },
        .keys_expected = 10000,
        .members = 1,
        .trust_cycle_counter = true,
    };
    if (store_open(&config, &store) != 0) {
        return 1;
    }
    member = store_join(store, 0, "test");
    return member == NULL;
}

int
exec_fixture_close(void)
{
    store_leave(member);
    store_close(store);
    return 0;
}

void
exec_fixture_reset(void)
{
    fixture_now_ms = FIXTURE_NOW_MS;
    fixture_decoy = DECOY_NONE;
    fixture_answers_left = 0;
    fixture_moving_views = 0;
    session.flags = 0;
    exec_ask(WIRE_RESP2, "FLUSHALL");
}

void
exec_fixture_subscribe(bool subscribed)
{
    session.flags = subscribed ? SESSION_SUBSCRIBED : 0;
}

/* What happens between two bursts, and on the management core. */
static void
turn(void)
{
    store_quiesce(member);
    store_housekeep(member);
    store_manage(store);
}

static struct exec *
begin_bytes(enum wire wire, size_t bytes)
{
    static const struct decode_limits limits = { LIMIT_REQUEST_ARGS, LIMIT_VALUE_BYTES, LIMIT_REQUEST_BYTES };
    struct resp_state state = { 0 };
    struct arg_room room = { args, 0, LIMIT_REQUEST_ARGS };
    turn();
    store_set_time(member, fixture_now_ms);

    sink = (struct sink){ .at = out, .end = out + sizeof(out), .chunk = out, .ops = &out_ops };
    reply_init(&reply, wire, &sink);
    reply_begin(&reply, 0);
    CU_ASSERT_EQUAL_FATAL(resp_decode(&state, spans, in, bytes, &limits, &room, &request), CODEC_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(request.command);
    exec = (struct exec){
        .request = &request,
        .reply = &reply,
        .store = member,
        .session = &session,
        .now_ms = fixture_now_ms,
    };
    if (request.command->first_key != 0 && request.args_count > 0) {
        exec.hash = store_hash(store, args[request.command->first_key - 1].bytes);
    }
    return &exec;
}

struct exec *
exec_begin(enum wire wire, const char *line)
{
    int bytes = snprintf((char *)in, sizeof(in), "%s\r\n", line);
    return begin_bytes(wire, (size_t)bytes);
}

struct exec *
exec_begin_words(enum wire wire, const struct slice *words, uint32_t count)
{
    size_t at = (size_t)sprintf((char *)in, "*%u\r\n", count);
    for (uint32_t i = 0; i < count; i++) {
        at += (size_t)sprintf((char *)in + at, "$%zu\r\n", words[i].bytes);
        if (words[i].bytes != 0) {
            memcpy(in + at, words[i].data, words[i].bytes);
        }
        at += words[i].bytes;
        memcpy(in + at, "\r\n", 2);
        at += 2;
    }
    return begin_bytes(wire, at);
}

/* As burst.c does: arity before the handler; a retried command leaves no half reply. */
enum exec_result
exec_attempt(struct exec *at)
{
    if (!command_arity_fits(at->request->command, at->request->args_count)) {
        struct slice pieces[] = { SLICE_LITERAL("ERR wrong number of arguments for '"),
                                  slice_text(at->request->command->name), SLICE_LITERAL("' command") };
        reply_error_join(&reply, pieces, ARRAY_COUNT(pieces));
        return EXEC_DONE;
    }
    enum exec_result result = exec_table[at->request->command->id](at);
    if (result == EXEC_RETRY) {
        reply_restart(&reply);
        at->attempt++;
        turn();
    }
    return result;
}

struct slice
exec_reply(void)
{
    reply_end(&reply);
    CU_ASSERT_FALSE(sink.failed);
    return slice_of(out, (size_t)(sink.at - out));
}

static struct slice
ask(struct exec *at)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        if (exec_attempt(at) == EXEC_DONE) {
            return exec_reply();
        }
    }
    CU_FAIL_FATAL("a command was tried 100 times");
    return slice_of(NULL, 0);
}

struct slice
exec_ask(enum wire wire, const char *line)
{
    return ask(exec_begin(wire, line));
}

struct slice
exec_ask_words(enum wire wire, const struct slice *words, uint32_t count)
{
    return ask(exec_begin_words(wire, words, count));
}

/* ---- comparing ---- */

bool
exec_reply_is(const char *line, struct slice got, const char *expected)
{
    size_t i = 0;
    bool same = true;
    for (const char *e = expected; *e != '\0' && same; e++) {
        if (*e == '|') {
            same = i + 1 < got.bytes && got.data[i] == '\r' && got.data[i + 1] == '\n';
            i += 2;
        } else {
            same = i < got.bytes && got.data[i] == (uint8_t)*e;
            i++;
        }
    }
    same = same && i == got.bytes;
    if (!same) {
        printf("\n  %s\n    expected %s\n    got      %.*s\n", line, expected, (int)MIN(got.bytes, 500), got.data);
    }
    return same;
}

static void
run_rows(const struct exec_row *rows, size_t count, enum wire wire)
{
    for (size_t i = 0; i < count; i++) {
        const char *expected = rows[i].resp2;
        if (wire == WIRE_RESP3) {
            expected = rows[i].resp3 != NULL ? rows[i].resp3 : strcmp(expected, "$-1|") == 0 ? "_|" : expected;
        }
        CU_ASSERT_TRUE(exec_reply_is(rows[i].line, exec_ask(wire, rows[i].line), expected));
    }
}

void
exec_check_rows(const struct exec_row *rows, size_t count)
{
    for (int decoy = DECOY_NONE; decoy < DECOY_COUNT; decoy++) {
        for (enum wire wire = WIRE_RESP2; wire <= WIRE_RESP3; wire++) {
            exec_fixture_reset();
            fixture_decoy = (enum fixture_decoy)decoy;
            run_rows(rows, count, wire);
        }
    }
    exec_fixture_reset();
}

void
exec_check_refusals(const struct exec_refusal *rows, size_t count, const char *prepare, const char *look,
                    const char *expected)
{
    for (size_t i = 0; i < count; i++) {
        exec_fixture_reset();
        exec_ask(WIRE_RESP2, prepare);
        struct exec *begun = exec_begin(WIRE_RESP2, rows[i].line);
        fixture_answers = &rows[i].status;
        fixture_answers_left = 1;
        CU_ASSERT_EQUAL(exec_attempt(begun), rows[i].result);
        if (rows[i].result == EXEC_DONE) {
            CU_ASSERT_TRUE(exec_reply_is(rows[i].line, exec_reply(), EXEC_OOM));
        }
        CU_ASSERT_TRUE(exec_reply_is(look, exec_ask(WIRE_RESP2, look), expected));
    }
}
