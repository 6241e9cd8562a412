/* test_report.c - what pages and tables are made of: text where characters mean something, tables in every form, and
 * logs of histograms read back to the bucket. */
#include "tools/bench/escape.h"
#include "tools/bench/hlog.h"
#include "tools/bench/hlog_read.h"
#include "tools/bench/sheet.h"
#include <CUnit/Basic.h>
#include <unistd.h>

static char path[] = "/tmp/sluice-report-XXXXXX";

static void
text_is_escaped_for_where_it_stands(void)
{
    static const struct {
        enum escape form;
        const char *text, *escaped;
    } rows[] = {
        { ESCAPE_HTML, "<script>&\"'", "&lt;script&gt;&amp;&quot;&#39;" },
        { ESCAPE_HTML, "a\tb\nc\rd", "a b c d" },
        { ESCAPE_MARKDOWN, "a|b <i> `c` *d* [e](f) \\", "a\\|b &lt;i&gt; \\`c\\` \\*d\\* \\[e\\](f) \\\\" },
        { ESCAPE_MARKDOWN, "tcp;ofi_rxm - 1.5 / 2", "tcp;ofi_rxm - 1.5 / 2" },
        { ESCAPE_GNUPLOT, "it's `id` \\ \"@x\"", "it''s `id` \\ \"@x\"" },
        { ESCAPE_GNUPLOT, "a\nplot x", "a plot x" },
        { ESCAPE_TERMINAL, "\x1b[31m\x07\x7f<&>'|",
          "?[31m?"
          "?<&>'|" },
        { ESCAPE_TERMINAL, "", "" },
        { ESCAPE_TERMINAL, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80" },
        { ESCAPE_TERMINAL,
          "\xc2\x9b"
          "31m",
          "??31m" }, /* CSI in one character */
        { ESCAPE_TERMINAL,
          "\xe2\x80\xae"
          "abc",
          "???abc" },                                               /* right to left from here on */
        { ESCAPE_HTML, "\xff\xc0\x80\xc3", "????" },                /* no UTF-8, overlong, cut off */
        { ESCAPE_HTML, "\xed\xa0\x80\xf4\x90\x80\x80", "???????" }, /* a surrogate, and beyond the last character */
        { ESCAPE_HTML, "\xe0\x80\xaf<", "???&lt;" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char *text;
        size_t bytes;
        FILE *memory = open_memstream(&text, &bytes);
        escape_write(memory, rows[i].text, rows[i].form);
        fclose(memory);
        CU_ASSERT_STRING_EQUAL(text, rows[i].escaped);
        free(text);
    }
    CU_ASSERT_EQUAL(escape_width("a\xc3\xa9\xe2\x82\xac\xff"), 4);
}

static void
a_table_is_printed_in_every_form(void)
{
    static const char *const wanted[] = {
        [SHEET_TEXT] = " n  name\n 1  a|<b>\n22  \xc3\xa9\n",
        [SHEET_CSV] = "n,name\n1,a|<b>\n22,\xc3\xa9\n",
        [SHEET_MARKDOWN] = "| n | name |\n|---:|---|\n| 1 | a\\|&lt;b&gt; |\n| 22 | \xc3\xa9 |\n",
        [SHEET_HTML] = "<div class=\"scroll\" tabindex=\"0\"><table>\n<caption>1 &lt; 2</caption>\n"
                       "<thead><tr><th scope=\"col\">n</th><th scope=\"col\" class=\"text\">name</th></tr></thead>\n"
                       "<tbody>\n<tr><td>1</td><th scope=\"row\" class=\"text\">a|&lt;b&gt;</th></tr>\n"
                       "<tr><td>22</td><th scope=\"row\" class=\"text\">\xc3\xa9</th></tr>\n</tbody></table></div>\n",
    };
    struct sheet sheet;
    sheet_init(&sheet, "1 < 2");
    sheet_column(&sheet, "n", false);
    sheet_column(&sheet, "name", true);
    sheet_cell(&sheet, "%d", 1);
    sheet_cell(&sheet, "a|<b>");
    sheet_cell(&sheet, "%d", 22);
    sheet_cell(&sheet, "\xc3\xa9");
    for (uint32_t form = 0; form < ARRAY_COUNT(wanted); form++) {
        char *text;
        size_t bytes;
        FILE *memory = open_memstream(&text, &bytes);
        sheet_print(&sheet, memory, form);
        fclose(memory);
        CU_ASSERT_STRING_EQUAL(text, wanted[form]);
        free(text);
    }
    sheet_fini(&sheet);
}

/* ---- logs ---- */

#define SAMPLES 5000

static uint64_t
sample(uint32_t i)
{
    return 1 + (uint64_t)i * i * i / 48; /* from 1 ns to 44 min */
}

static void
a_log_reads_back_to_the_bucket(void)
{
    static uint64_t values[SAMPLES];
    char why[HLOG_READ_WHY_BYTES];
    struct hlog_reading reading;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        values[i] = sample(SAMPLES - 1 - i);
    }
    CU_ASSERT_FATAL(hlog_write(path, values, SAMPLES, 1, 1.7e9, 1, why, sizeof(why)));
    CU_ASSERT_FATAL(hlog_read(&reading, path, why));
    CU_ASSERT_EQUAL(reading.samples, SAMPLES);
    for (uint32_t rank = 1; rank <= SAMPLES; rank++) {
        uint64_t value = sample(rank - 1), read = hlog_read_rank(&reading, rank);
        /* Never below, and above by less than the bucket is wide: 3 digits. */
        CU_ASSERT_FATAL(read >= value && (read < 2048 ? read == value : read - value <= value / 1000));
    }
    hlog_read_fini(&reading);
}

static void
file_put(const char *text)
{
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

static void
damaged_logs_are_refused(void)
{
    static const char *const texts[] = {
        "",
        "#only a comment\n",
        "no interval\n",
        "0,1,1,!!!!\n",
        "0,1,1,AAAA\n",
        "0,1,1,HISTFAAAAAA=\n",
        "0,1,1,HISTFAAAAAR4nGNg\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        char why[HLOG_READ_WHY_BYTES] = "";
        struct hlog_reading reading;
        file_put(texts[i]);
        CU_ASSERT(!hlog_read(&reading, path, why));
        CU_ASSERT_EQUAL(strncmp(why, path, strlen(path)), 0);
    }
}

/* Each byte of a log changed in turn: refused, or read as something, and never beyond its end. */
static void
a_log_with_any_byte_changed_does_no_harm(void)
{
    char text[4096], why[HLOG_READ_WHY_BYTES];
    uint64_t values[] = { 5, 5000, 5000000 };
    struct hlog_reading reading;
    CU_ASSERT_FATAL(hlog_write(path, values, ARRAY_COUNT(values), 1, 1.7e9, 1, why, sizeof(why)));
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[bytes] = '\0';
    CU_ASSERT_FATAL(bytes > 100 && bytes < sizeof(text) - 1);
    uint32_t refused = 0;
    for (size_t i = 0; i < bytes; i++) {
        char kept = text[i];
        text[i] = (char)(kept ^ 1);
        file_put(text);
        text[i] = kept;
        if (!hlog_read(&reading, path, why)) {
            refused++;
            continue;
        }
        CU_ASSERT(reading.samples > 0 && hlog_read_rank(&reading, reading.samples) > 0);
        hlog_read_fini(&reading);
    }
    CU_ASSERT(refused > 20);
}

static void
a_log_that_is_absent_is_named(void)
{
    char why[HLOG_READ_WHY_BYTES];
    struct hlog_reading reading;
    CU_ASSERT(!hlog_read(&reading, "/nonexistent/a.hlog", why));
    CU_ASSERT_STRING_EQUAL(why, "/nonexistent/a.hlog: No such file or directory");
}

int
main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) {
        perror(path);
        return 1;
    }
    close(fd);
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("report", NULL, NULL);
    CU_ADD_TEST(suite, text_is_escaped_for_where_it_stands);
    CU_ADD_TEST(suite, a_table_is_printed_in_every_form);
    CU_ADD_TEST(suite, a_log_that_is_absent_is_named);
    CU_ADD_TEST(suite, damaged_logs_are_refused);
    CU_ADD_TEST(suite, a_log_with_any_byte_changed_does_no_harm);
    CU_ADD_TEST(suite, a_log_reads_back_to_the_bucket);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    unlink(path);
    return failures != 0;
}
