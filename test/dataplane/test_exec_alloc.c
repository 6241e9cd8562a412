/* Every command that may take memory, with each of its allocations refused in turn: the refused command answers an
 * error or is to be tried again, and changes nothing; tried again with memory back, it answers and leaves what it does
 * otherwise. */
#include "exec_fixture.h"
#include "test/store/refuse_memory.h"
#include <CUnit/Basic.h>
#include <inttypes.h>

#define TAKES_MAX 40 /* of one command */

static const char *const setup[] = {
    "SET s value",      "SET n 41",     "SET t value EX 100",   "HSET h f v g w", "ZADD z 1 a 2 b",
    "PEXPIRE h 100000", "HSET one f v", "ZADD single 1 member", "SET gone v",     "DEL gone",
};

/* What all of this leaves is compared. */
static const char *const looks[] = {
    "MGET s n t new gone",
    "HGETALL h",
    "HGETALL one",
    "HGETALL new",
    "ZRANGE z 0 -1 WITHSCORES",
    "ZRANGE single 0 -1 WITHSCORES",
    "ZRANGE new 0 -1 WITHSCORES",
    "PTTL s",
    "PTTL t",
    "PTTL n",
    "PTTL h",
    "PTTL z",
    "PTTL new",
    "DBSIZE",
};

static const char *const lines[] = {
    "SET new value",
    "SET s other",
    "SET s a-value-that-is-longer-than-the-one-before GET",
    "SET gone again NX",
    "SET s value XX EX 50",
    "SET t short KEEPTTL",
    "INCR n",
    "INCR new",
    "INCRBY n 7",
    "DECR n",
    "DECRBY new 7",
    "APPEND s more",
    "APPEND new more",
    "EXPIRE s 100",
    "PEXPIRE t 5000",
    "EXPIRE s -1",
    "PERSIST t",
    "PERSIST h",
    "HSET h f changed",
    "HSET h x 1 y 2 z 3",
    "HSET new f v",
    "HDEL h f",
    "HDEL one f",
    "ZADD z 5 a",
    "ZADD z 3 c 4 d",
    "ZADD z INCR 2 a",
    "ZADD new 1 a",
    "ZREM z a",
    "ZREM single member",
    "DEL s",
    "DEL s n t h z",
    "UNLINK h z",
    "FLUSHALL",
    "FLUSHDB",
};

static void
set_up(void)
{
    exec_fixture_reset();
    for (uint32_t i = 0; i < ARRAY_COUNT(setup); i++) {
        CU_ASSERT(exec_ask(WIRE_RESP2, setup[i]).data[0] != '-');
    }
}

struct seen {
    uint8_t bytes[4096];
    size_t count;
};

static void
seen_add(struct seen *seen, struct slice reply)
{
    CU_ASSERT_FATAL(seen->count + reply.bytes <= sizeof(seen->bytes));
    memcpy(seen->bytes + seen->count, reply.data, reply.bytes);
    seen->count += reply.bytes;
}

static void
look(struct seen *seen)
{
    seen->count = 0;
    for (uint32_t i = 0; i < ARRAY_COUNT(looks); i++) {
        seen_add(seen, exec_ask(WIRE_RESP2, looks[i]));
    }
}

static bool
seen_equal(const struct seen *a, const struct seen *b)
{
    return a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

static bool
is_oom(struct slice reply)
{
    return reply.bytes > 4 && memcmp(reply.data, "-OOM", 4) == 0;
}

/* The n-th take of `line` is refused. Returns whether the command was. */
static bool
refuse_one(const char *line, uint64_t n, enum memory_refusal why, const struct seen *before, const struct seen *after)
{
    static struct seen now;
    set_up();
    struct exec *exec = exec_begin(WIRE_RESP2, line);
    refuse_memory(n, 1, why);
    enum exec_result result = exec_attempt(exec);
    bool done = result == EXEC_DONE && !is_oom(exec_reply());
    refuse_memory(0, 0, why);
    look(&now);
    if (!seen_equal(&now, done ? after : before)) {
        printf("\n  %s: take %" PRIu64 " refused, %s: not what it must be:\n%.*s", line, n, done ? "done" : "not done",
               (int)now.count, now.bytes);
        CU_FAIL("a refused command changed something, or one that was done did not");
    }
    if (!done) {
        CU_ASSERT(why == MEMORY_AT_LIMIT || result == EXEC_RETRY);
        CU_ASSERT_FALSE(is_oom(exec_ask(WIRE_RESP2, line)));
        look(&now);
        CU_ASSERT(seen_equal(&now, after));
    }
    return !done;
}

static void
a_refused_command_changes_nothing_and_works_later(void)
{
    static struct seen before, after;
    uint64_t refused = 0, takes_seen = 0;
    for (uint32_t i = 0; i < ARRAY_COUNT(lines); i++) {
        set_up();
        look(&before);
        set_up();
        refuse_memory(0, 0, MEMORY_NO_PAGE);
        CU_ASSERT(exec_ask(WIRE_RESP2, lines[i]).data[0] != '-');
        uint64_t takes = load_relaxed(&refusals.takes);
        CU_ASSERT(takes <= TAKES_MAX);
        look(&after);
        for (uint64_t n = 1; n <= takes; n++) {
            refused += refuse_one(lines[i], n, MEMORY_NO_PAGE, &before, &after);
            refused += refuse_one(lines[i], n, MEMORY_AT_LIMIT, &before, &after);
        }
        takes_seen += takes;
    }
    CU_ASSERT(takes_seen >= 32);
    CU_ASSERT(refused >= 44);
}

/* A new write command gets its line above. */
static void
every_command_that_writes_has_a_line(void)
{
    bool has[COMMAND_COUNT] = { false };
    for (uint32_t i = 0; i < ARRAY_COUNT(lines); i++) {
        const struct command *command = command_find(slice_of(lines[i], strcspn(lines[i], " ")));
        CU_ASSERT_PTR_NOT_NULL_FATAL(command);
        has[command->id] = true;
    }
    for (uint32_t id = 0; id < COMMAND_COUNT; id++) {
        if ((command_table[id].flags & CMD_WRITE) != 0 && !has[id]) {
            printf("\n  no line for %s\n", command_table[id].name);
            CU_FAIL("a command that writes has no line");
        }
    }
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("exec_alloc", exec_fixture_open, exec_fixture_close);
    CU_ADD_TEST(suite, a_refused_command_changes_nothing_and_works_later);
    CU_ADD_TEST(suite, every_command_that_writes_has_a_line);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
