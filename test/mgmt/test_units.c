#include "config/host.h"
#include "config/units.h"
#include <CUnit/Basic.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

struct number_row {
    const char *text;
    enum unit_status status;
    uint64_t value;
};

static void
counts_are_plain_decimal_digits(void)
{
    static const struct number_row rows[] = {
        { "", UNIT_EMPTY, 0 },
        { " ", UNIT_NOT_A_NUMBER, 0 },
        { "5 ", UNIT_NOT_A_NUMBER, 0 },
        { " 5", UNIT_NOT_A_NUMBER, 0 },
        { "-1", UNIT_NOT_A_NUMBER, 0 },
        { "+1", UNIT_NOT_A_NUMBER, 0 },
        { "1e3", UNIT_NOT_A_NUMBER, 0 },
        { "1.0", UNIT_NOT_A_NUMBER, 0 },
        { "0x10", UNIT_NOT_A_NUMBER, 0 },
        { "010", UNIT_LEADING_ZERO, 0 },
        { "00", UNIT_LEADING_ZERO, 0 },
        { "18446744073709551616", UNIT_TOO_LARGE, 0 },
        { "99999999999999999999999999", UNIT_TOO_LARGE, 0 },
        { "0", UNIT_OK, 0 },
        { "2147483647", UNIT_OK, INT32_MAX },
        { "2147483648", UNIT_OK, 2147483648ull },
        { "4294967296", UNIT_OK, 4294967296ull },
        { "9223372036854775807", UNIT_OK, INT64_MAX },
        { "9223372036854775808", UNIT_OK, 9223372036854775808ull },
        { "18446744073709551615", UNIT_OK, UINT64_MAX },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t value = 7;
        CU_ASSERT_EQUAL(unit_parse_count(rows[i].text, &value), rows[i].status);
        CU_ASSERT_EQUAL(value, rows[i].status == UNIT_OK ? rows[i].value : 7);
    }
}

static void
sizes_take_binary_units_only(void)
{
    static const struct number_row rows[] = {
        { "", UNIT_EMPTY, 0 },
        { "KiB", UNIT_NOT_A_NUMBER, 0 },
        { "-1KiB", UNIT_NOT_A_NUMBER, 0 },
        { "1.5GiB", UNIT_NOT_A_NUMBER, 0 },
        { "1 GiB", UNIT_NOT_A_NUMBER, 0 },
        { "1GiB ", UNIT_UNKNOWN, 0 },
        { "1GB", UNIT_UNKNOWN, 0 },
        { "1K", UNIT_UNKNOWN, 0 },
        { "1KiBs", UNIT_UNKNOWN, 0 },
        { "1e3", UNIT_UNKNOWN, 0 },
        { "0x10", UNIT_UNKNOWN, 0 },
        { "08KiB", UNIT_LEADING_ZERO, 0 },
        { "16777216TiB", UNIT_TOO_LARGE, 0 }, /* 2^64 */
        { "18446744073709551616", UNIT_TOO_LARGE, 0 },
        { "0", UNIT_OK, 0 },
        { "1", UNIT_OK, 1 },
        { "1B", UNIT_OK, 1 },
        { "1KiB", UNIT_OK, 1024 },
        { "1kib", UNIT_OK, 1024 },
        { "3MiB", UNIT_OK, 3ull << 20 },
        { "128GiB", UNIT_OK, 137438953472ull },
        { "16777215TiB", UNIT_OK, 16777215ull << 40 },
        { "18446744073709551615", UNIT_OK, UINT64_MAX },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t value = 7;
        CU_ASSERT_EQUAL(unit_parse_size(rows[i].text, &value), rows[i].status);
        CU_ASSERT_EQUAL(value, rows[i].status == UNIT_OK ? rows[i].value : 7);
    }
}

static void
times_need_a_unit(void)
{
    static const struct number_row rows[] = {
        { "", UNIT_EMPTY, 0 },
        { "5", UNIT_MISSING, 0 },
        { "0", UNIT_MISSING, 0 },
        { "5 s", UNIT_NOT_A_NUMBER, 0 },
        { "5sec", UNIT_UNKNOWN, 0 },
        { "5us", UNIT_UNKNOWN, 0 },
        { "-5s", UNIT_NOT_A_NUMBER, 0 },
        { "213503982335d", UNIT_TOO_LARGE, 0 },
        { "0s", UNIT_OK, 0 },
        { "1ms", UNIT_OK, 1 },
        { "1500ms", UNIT_OK, 1500 },
        { "5s", UNIT_OK, 5000 },
        { "2m", UNIT_OK, 120000 },
        { "1h", UNIT_OK, 3600000 },
        { "1d", UNIT_OK, 86400000 },
        { "213503982334d", UNIT_OK, 213503982334ull * 86400000 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t value = 7;
        CU_ASSERT_EQUAL(unit_parse_time_ms(rows[i].text, &value), rows[i].status);
        CU_ASSERT_EQUAL(value, rows[i].status == UNIT_OK ? rows[i].value : 7);
    }
}

static void
what_is_printed_reads_back(void)
{
    uint64_t state = 88172645463325252ull;
    for (int i = 0; i < 2000; i++) {
        char text[UNIT_TEXT_BYTES];
        uint64_t back = 0;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t value = (state >> (i % 60)) << (i % 50);
        CU_ASSERT_EQUAL(unit_parse_size(unit_print_size(text, value), &back), UNIT_OK);
        CU_ASSERT_EQUAL(back, value);
        value = state >> 24 << (i % 8);
        CU_ASSERT_EQUAL(unit_parse_time_ms(unit_print_time_ms(text, value), &back), UNIT_OK);
        CU_ASSERT_EQUAL(back, value);
    }
}

static void
sizes_for_people_are_short(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        { 0, "0 B" },
        { 1023, "1023 B" },
        { 1024, "1.0 KiB" },
        { 1536, "1.5 KiB" },
        { 1048575, "1023 KiB" },
        { 1048576, "1.0 MiB" },
        { 107374182400, "100 GiB" },
        { UINT64_MAX, "16777215 TiB" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[UNIT_TEXT_BYTES];
        CU_ASSERT_STRING_EQUAL(unit_print_size_short(text, rows[i].bytes), rows[i].text);
    }
}

static void
cpu_lists_are_checked_piece_by_piece(void)
{
    static const struct {
        const char *text;
        enum cpu_list_status status;
        uint32_t count;
    } rows[] = {
        { "", CPU_LIST_EMPTY, 0 },
        { ",", CPU_LIST_EMPTY, 0 },
        { "1,", CPU_LIST_EMPTY, 0 },
        { ",1", CPU_LIST_EMPTY, 0 },
        { "1,,2", CPU_LIST_EMPTY, 0 },
        { "a", CPU_LIST_BAD, 0 },
        { "1-", CPU_LIST_BAD, 0 },
        { "-1", CPU_LIST_BAD, 0 },
        { "1-2-3", CPU_LIST_BAD, 0 },
        { "1 ", CPU_LIST_BAD, 0 },
        { "1, 2", CPU_LIST_BAD, 0 },
        { "01", CPU_LIST_BAD, 0 },
        { "3-1", CPU_LIST_BACKWARDS, 0 },
        { "1,1", CPU_LIST_TWICE, 0 },
        { "0-3,2", CPU_LIST_TWICE, 0 },
        { "1024", CPU_LIST_TOO_LARGE, 0 },
        { "0-99999999999999999999", CPU_LIST_TOO_LARGE, 0 },
        { "0-8", CPU_LIST_TOO_MANY, 0 },
        { "0-1023", CPU_LIST_TOO_MANY, 0 },
        { "0", CPU_LIST_OK, 1 },
        { "1023", CPU_LIST_OK, 1 },
        { "0-7", CPU_LIST_OK, 8 },
        { "1,3,5-6", CPU_LIST_OK, 4 },
        { "2-2", CPU_LIST_OK, 1 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int cpus[8];
        uint32_t count;
        enum cpu_list_status status = cpu_list_parse(rows[i].text, cpus, ARRAY_COUNT(cpus), &count);
        CU_ASSERT_EQUAL(status, rows[i].status);
        if (status == CPU_LIST_OK) {
            char text[64];
            CU_ASSERT_EQUAL(count, rows[i].count);
            int again[8];
            uint32_t again_count;
            cpu_list_print(text, sizeof(text), cpus, count);
            CU_ASSERT_EQUAL(cpu_list_parse(text, again, 8, &again_count), CPU_LIST_OK);
            CU_ASSERT_EQUAL(again_count, count);
            CU_ASSERT(memcmp(cpus, again, count * sizeof(cpus[0])) == 0);
        }
    }
}

static void
long_cpu_lists_print_cut_inside_their_room(void)
{
    int cpus[64];
    for (int i = 0; i < 64; i++) {
        cpus[i] = i * 2;
    }
    for (size_t bytes = 4; bytes < 200; bytes++) {
        char text[256];
        memset(text, '#', sizeof(text));
        cpu_list_print(text, bytes, cpus, 64);
        CU_ASSERT(strlen(text) < bytes);
        CU_ASSERT_EQUAL(text[bytes], '#');
    }
}

static void
quoting_escapes_and_cuts(void)
{
    char out[QUOTE_BYTES + 1], hostile[400];

    out[QUOTE_BYTES] = '#';
    CU_ASSERT_STRING_EQUAL(quote_text(out, "abc"), "\"abc\"");
    CU_ASSERT_STRING_EQUAL(quote_text(out, "\033[31m\n\xff"), "\"\\x1b[31m\\x0a\\xff\"");
    for (size_t bytes = 0; bytes < sizeof(hostile); bytes++) {
        memset(hostile, bytes % 3 == 0 ? 'x' : '\1', bytes);
        hostile[bytes] = '\0';
        quote_text(out, hostile);
        CU_ASSERT(strlen(out) < QUOTE_BYTES);
        CU_ASSERT_EQUAL(out[strlen(out) - 1], '"');
    }
    CU_ASSERT_EQUAL(out[QUOTE_BYTES], '#');
}

static void
a_typing_mistake_finds_its_name_and_nonsense_finds_none(void)
{
    static const char *const names[] = { "memory.reserve", "memory.limit", "streams.port", "log" };
    static const struct {
        const char *text, *name;
    } rows[] = { { "memory.reserv", "memory.reserve" },
                 { "memroy.limit", "memory.limit" },
                 { "stream.port", "streams.port" },
                 { "xyzzy", NULL },
                 { "", NULL },
                 { "q", NULL } };
    char huge[5000];

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *near = nearest_name(rows[i].text, names, ARRAY_COUNT(names));
        CU_ASSERT(rows[i].name == NULL ? near == NULL : near != NULL && strcmp(near, rows[i].name) == 0);
    }
    memset(huge, 'm', sizeof(huge) - 1);
    huge[sizeof(huge) - 1] = '\0';
    CU_ASSERT_PTR_NULL(nearest_name(huge, names, ARRAY_COUNT(names)));
}

/* ---- the host, from a made-up /proc and /sys ---- */

static char root[] = "/tmp/sluice-test-host-XXXXXX";

static void
put(const char *path, const char *text)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        CU_ASSERT(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

#define GROUP "/sys/fs/cgroup/pod/box"

static void
the_host_gives_the_smaller_of_free_memory_and_every_cgroup_above(void)
{
    static struct host host;

    host_read(root, &host);
    CU_ASSERT_EQUAL(host.memory_bytes, 0); /* no /proc there */
    CU_ASSERT(host.cpu_count >= 1);

    put("/proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:    4194304 kB\n");
    host_read(root, &host);
    CU_ASSERT_EQUAL(host.memory_bytes, 4096 * (1ull << 20));
    CU_ASSERT_FALSE(host.memory_by_cgroup);

    put("/proc/self/cgroup", "0::/pod/box\n");
    put(GROUP "/memory.max", "max\n");
    put(GROUP "/cpu.max", "max 100000\n");
    host_read(root, &host);
    CU_ASSERT_EQUAL(host.memory_bytes, 4096 * (1ull << 20));
    CU_ASSERT_EQUAL(host.cpu_quota, 0);

    put(GROUP "/memory.max", "1073741824\n");
    put(GROUP "/memory.current", "536870912\n");
    put(GROUP "/memory.stat", "anon 1\ninactive_file 268435456\nfile 2\n");
    put(GROUP "/cpu.max", "250000 100000\n");
    host_read(root, &host);
    CU_ASSERT(host.memory_by_cgroup);
    CU_ASSERT_EQUAL(host.memory_bytes, 768ull << 20);
    CU_ASSERT_EQUAL(host.cpu_quota, 2);

    put("/sys/fs/cgroup/pod/memory.max", "104857600\n"); /* the parent is tighter and knows no use */
    host_read(root, &host);
    CU_ASSERT_EQUAL(host.memory_bytes, 100ull << 20);

    put(GROUP "/memory.current", "99999999999\n"); /* over its limit */
    host_read(root, &host);
    CU_ASSERT_EQUAL(host.memory_bytes, 0);
}

static void
the_old_hierarchy_counts_too(void)
{
    static struct host host;

    put("/proc/meminfo", "MemAvailable:    4194304 kB\n");
    put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/box\n0::/nowhere\ngarbage\n:\n");
    put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "73741824\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    host_read(root, &host);
    CU_ASSERT_EQUAL(host.memory_bytes, 1000000000);
    CU_ASSERT(host.memory_by_cgroup);
}

static int
suite_open(void)
{
    return mkdtemp(root) == NULL;
}

static int
suite_close(void)
{
    static const char *const paths[] = {
        "/proc/meminfo",
        "/proc/self/cgroup",
        "/proc/self",
        "/proc",
        GROUP "/memory.max",
        GROUP "/memory.current",
        GROUP "/memory.stat",
        GROUP "/cpu.max",
        GROUP,
        "/sys/fs/cgroup/pod/memory.max",
        "/sys/fs/cgroup/pod",
        "/sys/fs/cgroup/memory/box/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/box/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/box",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup",
        "/sys/fs",
        "/sys",
        "",
    };
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        char full[PATH_MAX];
        snprintf(full, sizeof(full), "%s%s", root, paths[i]);
        if (remove(full) != 0) {
            return 1;
        }
    }
    return 0;
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("units", NULL, NULL);
    CU_ADD_TEST(suite, counts_are_plain_decimal_digits);
    CU_ADD_TEST(suite, sizes_take_binary_units_only);
    CU_ADD_TEST(suite, times_need_a_unit);
    CU_ADD_TEST(suite, what_is_printed_reads_back);
    CU_ADD_TEST(suite, sizes_for_people_are_short);
    CU_ADD_TEST(suite, cpu_lists_are_checked_piece_by_piece);
    CU_ADD_TEST(suite, long_cpu_lists_print_cut_inside_their_room);
    CU_ADD_TEST(suite, quoting_escapes_and_cuts);
    CU_ADD_TEST(suite, a_typing_mistake_finds_its_name_and_nonsense_finds_none);
    suite = CU_add_suite("host", suite_open, suite_close);
    CU_ADD_TEST(suite, the_host_gives_the_smaller_of_free_memory_and_every_cgroup_above);
    CU_ADD_TEST(suite, the_old_hierarchy_counts_too);
    CU_basic_set_mode(CU_BRM_NORMAL);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
