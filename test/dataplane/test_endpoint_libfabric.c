/* test_endpoint_libfabric.c - the libfabric table on every provider that a machine without a fabric has. */
#include "dataplane/endpoint.h"
#include "test/dataplane/module_dir.h"
#include <CUnit/Basic.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static const struct endpoint_ops *ops;
static char why[512];

static const struct {
    const char *name, *node;
} providers[] = {
    { "shm", NULL },
    { "net", "127.0.0.1" },
    { "tcp;ofi_rxm", "127.0.0.1" },
    { "udp;ofi_rxd", "127.0.0.1" },
};

static struct endpoint *
must_open(size_t provider, uint32_t frame_bytes)
{
    struct endpoint *endpoint = NULL;
    struct endpoint_config config = { .provider = providers[provider].name,
                                      .node = providers[provider].node,
                                      .rx_slots = 64,
                                      .tx_slots = 32,
                                      .frame_bytes = frame_bytes };
    int rc = ops->open(&config, &endpoint, why, sizeof(why));
    if (rc != 0) {
        fprintf(stderr, "%s: %s\n", providers[provider].name, why);
    }
    CU_ASSERT_EQUAL_FATAL(rc, 0);
    return endpoint;
}

static uint64_t
insert(struct endpoint *into, struct endpoint *of)
{
    struct endpoint_info info;
    uint64_t peer = ENDPOINT_PEER_UNKNOWN;
    ops->info(of, &info);
    CU_ASSERT_EQUAL_FATAL(ops->peer_insert(into, info.address, info.address_bytes, &peer), 0);
    return peer;
}

static double
seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Poll both until `at` has an event of `kind`; the others of `at` are given back. */
static bool
wait_event(struct endpoint *at, struct endpoint *other, enum endpoint_event_kind kind, struct endpoint_event *event,
           double patience)
{
    for (double end = seconds() + patience; seconds() < end;) {
        struct endpoint_event ignored[16];
        uint32_t n = ops->poll(at, event, 1);
        if (n == 1 && event->kind == kind) {
            return true;
        }
        if (n == 1 && (event->kind == ENDPOINT_RECEIVED || event->kind == ENDPOINT_RECEIVE_FAILED)) {
            ops->post(at, event->slot);
        }
        if (other != NULL) {
            n = ops->poll(other, ignored, 16);
            for (uint32_t i = 0; i < n; i++) {
                if (ignored[i].kind == ENDPOINT_RECEIVED) {
                    ops->post(other, ignored[i].slot);
                }
            }
        }
    }
    return false;
}

static enum endpoint_status
send_patiently(struct endpoint *from, struct endpoint *other, uint64_t peer, uint32_t slot, uint32_t bytes)
{
    enum endpoint_status status = ENDPOINT_AGAIN;
    for (double end = seconds() + 10; status == ENDPOINT_AGAIN && seconds() < end;) {
        struct endpoint_event event;
        status = ops->send(from, peer, slot, bytes);
        if (status == ENDPOINT_AGAIN) {
            wait_event(from, other, (enum endpoint_event_kind)99, &event, 0.001);
        }
    }
    return status;
}

static void
a_provider_that_is_not_there_is_refused_by_name(void)
{
    static const struct {
        const char *provider, *domain, *says;
    } rows[] = {
        { "no-such-provider", NULL, "has no provider 'no-such-provider'" },
        { "efa", NULL, "EFA device" },
        { "efa-direct", NULL, "libfabric 2.1" },
        { "verbs;ofi_rxm", NULL, "no other provider is used instead" },
        { "net", "no-such-device", "has no provider 'net'" },
        { "ofi_rxm", NULL, "has no provider 'ofi_rxm'" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct endpoint *endpoint = NULL;
        struct endpoint_config config = { .provider = rows[i].provider, .domain = rows[i].domain };
        why[0] = '\0';
        CU_ASSERT_EQUAL(ops->open(&config, &endpoint, why, sizeof(why)), -ENODATA);
        CU_ASSERT_PTR_NULL(endpoint);
        if (strstr(why, rows[i].says) == NULL) {
            fprintf(stderr, "%s: %s\n", rows[i].provider, why);
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(why, rows[i].says));
    }
}

static void
sizes_that_the_provider_cannot_have_are_refused(void)
{
    static const struct {
        struct endpoint_config config;
        const char *says;
    } rows[] = {
        { { .provider = "net", .node = "127.0.0.1", .frame_bytes = 255 }, "frame = 255 is out of range" },
        { { .provider = "net", .node = "127.0.0.1", .frame_bytes = 65536 }, "frame = 65536 is out of range" },
        { { .provider = "shm", .rx_slots = 1u << 30 }, "rx_slots = 1073741824 is out of range" },
        { { .provider = "shm", .tx_slots = 1u << 30 }, "tx_slots = 1073741824 is out of range" },
        { { .provider = "net", .node = "127.0.0.1", .send = ENDPOINT_SEND_INJECT }, "injects at most 128 bytes" },
        { { .provider = "tcp;ofi_rxm", .node = "127.0.0.1", .send = ENDPOINT_SEND_INJECT },
          "use \"auto\" or \"send\"" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct endpoint *endpoint = NULL;
        why[0] = '\0';
        CU_ASSERT_EQUAL(ops->open(&rows[i].config, &endpoint, why, sizeof(why)), -EINVAL);
        if (strstr(why, rows[i].says) == NULL) {
            fprintf(stderr, "row %zu: %s\n", i, why);
        }
        CU_ASSERT_PTR_NOT_NULL(strstr(why, rows[i].says));
    }
}

static void
opening_leaves_signals_and_affinity_as_they_were(void)
{
    static const int watched[] = { SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGPIPE };
    cpu_set_t set;
    int before = sched_getcpu();

    struct endpoint *endpoint = must_open(0, 0);
    for (size_t i = 0; i < ARRAY_COUNT(watched); i++) {
        struct sigaction action;
        CU_ASSERT_EQUAL(sigaction(watched[i], NULL, &action), 0);
        CU_ASSERT(action.sa_handler == SIG_DFL);
    }
    CU_ASSERT(before >= 0);
    CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof(set), &set), 0);
    CU_ASSERT_EQUAL(CPU_COUNT(&set), sysconf(_SC_NPROCESSORS_ONLN));
    ops->close(endpoint);
}

static void
bytes_that_are_no_address_are_refused(void)
{
    for (size_t p = 0; p < ARRAY_COUNT(providers); p++) {
        struct endpoint *endpoint = must_open(p, 0);
        struct endpoint_info info;
        uint8_t bytes[ENDPOINT_ADDRESS_BYTES + 1];
        uint64_t peer = 0;
        ops->info(endpoint, &info);
        for (uint32_t cut = 0; cut < info.address_bytes; cut++) {
            CU_ASSERT_EQUAL(ops->peer_insert(endpoint, info.address, cut, &peer), -EINVAL);
        }
        for (size_t length = 1; length <= sizeof(bytes); length++) {
            memset(bytes, 0xff, sizeof(bytes));
            CU_ASSERT_EQUAL(ops->peer_insert(endpoint, bytes, length, &peer), -EINVAL);
            memset(bytes, 0, sizeof(bytes));
            CU_ASSERT_EQUAL(ops->peer_insert(endpoint, bytes, length, &peer), -EINVAL);
        }
        CU_ASSERT_EQUAL(ops->peer_insert(endpoint, info.address, ENDPOINT_ADDRESS_BYTES + 1, &peer), -EINVAL);
        ops->close(endpoint);
    }
}

static void
messages_of_every_size_come_whole_both_ways(void)
{
    for (size_t p = 0; p < ARRAY_COUNT(providers); p++) {
        struct endpoint *a = must_open(p, 0), *b = must_open(p, 0);
        struct endpoint *ends[2] = { a, b };
        uint64_t peers[2] = { insert(a, b), insert(b, a) };
        struct endpoint_info info;
        ops->info(a, &info);
        CU_ASSERT_EQUAL(info.frame_bytes, p == 0 ? 4096 : 8192);
        CU_ASSERT(info.inject_bytes >= 64);
        uint32_t sizes[] = { 32, 33, 64, 100, 128, 129, 1000, 4096, info.frame_bytes - 1, info.frame_bytes };

        for (uint32_t i = 0; i < ARRAY_COUNT(sizes) * 4; i++) {
            uint32_t from = i % 2, bytes = sizes[i / 4];
            bool inject = i % 4 >= 2 && bytes <= info.inject_bytes;
            struct endpoint_event event = { 0 };
            uint8_t *out = ops->tx_slot(ends[from], 5);
            memset(out, (int)i + 1, bytes);
            enum endpoint_status status =
                inject ? ENDPOINT_AGAIN : send_patiently(ends[from], ends[1 - from], peers[from], 5, bytes);
            for (double end = seconds() + 10; inject && status == ENDPOINT_AGAIN && seconds() < end;) {
                status = ops->inject(ends[from], peers[from], out, bytes);
                if (status == ENDPOINT_AGAIN) {
                    wait_event(ends[from], ends[1 - from], (enum endpoint_event_kind)99, &event, 0.001);
                }
            }
            CU_ASSERT_EQUAL_FATAL(status, ENDPOINT_OK);
            CU_ASSERT_TRUE_FATAL(
                wait_event(ends[1 - from], inject ? ends[from] : NULL, ENDPOINT_RECEIVED, &event, 10) ||
                wait_event(ends[1 - from], ends[from], ENDPOINT_RECEIVED, &event, 10));
            CU_ASSERT_EQUAL(event.bytes, bytes);
            CU_ASSERT_EQUAL(event.peer, peers[1 - from]);
            const uint8_t *in = ops->rx_slot(ends[1 - from], event.slot);
            CU_ASSERT_EQUAL(in[0], (uint8_t)(i + 1));
            CU_ASSERT_EQUAL(in[bytes - 1], (uint8_t)(i + 1));
            CU_ASSERT_EQUAL(ops->post(ends[1 - from], event.slot), ENDPOINT_OK);
            if (!inject) {
                CU_ASSERT_TRUE(wait_event(ends[from], ends[1 - from], ENDPOINT_SENT, &event, 10));
                CU_ASSERT_EQUAL(event.slot, 5);
                CU_ASSERT_EQUAL(event.peer, peers[from]);
            }
        }
        ops->close(a);
        ops->close(b);
    }
}

/* TCP providers close the connection that a message too long came over, rxd hands over its beginning (whose envelope
 * then is wrong): what every one must do is leave the neighbouring slot alone and go on. */
static void
a_message_longer_than_the_slot_spills_nowhere_and_later_ones_come(void)
{
    for (size_t p = 0; p < ARRAY_COUNT(providers); p++) {
        struct endpoint *big = must_open(p, 4096), *small = must_open(p, 512);
        uint64_t to = insert(big, small);
        struct endpoint_event event = { 0 };
        bool failed = false, came = false;
        insert(small, big);

        memset(ops->tx_slot(big, 0), 'x', 4096);
        CU_ASSERT_EQUAL(send_patiently(big, small, to, 0, 513), ENDPOINT_OK);
        for (double end = seconds() + 10; !failed && !came && seconds() < end;) {
            struct endpoint_event ignored;
            ops->poll(big, &ignored, 1);
            if (ops->poll(small, &event, 1) == 1) {
                failed = event.kind == ENDPOINT_RECEIVE_FAILED;
                came = event.kind == ENDPOINT_RECEIVED;
            }
        }
        CU_ASSERT_TRUE(failed || (came && event.bytes <= 512));
        for (uint32_t slot = 0; slot < 64; slot++) {
            if (slot != event.slot) {
                CU_ASSERT_EQUAL(ops->rx_slot(small, slot)[0], 0);
            }
        }
        CU_ASSERT_EQUAL(ops->post(small, event.slot), ENDPOINT_OK);
        came = false;
        for (uint32_t attempt = 0; attempt < 20 && !came; attempt++) {
            /* what was sent into the dying connection is lost: that is what resuming a session is for */
            CU_ASSERT_EQUAL(send_patiently(big, small, to, 1 + attempt, 512), ENDPOINT_OK);
            came = wait_event(small, big, ENDPOINT_RECEIVED, &event, 0.5);
        }
        CU_ASSERT_TRUE(came);
        CU_ASSERT_EQUAL(event.bytes, 512);
        ops->close(big);
        ops->close(small);
    }
}

static void
an_unknown_sender_is_never_taken_for_a_known_one_where_the_source_is_reliable(void)
{
    for (size_t p = 0; p < ARRAY_COUNT(providers); p++) {
        struct endpoint *server = must_open(p, 0), *known = must_open(p, 0), *stranger = must_open(p, 0);
        struct endpoint_info info;
        struct endpoint_event event;
        insert(server, known);
        insert(known, server);
        uint64_t to = insert(stranger, server);
        ops->info(server, &info);

        CU_ASSERT_EQUAL(send_patiently(stranger, server, to, 0, 100), ENDPOINT_OK);
        CU_ASSERT_TRUE(wait_event(server, stranger, ENDPOINT_RECEIVED, &event, 10));
        if (info.source_reliable) {
            CU_ASSERT_EQUAL(event.peer, ENDPOINT_PEER_UNKNOWN);
        }
        ops->close(stranger);
        ops->close(known);
        ops->close(server);
    }
}

static void
an_address_can_be_inserted_again_after_it_was_removed(void)
{
    for (size_t p = 0; p < ARRAY_COUNT(providers); p++) {
        struct endpoint *a = must_open(p, 0), *b = must_open(p, 0);
        insert(b, a);
        for (uint32_t round = 0; round < 3; round++) {
            struct endpoint_event event;
            uint64_t peer = insert(a, b);
            CU_ASSERT_EQUAL(send_patiently(a, b, peer, 0, 64), ENDPOINT_OK);
            CU_ASSERT_TRUE(wait_event(b, a, ENDPOINT_RECEIVED, &event, 10));
            ops->post(b, event.slot);
            CU_ASSERT_TRUE(wait_event(a, b, ENDPOINT_SENT, &event, 10));
            ops->peer_remove(a, peer);
        }
        ops->close(a);
        ops->close(b);
    }
}

static int
start_up(void)
{
    ops = endpoint_libfabric(why, sizeof(why));
    if (ops == NULL) {
        fprintf(stderr, "%s\n", why);
    }
    return ops == NULL;
}

/* Nobody removes what SIGKILL leaves in /dev/shm, and pids come again; that of a container's first process always. */
static void
memory_that_a_killed_process_of_the_same_pid_left_is_no_obstacle(void)
{
    struct endpoint_info info;
    struct endpoint *dead = must_open(0, 0);
    char path[128], next[128], command[320];
    uint32_t pid, domain, index;
    ops->info(dead, &info);
    CU_ASSERT_EQUAL_FATAL(sscanf((const char *)info.address, "fi_shm://%u:%u:%u", &pid, &domain, &index), 3);
    snprintf(path, sizeof(path), "/dev/shm/%u:%u:%u", pid, domain, index);
    snprintf(next, sizeof(next), "/dev/shm/%u:%u:%u", pid, domain, index + 1); /* of the endpoint after this one */
    snprintf(command, sizeof(command), "cp --sparse=always %s %s", path, next);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    ops->close(dead);

    struct endpoint *endpoint = must_open(0, 0);
    ops->info(endpoint, &info);
    CU_ASSERT_STRING_EQUAL((const char *)info.address + strlen("fi_shm://"), next + strlen("/dev/shm/"));
    ops->close(endpoint);
    CU_ASSERT_NOT_EQUAL(access(next, F_OK), 0);
}

int
main(void)
{
    module_dir_set();
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("endpoint_libfabric", start_up, NULL);
    CU_ADD_TEST(suite, a_provider_that_is_not_there_is_refused_by_name);
    CU_ADD_TEST(suite, memory_that_a_killed_process_of_the_same_pid_left_is_no_obstacle);
    CU_ADD_TEST(suite, sizes_that_the_provider_cannot_have_are_refused);
    CU_ADD_TEST(suite, opening_leaves_signals_and_affinity_as_they_were);
    CU_ADD_TEST(suite, bytes_that_are_no_address_are_refused);
    CU_ADD_TEST(suite, messages_of_every_size_come_whole_both_ways);
    CU_ADD_TEST(suite, a_message_longer_than_the_slot_spills_nowhere_and_later_ones_come);
    CU_ADD_TEST(suite, an_unknown_sender_is_never_taken_for_a_known_one_where_the_source_is_reliable);
    CU_ADD_TEST(suite, an_address_can_be_inserted_again_after_it_was_removed);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
    CU_cleanup_registry();
    return failures != 0;
}
