/* test_csv.c - tables: what is refused and with which words, what is read, and what is written reads back. */
#include "tools/bench/csv.h"
#include <CUnit/Basic.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[] = "/tmp/sluice-csv-XXXXXX";

static void
file_put(const void *text, size_t bytes)
{
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL_FATAL(fwrite(text, 1, bytes, file), bytes);
    CU_ASSERT_EQUAL_FATAL(fclose(file), 0);
}

static bool
read_text(struct csv *csv, const char *text)
{
    file_put(text, strlen(text));
    return csv_init(csv, path);
}

/* What csv->error says behind the path. */
static const char *
error_of(const struct csv *csv)
{
    CU_ASSERT_EQUAL(strncmp(csv->error, path, strlen(path)), 0);
    return csv->error + MIN(strlen(path), strlen(csv->error));
}

static void
files_that_cannot_be_read_are_named(void)
{
    struct csv csv;
    CU_ASSERT(!csv_init(&csv, "/nonexistent/x.csv"));
    CU_ASSERT_STRING_EQUAL(csv.error, "/nonexistent/x.csv: No such file or directory");
    csv_fini(&csv);
    CU_ASSERT(!csv_init(&csv, "/"));
    CU_ASSERT_STRING_EQUAL(csv.error, "/: Is a directory");
    csv_fini(&csv);
}

static void
bad_tables_are_refused_with_their_line(void)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        { "", ": empty, without a header" },
        { "\xef\xbb\xbf", ": empty, without a header" },
        { "a,b", ":1: the line has no end: the file was cut off" },
        { "a,b\n1,2\n3,", ":3: the line has no end: the file was cut off" },
        { "a,b\n1,2\n3,\"4\"", ":3: the line has no end: the file was cut off" },
        { "a,b\n1,2\n3\n", ":3: 1 cells, the header has 2" },
        { "a,b\n1,2,3\n", ":2: 3 cells, the header has 2" },
        { "a,b\n\n", ":2: 1 cells, the header has 2" },
        { "a,b,a\n", ":1: two columns are called 'a'" },
        { "a,,b\n", ":1: column 2 has no name" },
        { "\n", ":1: column 1 has no name" },
        { "a\n1\r2\n", ":2: a carriage return without a line feed" },
        { "a\n1\r", ":2: a carriage return without a line feed" },
        { "a\n1\"2\n", ":2: a quote inside a cell that does not begin with one" },
        { "a\n\"1\"2\n", ":2: a quoted cell is followed by something else than a comma or the line's end" },
        { "a\n\"1\n\n2\"x\n", ":4: a quoted cell is followed by something else than a comma or the line's end" },
        { "a\n\"1\n2\n", ":2: a quoted cell begins here and does not end" },
        { "a\n\"", ":2: a quoted cell begins here and does not end" },
        { "a\n\"1\"\"", ":2: a quoted cell begins here and does not end" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct csv csv;
        CU_ASSERT(!read_text(&csv, rows[i].text));
        CU_ASSERT_STRING_EQUAL(error_of(&csv), rows[i].error);
        csv_fini(&csv);
    }
}

static void
a_nul_is_refused(void)
{
    struct csv csv;
    file_put("a\n1\n2\0\n", 7);
    CU_ASSERT(!csv_init(&csv, path));
    CU_ASSERT_STRING_EQUAL(error_of(&csv), ":3: a NUL byte: this is no text");
    csv_fini(&csv);
}

static void
cells_columns_and_files_end_at_their_limits(void)
{
    static char text[CSV_FILE_BYTES_MAX + 2];
    struct csv csv;
    for (size_t bytes = CSV_CELL_BYTES_MAX - 1; bytes <= CSV_CELL_BYTES_MAX + 1; bytes++) {
        memset(text, 'x', bytes + 2);
        memcpy(text, "a\n", 2);
        memcpy(text + 2 + bytes, "\n", 2);
        CU_ASSERT_EQUAL(read_text(&csv, text), bytes <= CSV_CELL_BYTES_MAX);
        csv_fini(&csv);
    }
    for (size_t columns = CSV_COLUMNS_MAX - 1; columns <= CSV_COLUMNS_MAX + 1; columns++) {
        char *at = text;
        for (size_t i = 0; i < columns; i++) {
            at += sprintf(at, "c%zu%s", i, i + 1 < columns ? "," : "\n");
        }
        CU_ASSERT_EQUAL(read_text(&csv, text), columns <= CSV_COLUMNS_MAX);
        csv_fini(&csv);
    }
    for (size_t bytes = CSV_FILE_BYTES_MAX - 1; bytes <= CSV_FILE_BYTES_MAX + 1; bytes++) {
        for (size_t i = 0; i < bytes; i++) {
            text[i] = i % 1000 == 999 ? '\n' : 'x';
        }
        text[bytes - 1] = '\n';
        file_put(text, bytes);
        CU_ASSERT_EQUAL(csv_init(&csv, path), bytes <= CSV_FILE_BYTES_MAX);
        if (bytes > CSV_FILE_BYTES_MAX) {
            CU_ASSERT_STRING_EQUAL(error_of(&csv), ": too long: more than 16777216 bytes");
        }
        csv_fini(&csv);
    }
}

static void
cells_are_read_as_they_are_quoted(void)
{
    struct csv csv;
    uint32_t column;
    CU_ASSERT_FATAL(read_text(&csv, "\xef\xbb\xbf\"a\",b c,\"d\"\"e\"\r\n"
                                    "1,\"\",\"x,\r\ny\"\n"
                                    ",\"\"\"\",' \t;\r\n"));
    CU_ASSERT_STRING_EQUAL(csv.error, "");
    CU_ASSERT_EQUAL(csv.rows, 2);
    CU_ASSERT_EQUAL(csv.columns, 3);
    CU_ASSERT_STRING_EQUAL(csv_cell(&csv, 0, 0), "1");
    CU_ASSERT_STRING_EQUAL(csv_cell(&csv, 0, 1), "");
    CU_ASSERT_STRING_EQUAL(csv_cell(&csv, 0, 2), "x,\r\ny");
    CU_ASSERT_STRING_EQUAL(csv_cell(&csv, 1, 0), "");
    CU_ASSERT_STRING_EQUAL(csv_cell(&csv, 1, 1), "\"");
    CU_ASSERT_STRING_EQUAL(csv_cell(&csv, 1, 2), "' \t;");
    CU_ASSERT_EQUAL(csv_line(&csv, 0), 2);
    CU_ASSERT_EQUAL(csv_line(&csv, 1), 4);
    CU_ASSERT(csv_column(&csv, "d\"e", &column));
    CU_ASSERT_EQUAL(column, 2);
    CU_ASSERT(!csv_column(&csv, "e", &column));
    CU_ASSERT_STRING_EQUAL(error_of(&csv), ":1: no column 'e'");
    csv_fini(&csv);
}

static void
columns_are_found_in_any_order(void)
{
    static const char *const names[] = { "b", "a" }, *const missing[] = { "a", "c", "d" };
    uint32_t columns[3];
    struct csv csv;
    CU_ASSERT_FATAL(read_text(&csv, "a,x,b\n"));
    CU_ASSERT_EQUAL(csv.rows, 0);
    CU_ASSERT(csv_columns(&csv, names, 2, columns));
    CU_ASSERT_EQUAL(columns[0], 2);
    CU_ASSERT_EQUAL(columns[1], 0);
    CU_ASSERT(!csv_columns(&csv, missing, 3, columns));
    CU_ASSERT_STRING_EQUAL(error_of(&csv), ":1: no column 'c'");
    csv_fini(&csv);
}

static void
what_is_no_number_is_said(void)
{
    static const char *const bad[] = { "",    ".",    ".5",  "5.",  "-1",  "+1",    " 1",       "1 ",
                                       "1e3", "0x10", "nan", "inf", "1,5", "1.2.3", "not here", "1000000000000000" };
    static const struct {
        const char *text;
        double number;
    } good[] = {
        { "0", 0 }, { "007", 7 }, { "22.6724", 22.6724 }, { "0.0001", 0.0001 }, { "999999999999999", 999999999999999 }
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct csv csv;
        char text[64], error[128];
        snprintf(text, sizeof(text), "us,x\n1,2\n\"%s\",3\n", bad[i]);
        snprintf(error, sizeof(error), ":3: us is '%s', expected a number", bad[i]);
        CU_ASSERT_FATAL(read_text(&csv, text));
        CU_ASSERT_EQUAL(csv_number(&csv, 0, 0), 1);
        CU_ASSERT_STRING_EQUAL(csv.error, "");
        CU_ASSERT_EQUAL(csv_number(&csv, 1, 0), 0);
        CU_ASSERT_STRING_EQUAL(error_of(&csv), error);
        csv_complain(&csv, 0, "a later one");
        CU_ASSERT_STRING_EQUAL(error_of(&csv), error);
        csv_fini(&csv);
    }
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        struct csv csv;
        char text[64];
        snprintf(text, sizeof(text), "us\n%s\n", good[i].text);
        CU_ASSERT_FATAL(read_text(&csv, text));
        CU_ASSERT_EQUAL(csv_number(&csv, 0, 0), good[i].number);
        CU_ASSERT_STRING_EQUAL(csv.error, "");
        csv_fini(&csv);
    }
}

static void
a_whole_number_has_no_point(void)
{
    struct csv csv;
    CU_ASSERT_FATAL(read_text(&csv, "n\n200000\n1.0\n"));
    CU_ASSERT_EQUAL(csv_whole(&csv, 0, 0), 200000);
    CU_ASSERT_EQUAL(csv_whole(&csv, 1, 0), 0);
    CU_ASSERT_STRING_EQUAL(error_of(&csv), ":3: n is '1.0', expected a whole number");
    csv_fini(&csv);
}

static void
a_row_that_is_there_twice_is_said(void)
{
    static const uint32_t both[] = { 0, 1 }, first[] = { 0 };
    struct csv csv;
    CU_ASSERT_FATAL(read_text(&csv, "l,o\nx,GET\ny,GET\nx,SET\ny,PING\ny,GET\nx,GET\n"));
    CU_ASSERT(!csv_unique(&csv, both, 2));
    CU_ASSERT_STRING_EQUAL(error_of(&csv), ":6: y GET again: it is on line 3 already");
    csv_fini(&csv);
    CU_ASSERT_FATAL(read_text(&csv, "l,o\nxy,z\nx,yz\n"));
    CU_ASSERT(csv_unique(&csv, both, 2));
    CU_ASSERT(csv_unique(&csv, first, 1));
    csv_fini(&csv);
    CU_ASSERT_FATAL(read_text(&csv, "l,o\n"));
    CU_ASSERT(csv_unique(&csv, both, 2));
    csv_fini(&csv);
}

static void
what_is_written_reads_back(void)
{
    static const char *const cells[] = {
        "plain", "", "a,b", "say \"no\"", "two\r\nlines", "<script>", "\xc3\xa9 ", "\""
    };
    struct csv csv;
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fprintf(file, "a,b,c,d,e,f,g,h\n");
    csv_row_write(file, cells, ARRAY_COUNT(cells));
    csv_row_write(file, cells, ARRAY_COUNT(cells));
    fclose(file);
    CU_ASSERT_FATAL(csv_init(&csv, path));
    CU_ASSERT_EQUAL(csv.rows, 2);
    for (uint32_t i = 0; i < csv.columns; i++) {
        CU_ASSERT_STRING_EQUAL(csv_cell(&csv, 1, i), cells[i]);
    }
    csv_fini(&csv);
}

static void
rows_are_added_under_one_header(void)
{
    char error[CSV_ERROR_BYTES], text[64] = "";
    unlink(path);
    for (int i = 0; i < 3; i++) {
        FILE *file = csv_append(path, "a,b", error);
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        fprintf(file, "%d,x\n", i);
        fclose(file);
    }
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fread(text, 1, sizeof(text) - 1, file), 16);
    fclose(file);
    CU_ASSERT_STRING_EQUAL(text, "a,b\n0,x\n1,x\n2,x\n");
}

/* A row of a table that this process and others may begin at the same time. */
static void
row_append(int fd, int row)
{
    char error[CSV_ERROR_BYTES], go;
    if (read(fd, &go, 1) == 1) {
        FILE *file = csv_append(path, "a,b", error);
        if (file != NULL) {
            fprintf(file, "%d,x\n", row);
            fclose(file);
        }
    }
}

static void
a_table_that_several_begin_at_once_has_one_header(void)
{
    enum { TURNS = 100, WRITERS = 4 };
    for (int turn = 0; turn < TURNS; turn++) {
        struct csv csv;
        int fds[2];
        unlink(path);
        CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
        for (int i = 0; i < WRITERS; i++) {
            if (fork() == 0) {
                row_append(fds[0], i);
                _exit(0);
            }
        }
        CU_ASSERT_EQUAL(write(fds[1], "gogo", WRITERS), WRITERS);
        for (int i = 0; i < WRITERS; i++) {
            wait(NULL);
        }
        close(fds[0]);
        close(fds[1]);
        CU_ASSERT_TRUE(csv_init(&csv, path));
        CU_ASSERT_EQUAL(csv.rows, WRITERS);
        csv_fini(&csv);
    }
}

static void
rows_are_not_added_to_another_table_or_behind_half_a_row(void)
{
    char error[CSV_ERROR_BYTES], wanted[CSV_ERROR_BYTES];
    file_put("a,b\n1,2\n", 8);
    CU_ASSERT_PTR_NULL(csv_append(path, "a,c", error));
    snprintf(wanted, sizeof(wanted), "%s:1: another table is there already: its header is not 'a,c'", path);
    CU_ASSERT_STRING_EQUAL(error, wanted);
    file_put("a,b\n1,2", 7);
    CU_ASSERT_PTR_NULL(csv_append(path, "a,b", error));
    snprintf(wanted, sizeof(wanted), "%s: its last line has no end: take it away first", path);
    CU_ASSERT_STRING_EQUAL(error, wanted);
    CU_ASSERT_PTR_NULL(csv_append("/nonexistent/x.csv", "a", error));
    CU_ASSERT_STRING_EQUAL(error, "/nonexistent/x.csv: No such file or directory");
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
    CU_pSuite suite = CU_add_suite("csv", NULL, NULL);
    CU_ADD_TEST(suite, files_that_cannot_be_read_are_named);
    CU_ADD_TEST(suite, bad_tables_are_refused_with_their_line);
    CU_ADD_TEST(suite, a_nul_is_refused);
    CU_ADD_TEST(suite, cells_columns_and_files_end_at_their_limits);
    CU_ADD_TEST(suite, cells_are_read_as_they_are_quoted);
    CU_ADD_TEST(suite, columns_are_found_in_any_order);
    CU_ADD_TEST(suite, what_is_no_number_is_said);
    CU_ADD_TEST(suite, a_whole_number_has_no_point);
    CU_ADD_TEST(suite, a_row_that_is_there_twice_is_said);
    CU_ADD_TEST(suite, what_is_written_reads_back);
    CU_ADD_TEST(suite, rows_are_added_under_one_header);
    CU_ADD_TEST(suite, a_table_that_several_begin_at_once_has_one_header);
    CU_ADD_TEST(suite, rows_are_not_added_to_another_table_or_behind_half_a_row);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    unlink(path);
    return failures != 0;
}
