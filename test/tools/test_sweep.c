/* test_sweep.c - sluice-bench sweep: sizes, chunks, names, the switch, columns and their figures, bad command lines. */
#include "tools/bench/sweep_memcached.h"
#include "tools/bench/sweep_options.h"
#include <CUnit/Basic.h>
#include <getopt.h>
#include <unistd.h>

/* ---- sizes ---- */

static void
what_is_no_size_is_refused(void)
{
    static const char *const rows[] = { "",     "k",   "-1", "+1",           "1.5k",
                                        "0x10", "010", "1T", "8b8",          "1kk",
                                        "64M ", "1KB", " 8", "17179869184G", "99999999999999999999" };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t bytes;
        if (sweep_size_parse(rows[i], &bytes)) {
            CU_FAIL(rows[i]);
            printf("\n'%s' is %llu bytes\n", rows[i], (unsigned long long)bytes);
        }
    }
}

static void
sizes_are_read_as_nccl_tests_reads_them(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = { { "8", 8 },
                 { "0", 0 },
                 { "1k", 1024 },
                 { "512K", 512 * KIB },
                 { "64M", 64 * MIB },
                 { "2g", 2 * GIB },
                 { "64KiB", 64 * KIB },
                 { "1MiB", MIB },
                 { "17179869183G", 17179869183ull << 30 } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t bytes = 1;
        CU_ASSERT(sweep_size_parse(rows[i].text, &bytes));
        CU_ASSERT_EQUAL(bytes, rows[i].bytes);
    }
}

static void
sizes_are_printed_exactly(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = { { 1, "1 B" },         { 1000, "1000 B" }, { 1024, "1 KiB" },         { 1536, "1536 B" },
                 { 3 * MIB, "3 MiB" }, { GIB, "1 GiB" },   { 2048 * GIB, "2048 GiB" } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[32];
        CU_ASSERT_STRING_EQUAL(sweep_size_print(text, rows[i].bytes), rows[i].text);
    }
}

static void
sizes_grow_by_the_factor_and_end_at_the_end(void)
{
    static const struct {
        uint64_t begin, end, factor;
        uint32_t count;
        uint64_t last;
    } rows[] = {
        { 8, 64 * MIB, 2, 24, 64 * MIB },
        { 8, 2 * GIB, 2, 29, 2 * GIB },
        { 8, 8, 2, 1, 8 },
        { 8, 15, 2, 1, 8 },
        { 8, 16, 2, 2, 16 },
        { 3, 1000, 10, 3, 300 },
        { 1, 7, 7, 2, 7 },
        { 1, 6, 7, 1, 1 },
        { 1, SWEEP_SIZE_MAX, 2, 37, SWEEP_SIZE_MAX },
        { SWEEP_SIZE_MAX, SWEEP_SIZE_MAX, 1024, 1, SWEEP_SIZE_MAX },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t sizes[SWEEP_SIZES_MAX];
        uint32_t count = sweep_sizes(rows[i].begin, rows[i].end, rows[i].factor, sizes);
        CU_ASSERT_EQUAL_FATAL(count, rows[i].count);
        CU_ASSERT_EQUAL(sizes[0], rows[i].begin);
        CU_ASSERT_EQUAL(sizes[count - 1], rows[i].last);
        for (uint32_t j = 1; j < count; j++) {
            CU_ASSERT_EQUAL(sizes[j], sizes[j - 1] * rows[i].factor);
        }
    }
}

static void
transfers_are_cut_into_values_that_a_server_takes(void)
{
    static const struct {
        uint64_t size, chunk_max;
        uint32_t rails;
        uint64_t chunk_bytes, chunks, last_bytes;
    } rows[] = {
        { 1, MIB, 1, 1, 1, 1 },
        { MIB - 1, MIB, 1, MIB - 1, 1, MIB - 1 },
        { MIB, MIB, 1, MIB, 1, MIB },
        { MIB + 1, MIB, 1, MIB, 2, 1 },
        { 64 * MIB, MIB, 1, MIB, 64, MIB },
        { 64 * MIB, 4 * KIB, 1, 4 * KIB, 16384, 4 * KIB },
        /* rails: stripes, but none below 64 KiB */
        { 8, MIB, 4, 8, 1, 8 },
        { 64 * KIB, MIB, 4, 64 * KIB, 1, 64 * KIB },
        { 64 * KIB + 1, MIB, 4, 64 * KIB, 2, 1 },
        { 128 * KIB, MIB, 4, 64 * KIB, 2, 64 * KIB },
        { 256 * KIB, MIB, 4, 64 * KIB, 4, 64 * KIB },
        { MIB, MIB, 4, 256 * KIB, 4, 256 * KIB },
        { MIB, MIB, 3, 349526, 3, 349524 },
        { 64 * MIB, MIB, 4, MIB, 64, MIB },
        { 128 * KIB, 4 * KIB, 2, 4 * KIB, 32, 4 * KIB },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct sweep_cut cut = sweep_cut_of(rows[i].size, rows[i].chunk_max, rows[i].rails);
        CU_ASSERT_EQUAL(cut.chunk_bytes, rows[i].chunk_bytes);
        CU_ASSERT_EQUAL(cut.chunks, rows[i].chunks);
        CU_ASSERT_EQUAL(cut.last_bytes, rows[i].last_bytes);
    }
    for (uint64_t size = 1; size < 3 * MIB; size += 4099) {
        for (uint32_t rails = 1; rails <= 5; rails++) {
            struct sweep_cut cut = sweep_cut_of(size, MIB, rails);
            uint64_t sum = 0;
            for (uint64_t chunk = 0; chunk < cut.chunks; chunk++) {
                uint64_t bytes = sweep_cut_bytes(&cut, chunk);
                CU_ASSERT(bytes > 0 && bytes <= MIB);
                sum += bytes;
            }
            CU_ASSERT_EQUAL(sum, size);
        }
    }
}

/* ---- names ---- */

static void
the_switch_knows_two_words(void)
{
    static const struct {
        const char *text;
        enum sweep_switch is;
    } rows[] = { { NULL, SWEEP_SWITCH_UNSET },  { "", SWEEP_SWITCH_UNSET },   { "true", SWEEP_SWITCH_ON },
                 { "false", SWEEP_SWITCH_OFF }, { "0", SWEEP_SWITCH_BAD },    { "False", SWEEP_SWITCH_BAD },
                 { "no", SWEEP_SWITCH_BAD },    { "true ", SWEEP_SWITCH_BAD } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CU_ASSERT_EQUAL(sweep_switch_read(rows[i].text), rows[i].is);
    }
}

static void
only_efa_is_switched_off(void)
{
    static const struct {
        const char *name;
        enum sweep_switch efa;
        enum sweep_carrier carrier;
        const char *runs, *provider; /* NULL: no fabric */
        bool switched_off;
    } rows[] = {
        { "tcp", SWEEP_SWITCH_UNSET, SWEEP_TCP, "tcp", NULL, false },
        { "none", SWEEP_SWITCH_ON, SWEEP_TCP, "none", NULL, false },
        { "unix", SWEEP_SWITCH_OFF, SWEEP_UNIX, "unix", NULL, false },
        { "ethernet", SWEEP_SWITCH_OFF, SWEEP_ETHERNET, "ethernet", NULL, false },
        { "efa", SWEEP_SWITCH_UNSET, SWEEP_FABRIC, "efa", "efa", false },
        { "efa", SWEEP_SWITCH_ON, SWEEP_FABRIC, "efa", "efa", false },
        { "efa", SWEEP_SWITCH_OFF, SWEEP_TCP, "none", NULL, true },
        { "efa-direct", SWEEP_SWITCH_OFF, SWEEP_TCP, "none", NULL, true },
        { "fabric-efa", SWEEP_SWITCH_OFF, SWEEP_TCP, "none", NULL, true },
        { "shm", SWEEP_SWITCH_OFF, SWEEP_FABRIC, "shm", "shm", false },
        { "tcp;ofi_rxm", SWEEP_SWITCH_OFF, SWEEP_FABRIC, "tcp;ofi_rxm", "tcp;ofi_rxm", false },
        { "fabric-tcp", SWEEP_SWITCH_UNSET, SWEEP_FABRIC, "fabric-tcp", "tcp", false },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct sweep_transport transport;
        CU_ASSERT(sweep_transport_of(rows[i].name, rows[i].efa, &transport));
        CU_ASSERT_EQUAL(transport.carrier, rows[i].carrier);
        CU_ASSERT_STRING_EQUAL(transport.name, rows[i].runs);
        CU_ASSERT_EQUAL(transport.switched_off, rows[i].switched_off);
        if (rows[i].provider != NULL) {
            CU_ASSERT_STRING_EQUAL(sweep_provider(&transport), rows[i].provider);
        }
    }
    struct sweep_transport ignored;
    CU_ASSERT_FALSE(sweep_transport_of("", SWEEP_SWITCH_UNSET, &ignored));
    CU_ASSERT_FALSE(sweep_transport_of("fabric-", SWEEP_SWITCH_UNSET, &ignored));
    CU_ASSERT_FALSE(
        sweep_transport_of("a-name-of-forty-eight-letters-which-is-one-too-many", SWEEP_SWITCH_UNSET, &ignored));
}

static void
two_transports_are_split_at_the_colon(void)
{
    static const char *const bad[] = {
        "", ":", "a", "a:", ":b", "a:b:c", "a:a-name-of-forty-eight-letters-which-is-one-too-many"
    };
    char names[2][SWEEP_NAME_BYTES];
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CU_ASSERT_FALSE(sweep_versus_split(bad[i], names));
    }
    CU_ASSERT(sweep_versus_split("tcp;ofi_rxm:none", names));
    CU_ASSERT_STRING_EQUAL(names[0], "tcp;ofi_rxm");
    CU_ASSERT_STRING_EQUAL(names[1], "none");
}

static void
lists_and_places_are_split(void)
{
    struct sweep_list list;
    static struct sweep_place place; /* what it holds lives as long as the program */
    char empty[] = "", hole[] = "a,,b", two[] = "rdmap0s6,rdmap1s6", many[2 * SWEEP_RAILS_MAX + 2];
    for (size_t i = 0; i < sizeof(many) - 1; i++) {
        many[i] = i % 2 == 0 ? 'a' : ',';
    }
    many[sizeof(many) - 1] = '\0'; /* SWEEP_RAILS_MAX + 1 words */
    CU_ASSERT_FALSE(sweep_list_split(&list, empty));
    CU_ASSERT_FALSE(sweep_list_split(&list, hole));
    CU_ASSERT_FALSE(sweep_list_split(&list, many));
    for (size_t i = 0; i < sizeof(many) - 1; i++) {
        many[i] = i % 2 == 0 ? 'a' : ',';
    }
    many[2 * SWEEP_RAILS_MAX - 1] = '\0';
    CU_ASSERT(sweep_list_split(&list, many));
    CU_ASSERT_EQUAL(list.count, SWEEP_RAILS_MAX);
    CU_ASSERT(sweep_list_split(&list, two));
    CU_ASSERT_EQUAL_FATAL(list.count, 2);
    CU_ASSERT_STRING_EQUAL(list.words[1], "rdmap1s6");

    char no_name[] = "=a", no_address[] = "tcp=", no_list[] = "tcp", no_port[] = "tcp=10.0.0.1:0",
         good[] = "tcp;ofi_rxm=10.0.0.1:7000,/run/x";
    CU_ASSERT_FALSE(sweep_place_read(&place, no_name));
    CU_ASSERT_FALSE(sweep_place_read(&place, no_address));
    CU_ASSERT_FALSE(sweep_place_read(&place, no_list));
    CU_ASSERT_FALSE(sweep_place_read(&place, no_port));
    CU_ASSERT(sweep_place_read(&place, good));
    CU_ASSERT_STRING_EQUAL(place.name, "tcp;ofi_rxm");
    CU_ASSERT_EQUAL_FATAL(place.count, 2);
    CU_ASSERT_STRING_EQUAL(place.addresses[0].host, "10.0.0.1");
    CU_ASSERT_EQUAL(place.addresses[0].port, 7000);
    CU_ASSERT_PTR_NULL(place.addresses[0].path);
    CU_ASSERT_STRING_EQUAL(place.addresses[1].path, "/run/x");
}

/* ---- values ---- */

static void
neighbouring_values_differ_and_lie_in_the_pattern(void)
{
    uint8_t *pattern = sweep_pattern_open();
    for (uint64_t chunk = 0; chunk < 70; chunk++) {
        for (uint64_t version = 0; version < 30; version++) {
            const uint8_t *value = sweep_pattern_value(pattern, chunk, version);
            CU_ASSERT(value >= pattern && value + LIMIT_VALUE_BYTES <= pattern + SWEEP_PATTERN_BYTES);
            CU_ASSERT(memcmp(value, sweep_pattern_value(pattern, chunk + 1, version), 8) != 0);
            CU_ASSERT(memcmp(value, sweep_pattern_value(pattern, chunk, version + 1), 8) != 0);
        }
    }
    free(pattern);
}

/* ---- memcached ---- */

static void
piece_is(const struct sweep_piece *piece, const char *text)
{
    CU_ASSERT_EQUAL(piece->bytes, strlen(text));
    CU_ASSERT(memcmp(piece->data, text, strlen(text)) == 0);
}

static void
memcached_is_asked_with_meta_commands(void)
{
    struct sweep_form form;
    sweep_memcached_form(&form, 2, 1000);
    piece_is(&form.request[SWEEP_SET].head, "ms bench:sweep:2:00000000 1000\r\n");
    piece_is(&form.request[SWEEP_SET].tail, "\r\n");
    piece_is(&form.request[SWEEP_GET].head, "mg bench:sweep:2:00000000 v\r\n");
    piece_is(&form.request[SWEEP_GET].tail, "");
    piece_is(&form.answer[SWEEP_SET].head, "HD\r\n");
    piece_is(&form.answer[SWEEP_GET].head, "VA 1000\r\n");
    piece_is(&form.answer[SWEEP_GET].tail, "\r\n");
    CU_ASSERT_EQUAL(form.request[SWEEP_SET].value_bytes, 1000);
    CU_ASSERT_EQUAL(form.request[SWEEP_GET].value_bytes, 0);
    CU_ASSERT_EQUAL(form.answer[SWEEP_SET].value_bytes, 0);
    CU_ASSERT_EQUAL(form.answer[SWEEP_GET].value_bytes, 1000);
    for (int operation = 0; operation < SWEEP_OPERATIONS; operation++) {
        const struct sweep_frame *frame = &form.request[operation];
        CU_ASSERT(memcmp(frame->head.data + frame->chunk_at, "00000000", SWEEP_CHUNK_DIGITS) == 0);
        CU_ASSERT_EQUAL(frame->head.data[frame->chunk_at - 1], ':');
    }
}

static void
replies_of_memcached_are_told_apart(void)
{
    static const struct {
        const char *wire;
        enum client_status status;
        enum value_kind kind;
        const char *text;
    } rows[] = {
        { "E", CLIENT_TIMEOUT, VALUE_NIL, "" },
        { "EN\r", CLIENT_TIMEOUT, VALUE_NIL, "" },
        { "EN\r\n", CLIENT_OK, VALUE_NIL, "EN" },
        { "NS\r\nHD\r\n", CLIENT_OK, VALUE_STATUS, "NS" },
        { "VA 3\r\nabc\r\n", CLIENT_OK, VALUE_STATUS, "VA 3" },
        { "ERROR\r\n", CLIENT_OK, VALUE_ERROR, "ERROR" },
        { "CLIENT_ERROR bad data chunk\r\n", CLIENT_OK, VALUE_ERROR, "CLIENT_ERROR bad data chunk" },
        { "SERVER_ERROR out of memory storing object\r\nHD\r\n", CLIENT_OK, VALUE_ERROR,
          "SERVER_ERROR out of memory storing object" },
        { "\n", CLIENT_OK, VALUE_STATUS, "\n" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct value root;
        size_t bytes, length = strlen(rows[i].wire);
        uint8_t *copy = malloc(length); /* exactly as long: a byte beyond is found */
        memcpy(copy, rows[i].wire, length);
        enum client_status status = sweep_memcached_decode(slice_of(copy, length), &root, &bytes);
        CU_ASSERT_EQUAL(status, rows[i].status);
        if (status == CLIENT_OK) {
            CU_ASSERT_EQUAL(root.kind, rows[i].kind);
            CU_ASSERT(slice_equal(root.bytes, slice_text(rows[i].text)));
            CU_ASSERT_EQUAL(bytes, (size_t)(strchr(rows[i].wire, '\n') - rows[i].wire) + 1);
        }
        free(copy);
    }
}

/* ---- results and columns ---- */

static void
a_result_is_what_pen_and_paper_give(void)
{
    uint64_t ticks[4] = { 4000, 1000, 2000, 3000 };
    struct sweep_result result = sweep_result_of(1000, ticks, 4, 0.5); /* half a nanosecond a tick */
    CU_ASSERT_DOUBLE_EQUAL(result.times.mean_us, 1.25, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(result.times.p50_us, 1, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(result.times.min_us, 0.5, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(result.times.max_us, 2, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(result.bytes_per_second, 1e9, 1e-3); /* of the median */
    CU_ASSERT_EQUAL(sweep_result_of(1000, NULL, 0, 1).bytes_per_second, 0);
}

static void
columns_are_those_of_the_report(void)
{
    static const struct {
        const char *a, *b;
        uint32_t rails, count;
        const char *heads[SWEEP_COLUMNS_MAX];
        const char *cells[SWEEP_COLUMNS_MAX];
    } rows[] = {
        { "efa", NULL, 1, 1, { "efa" }, { "8.0000" } },
        { "efa", "none", 1, 3, { "efa", "none", "efa / none" }, { "8.0000", "2.0000", "4.00" } },
        { "efa", NULL, 4, 3, { "4 efa", "1 efa", "4 efa / 1 efa" }, { "8.0000", "2.0000", "4.00" } },
        { "efa",
          "none",
          4,
          6,
          { "4 efa", "1 efa", "none", "1 efa / none", "4 efa / none", "4 efa / 1 efa" },
          { "8.0000", "2.0000", "0.5000", "4.00", "16.00", "4.00" } },
    };
    static const struct sweep_result results[SWEEP_SIDES_MAX] = { { .bytes_per_second = 8e9 },
                                                                  { .bytes_per_second = 2e9 },
                                                                  { .bytes_per_second = 5e8 } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct sweep_column columns[SWEEP_COLUMNS_MAX];
        uint32_t count = sweep_columns(rows[i].a, rows[i].b, rows[i].rails, columns);
        CU_ASSERT_EQUAL_FATAL(count, rows[i].count);
        for (uint32_t j = 0; j < count; j++) {
            char cell[32];
            CU_ASSERT_STRING_EQUAL(columns[j].head, rows[i].heads[j]);
            CU_ASSERT_STRING_EQUAL(sweep_cell_print(cell, &columns[j], results), rows[i].cells[j]);
        }
    }
}

/* Rates of the report (64 MB, 2 GB) give its speed-ups: 11.5 and 18.7; 2.5 and 6.7. */
static void
speed_ups_of_the_report_come_out(void)
{
    static const struct {
        double a, b;
        const char *speed_up;
    } rows[] = { { 44.37e9, 3.85e9, "11.52" },
                 { 77.35e9, 4.13e9, "18.73" },
                 { 17.27e9, 6.83e9, "2.53" },
                 { 46.11e9, 6.83e9, "6.75" },
                 { 0, 1e9, "-" },
                 { 1e9, 0, "-" } };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct sweep_column columns[SWEEP_COLUMNS_MAX];
        struct sweep_result results[2] = { { .bytes_per_second = rows[i].a }, { .bytes_per_second = rows[i].b } };
        char cell[32];
        sweep_columns("efa", "none", 1, columns);
        CU_ASSERT_STRING_EQUAL(sweep_cell_print(cell, &columns[2], results), rows[i].speed_up);
    }
}

/* ---- command lines ---- */

#define WORDS_MAX 20

#define LINES_MAX 128

/* Words are split at blanks. Options point into the line and keep addresses, which live as long as the program. */
static int
options_of(const char *line, struct sweep_options **out)
{
    static struct sweep_options kept[LINES_MAX];
    static char lines[LINES_MAX][256];
    static uint32_t used;
    CU_ASSERT_FATAL(used < LINES_MAX);
    char *words[WORDS_MAX + 1] = { (char *)"sweep" }, *word, *rest = lines[used];
    int count = 1;
    snprintf(lines[used], sizeof(lines[used]), "%s", line);
    while (count < WORDS_MAX && (word = strsep(&rest, " ")) != NULL) {
        if (*word != '\0') {
            words[count++] = word;
        }
    }
    optind = 0; /* glibc: begin anew */
    *out = &kept[used++];
    return sweep_options_read(*out, count, words);
}

static void
bad_command_lines_are_usage_errors(void)
{
    static const char *const rows[] = {
        "-b 0",
        "-b 16 -e 8",
        "-e 65G",
        "-e 1T",
        "-f 1",
        "-f two",
        "-n 0",
        "-w -1",
        "-t incr",
        "-t set,",
        "-t ",
        "--chunk 4095",
        "--chunk 1048577",
        "--rails 0",
        "--rails 33",
        "--vs shm",
        "--vs tcp:tcp",
        "--vs tcp:none",
        "--vs tcp:shm --provider net",
        "--vs shm:fabric-shm",
        "--vs ethernet:tcp",
        "--vs tcp:peer",
        "--vs memcached:tcp",
        "--vs peer:peer --at peer=127.0.0.1:1",
        "--at tcp",
        "--at shm=127.0.0.1:1",
        "--at tcp=127.0.0.1:0",
        "--at tcp=127.0.0.1:1,127.0.0.1:99999",
        "--rail-domain a,,b",
        "more",
        "--nonsense",
        "-p 0",
        "--wire resp4",
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct sweep_options *options;
        if (options_of(rows[i], &options) != BENCH_USAGE_ERROR) {
            CU_FAIL("taken");
            printf("\n%s was taken\n", rows[i]);
        }
    }
}

static void
the_environment_chooses_where_nothing_is_named(void)
{
    static const struct {
        const char *efa, *line, *a, *b; /* a NULL: refused */
    } rows[] = {
        { "", "", "tcp", NULL },
        { "true", "", "efa", NULL },
        { "true", "--provider shm", "shm", NULL },
        { "true", "-s /run/x", "efa", NULL },
        { "true", "--vs shm:tcp", "shm", "tcp" },
        { "false", "", "tcp", NULL },
        { "false", "--provider efa", "none", NULL },
        { "false", "--vs efa:shm", "none", "shm" },
        { "false", "--provider efa --at efa=10.0.0.2:6379", "none", NULL },
        { "false", "--vs efa:shm --at efa=10.0.0.2:6379", "none", "shm" },
        { "false", "--vs efa:none", NULL, NULL },
        { "false", "--vs efa:tcp", NULL, NULL },
        { "yes", "", NULL, NULL },
        { "", "-s /run/x", "unix", NULL },
        { "", "--ethernet", "ethernet", NULL },
        { "", "--provider tcp", "fabric-tcp", NULL },
        { "", "--vs tcp:peer --at peer=127.0.0.1:1", "tcp", "peer" },
        { "", "--vs ethernet:tcp --at ethernet=10.0.0.2:6379", "ethernet", "tcp" },
        { "", "--vs tcp;ofi_rxm:fabric-tcp", "tcp;ofi_rxm", "fabric-tcp" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct sweep_options *options;
        setenv("USE_EFA", rows[i].efa, 1);
        int code = options_of(rows[i].line, &options);
        CU_ASSERT_EQUAL(code, rows[i].a == NULL ? BENCH_USAGE_ERROR : -1);
        if (code == -1 && rows[i].a != NULL) {
            CU_ASSERT_STRING_EQUAL(options->transports[0].name, rows[i].a);
            CU_ASSERT_EQUAL(options->versus, rows[i].b != NULL);
        }
        if (code == -1 && rows[i].b != NULL) {
            CU_ASSERT_STRING_EQUAL(options->transports[1].name, rows[i].b);
        }
    }
    unsetenv("USE_EFA");
}

static void
a_command_line_is_read(void)
{
    struct sweep_options *options;
    CU_ASSERT_EQUAL_FATAL(options_of("", &options), -1);
    CU_ASSERT_EQUAL(options->begin, 8);
    CU_ASSERT_EQUAL(options->end, 64 * MIB);
    CU_ASSERT_EQUAL(options->factor, 2);
    CU_ASSERT_EQUAL(options->chunk, MIB);
    CU_ASSERT(options->chosen[SWEEP_SET] && options->chosen[SWEEP_GET]);
    CU_ASSERT_EQUAL_FATAL(options_of("-b 1k -e 2G -f 4 -n 100 -w 0 -t GET --rails 4", &options), -1);
    CU_ASSERT_EQUAL(options->begin, KIB);
    CU_ASSERT_EQUAL(options->end, 2 * GIB);
    CU_ASSERT_EQUAL(options->factor, 4);
    CU_ASSERT_EQUAL(options->iterations, 100);
    CU_ASSERT_EQUAL(options->warmup, 0);
    CU_ASSERT_EQUAL(options->rails, 4);
    CU_ASSERT_FALSE(options->chosen[SWEEP_SET]);
    CU_ASSERT_EQUAL_FATAL(options_of("--at tcp=10.0.0.2:7000 --rail-node 10.0.0.3,10.0.1.3 --markdown", &options), -1);
    CU_ASSERT_EQUAL(options->places.count, 1);
    CU_ASSERT_EQUAL(options->rail_lists.nodes.count, 2);
    CU_ASSERT_EQUAL(options->format, SWEEP_MARKDOWN);
}

int
main(void)
{
    unsetenv("USE_EFA");
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("sweep", NULL, NULL);
    CU_ADD_TEST(suite, what_is_no_size_is_refused);
    CU_ADD_TEST(suite, sizes_are_read_as_nccl_tests_reads_them);
    CU_ADD_TEST(suite, sizes_are_printed_exactly);
    CU_ADD_TEST(suite, sizes_grow_by_the_factor_and_end_at_the_end);
    CU_ADD_TEST(suite, transfers_are_cut_into_values_that_a_server_takes);
    CU_ADD_TEST(suite, the_switch_knows_two_words);
    CU_ADD_TEST(suite, only_efa_is_switched_off);
    CU_ADD_TEST(suite, two_transports_are_split_at_the_colon);
    CU_ADD_TEST(suite, lists_and_places_are_split);
    CU_ADD_TEST(suite, neighbouring_values_differ_and_lie_in_the_pattern);
    CU_ADD_TEST(suite, memcached_is_asked_with_meta_commands);
    CU_ADD_TEST(suite, replies_of_memcached_are_told_apart);
    CU_ADD_TEST(suite, a_result_is_what_pen_and_paper_give);
    CU_ADD_TEST(suite, columns_are_those_of_the_report);
    CU_ADD_TEST(suite, speed_ups_of_the_report_come_out);
    CU_ADD_TEST(suite, bad_command_lines_are_usage_errors);
    CU_ADD_TEST(suite, the_environment_chooses_where_nothing_is_named);
    CU_ADD_TEST(suite, a_command_line_is_read);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures != 0;
}
