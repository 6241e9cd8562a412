#include "dataplane/burst.h"
#include "dataplane/hot_keys.h"
#include "dataplane/slowlog.h"
#include <CUnit/Basic.h>
#include <pthread.h>

static struct slowlog slowlog;
static struct lcore lcore = { .slowlog = &slowlog, .ns_per_cycle_q20 = 1 << 20, .now_ms = 1700000000000 };
static struct session session = { .id = 77 };
static struct arg args[16];
static struct request request = { .args = args };

static void
request_make(const char *command, const char *const *words, uint32_t count)
{
    request.command = command_find(slice_text(command));
    CU_ASSERT_PTR_NOT_NULL_FATAL(request.command);
    request.args_count = count;
    for (uint32_t i = 0; i < count; i++) {
        args[i] = (struct arg){ .bytes = slice_text(words[i]), .kind = ARG_BYTES };
    }
}

static void
log_clear(void)
{
    memset(&slowlog, 0, sizeof(slowlog));
}

/* ---- slow log ---- */

static void
nothing_is_read_before_it_was_written(void)
{
    struct slow_record record;

    log_clear();
    CU_ASSERT(!slowlog_read(&slowlog, 0, &record));
    CU_ASSERT(!slowlog_read(&slowlog, 1, &record));
    CU_ASSERT(!slowlog_read(&slowlog, SLOWLOG_KEPT, &record));
    CU_ASSERT(!slowlog_read(&slowlog, UINT64_MAX, &record));
}

static void
a_record_has_times_session_and_arguments(void)
{
    static const char *const words[] = { "key", "" };
    struct slow_record record;

    log_clear();
    request_make("set", words, 2);
    slowlog_write(&lcore, &session, &request, 3, 1234, 5678);
    CU_ASSERT_EQUAL(load_relaxed(&slowlog.count), 1);
    CU_ASSERT_FATAL(slowlog_read(&slowlog, 1, &record));
    CU_ASSERT_EQUAL(record.queue_ns, 1234);
    CU_ASSERT_EQUAL(record.service_ns, 5678);
    CU_ASSERT_EQUAL(record.session_id, 77);
    CU_ASSERT_EQUAL(record.neighbours, 3);
    CU_ASSERT_EQUAL(record.unix_ms, 1700000000000);
    CU_ASSERT_EQUAL(record.command, COMMAND_SET);
    CU_ASSERT_EQUAL(record.args_count, 2);
    CU_ASSERT_EQUAL(record.text_bytes, 5);
    CU_ASSERT_EQUAL(memcmp(record.text, "\3key\0", 5), 0);
}

static void
long_and_many_arguments_are_cut(void)
{
    char words[12][SLOWLOG_ARG_BYTES + 2];
    const char *given[12];
    struct slow_record record;

    for (int i = 0; i < 12; i++) {
        memset(words[i], 'a' + i, sizeof(words[i]) - 1);
        words[i][i < 3 ? SLOWLOG_ARG_BYTES - 1 + i : 1] = '\0'; /* at limit - 1, limit, limit + 1 */
        given[i] = words[i];
    }
    log_clear();
    request_make("mget", given, 12);
    slowlog_write(&lcore, &session, &request, 1, 0, 0);
    CU_ASSERT_FATAL(slowlog_read(&slowlog, 1, &record));
    CU_ASSERT_EQUAL(record.args_count, 12);
    CU_ASSERT_EQUAL(record.text[0], SLOWLOG_ARG_BYTES - 1);
    CU_ASSERT_EQUAL(record.text[SLOWLOG_ARG_BYTES], SLOWLOG_ARG_BYTES);
    CU_ASSERT(record.text_bytes <= SLOWLOG_TEXT_BYTES);
    uint32_t kept = 0;
    for (uint32_t at = 0; at < record.text_bytes; at += 1u + record.text[at]) {
        kept++;
    }
    CU_ASSERT_EQUAL(kept, 2); /* the third does not fit any more */
    request_make("mget", given + 3, 9);
    slowlog_write(&lcore, &session, &request, 1, 0, 0);
    CU_ASSERT_FATAL(slowlog_read(&slowlog, 2, &record));
    CU_ASSERT_EQUAL(record.text_bytes, 2 * SLOWLOG_ARGS); /* eight of nine */
}

static void
passwords_are_not_kept(void)
{
    static const char *const words[] = { "sesame" };
    struct slow_record record;

    log_clear();
    request_make("auth", words, 1);
    slowlog_write(&lcore, &session, &request, 1, 0, 0);
    CU_ASSERT_FATAL(slowlog_read(&slowlog, 1, &record));
    CU_ASSERT_EQUAL(record.text_bytes, 0);
}

static void
the_last_ones_are_kept(void)
{
    static const char *const words[] = { "key" };
    struct slow_record record;

    log_clear();
    request_make("get", words, 1);
    for (uint64_t i = 1; i <= 3 * SLOWLOG_KEPT; i++) {
        slowlog_write(&lcore, &session, &request, 1, i, i);
    }
    CU_ASSERT(!slowlog_read(&slowlog, 2 * SLOWLOG_KEPT, &record));
    for (uint64_t i = 2 * SLOWLOG_KEPT + 1; i <= 3 * SLOWLOG_KEPT; i++) {
        CU_ASSERT(slowlog_read(&slowlog, i, &record) && record.queue_ns == i);
    }
    CU_ASSERT(!slowlog_read(&slowlog, 3 * SLOWLOG_KEPT + 1, &record));
}

static _Atomic bool stop;

static void *
write_on(void *argument)
{
    static const char *const words[] = { "key" };

    request_make("get", words, 1);
    for (uint64_t i = load_relaxed(&slowlog.count) + 1; !load_relaxed(&stop); i++) {
        slowlog_write(&lcore, &session, &request, (uint32_t)i, i, i);
    }
    return NULL;
}

static void
a_reader_never_sees_half_a_record(void)
{
    pthread_t writer;
    uint64_t seen = 0;

    log_clear();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&writer, NULL, write_on, NULL), 0);
    for (uint64_t i = 0; i < 200000 || (seen == 0 && i < 2000000000); i++) { /* a busy machine may begin late */
        struct slow_record record;
        uint64_t newest = load_acquire(&slowlog.count); /* pairs with the release in slowlog_write() */
        if (slowlog_read(&slowlog, newest, &record)) {
            seen++;
            if (record.queue_ns != newest || record.service_ns != newest || record.neighbours != (uint32_t)newest) {
                CU_FAIL("half a record");
                break;
            }
        }
    }
    store_relaxed(&stop, true);
    pthread_join(writer, NULL);
    CU_ASSERT(seen > 0);
}

/* ---- hot keys ---- */

static struct hot_keys hot;
static struct burst burst;

/* One request for each of `count` keys; the hash is made so that sets fill up. */
static void
ask_for(uint32_t key, uint64_t times)
{
    static char name[16];
    static struct arg arg;

    snprintf(name, sizeof(name), "key%u", key);
    arg = (struct arg){ .bytes = slice_text(name), .kind = ARG_BYTES };
    for (uint64_t i = 0; i < times; i++) {
        burst.count = 1;
        burst.requests[0] =
            (struct request){ .command = command_find(SLICE_LITERAL("get")), .args = &arg, .args_count = 1 };
        burst.hashes[0] = key * 0x9e3779b97f4a7c15ull;
        hot_keys_count(&hot, &burst);
    }
}

static const struct hot_key *
hot_of(uint32_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15ull;

    for (uint32_t way = 0; way < HOT_KEYS_WAYS; way++) {
        const struct hot_key *slot = &hot.keys[hash % HOT_KEYS_SETS][way];
        if (slot->hash == hash && slot->count > 0) {
            return slot;
        }
    }
    return NULL;
}

static void
few_keys_are_counted_exactly(void)
{
    memset(&hot, 0, sizeof(hot));
    for (uint32_t key = 1; key <= HOT_KEYS_WAYS; key++) {
        ask_for(key, key);
    }
    for (uint32_t key = 1; key <= HOT_KEYS_WAYS; key++) {
        const struct hot_key *found = hot_of(key);
        CU_ASSERT(found != NULL && found->count == key && found->error == 0);
        CU_ASSERT(found != NULL && found->key_bytes == 4 && memcmp(found->key, "key", 3) == 0);
    }
    CU_ASSERT_EQUAL(hot.requests, 36);
}

/* 20,000 keys in turn and one in every tenth place: it is found, and no count is too low or too high by more than said.
 */
static void
a_hot_key_among_many_is_found_within_the_stated_error(void)
{
    static uint64_t truth[20001];

    memset(&hot, 0, sizeof(hot));
    for (uint32_t i = 0; i < 200000; i++) {
        uint32_t key = i % 10 == 0 ? 7 : 100 + i * 7919u % 19900;
        ask_for(key, 1);
        truth[key]++;
    }
    const struct hot_key *found = hot_of(7);
    CU_ASSERT_FATAL(found != NULL);
    for (uint32_t set = 0; set < HOT_KEYS_SETS; set++) {
        for (uint32_t way = 0; way < HOT_KEYS_WAYS; way++) {
            const struct hot_key *slot = &hot.keys[set][way];
            char name[16];
            snprintf(name, sizeof(name), "%.*s", (int)slot->key_bytes, (const char *)slot->key);
            uint32_t key = (uint32_t)strtoul(name + 3, NULL, 10);
            CU_ASSERT(slot->count >= truth[key] && slot->count - slot->error <= truth[key]);
            CU_ASSERT(slot == found || slot->count < found->count);
        }
    }
}

static void
long_keys_are_cut_and_their_length_is_kept(void)
{
    static uint8_t bytes[HOT_KEYS_BYTES + 1];
    static struct arg arg;

    for (size_t length = HOT_KEYS_BYTES - 1; length <= sizeof(bytes); length++) {
        memset(&hot, 0, sizeof(hot));
        memset(bytes, 'x', sizeof(bytes));
        arg = (struct arg){ .bytes = slice_of(bytes, length), .kind = ARG_BYTES };
        burst.count = 1;
        burst.requests[0] =
            (struct request){ .command = command_find(SLICE_LITERAL("get")), .args = &arg, .args_count = 1 };
        burst.hashes[0] = 1;
        hot_keys_count(&hot, &burst);
        CU_ASSERT_EQUAL(hot.keys[1][0].key_bytes, length);
        CU_ASSERT_EQUAL(hot.keys[1][0].key[MIN(length, HOT_KEYS_BYTES) - 1], 'x');
    }
}

static void
requests_without_a_key_are_not_counted(void)
{
    memset(&hot, 0, sizeof(hot));
    burst.count = 2;
    burst.requests[0] = (struct request){ .command = command_find(SLICE_LITERAL("ping")) };
    burst.requests[1] = (struct request){ .command = NULL };
    hot_keys_count(&hot, &burst);
    CU_ASSERT_EQUAL(hot.requests, 0);
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("slow log", NULL, NULL);
    CU_ADD_TEST(suite, nothing_is_read_before_it_was_written);
    CU_ADD_TEST(suite, a_record_has_times_session_and_arguments);
    CU_ADD_TEST(suite, long_and_many_arguments_are_cut);
    CU_ADD_TEST(suite, passwords_are_not_kept);
    CU_ADD_TEST(suite, the_last_ones_are_kept);
    CU_ADD_TEST(suite, a_reader_never_sees_half_a_record);
    suite = CU_add_suite("hot keys", NULL, NULL);
    CU_ADD_TEST(suite, requests_without_a_key_are_not_counted);
    CU_ADD_TEST(suite, few_keys_are_counted_exactly);
    CU_ADD_TEST(suite, a_hot_key_among_many_is_found_within_the_stated_error);
    CU_ADD_TEST(suite, long_keys_are_cut_and_their_length_is_kept);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
