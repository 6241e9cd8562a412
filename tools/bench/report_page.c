/* report_page.c - the page around the parts, what is said of runs and machines, and the command. */
#include "tools/bench/bench.h"
#include "tools/bench/escape.h"
#include "tools/bench/machine.h"
#include "tools/bench/progress.h"
#include "tools/bench/report.h"
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define METADATA_DEPTH_MAX 8

static const char usage[] =
    "Usage: sluice-bench report [OPTIONS] DIR\n"
    "One HTML page of a result folder, with everything in it: what latency, open, throughput, sweep, goals and matrix\n"
    "left there with --out DIR, as tables and plots. Plots are drawn by gnuplot (Debian: gnuplot-nox).\n"
    "  -o FILE       write it there (DIR/report.html)\n"
    "Exit codes: 0 written, 1 it could not be written, or a file of DIR could not be read (the page says which), 2 "
    "usage.\n";

static const struct {
    const char *name, *title;
    void (*write)(struct report *report);
} parts[] = {
    { "warnings", "Warnings", report_warnings },
    { "ranks", "Ranks", report_ranks },
    { "percentiles", "Percentiles", report_percentiles },
    { "open", "Latency over load", report_open },
    { "throughput", "Throughput", report_throughput },
    { "sweep", "Value sizes", report_sweep },
    { "memory", "Memory", report_memory },
    { "goals", "Goals", report_goals },
    { "machine", "Machine and commands", report_machine },
};

/* The page loads nothing from anywhere, and the browser is told to keep it so. */
static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n";

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1c2126;--soft:#5a646e;--line:#d4d9de;--mark:#fff3d6}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--paper:#15191d;--ink:#e4e8eb;--soft:#a0aab3;--line:#3a434b;"
    "--mark:#40341a}}\n"
    "body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--paper);color:var(--ink);"
    "font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.6rem;line-height:1.2}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid var(--line)}\n"
    "nav a{margin-right:1rem;color:inherit}\n"
    ".scroll{overflow:auto;max-height:40rem;margin:1rem 0}figure .scroll,.facts{max-height:none}\n"
    "thead th{position:sticky;top:0;background:var(--paper)}\n"
    "table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;color:var(--soft);padding-bottom:.25rem}\n"
    "th,td{padding:.2rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}\n"
    "th{font-weight:600}tbody th{font-weight:400}.text{text-align:left}\n"
    ".wrap th,.wrap td{white-space:normal;vertical-align:top;text-align:left}\n"
    ".warning{background:var(--mark);padding:.5rem .75rem;border-left:.25rem solid #b07d12}\n"
    ".absent{color:var(--soft)}\n"
    "code{font:.875em ui-monospace,monospace}\n"
    "figure{margin:1.5rem 0}figcaption{font-weight:600}\n"
    "svg{display:block;width:100%;min-width:34rem;max-width:56rem;height:auto}\n"
    "svg g[color=black]{color:var(--ink)}svg g[fill=black]{fill:var(--ink)}\n"
    "svg path[stroke=black]{stroke:var(--ink)}svg path[stroke=gray]{stroke:var(--line)}\n"
    "@media "
    "print{body{max-width:none;padding:0}nav{display:none}.scroll{overflow:visible;max-height:none}table{font-size:."
    "6rem}"
    "th,td{padding:.1rem .25rem}svg{min-width:0}figure,tr{break-inside:avoid}h2{break-after:avoid}}\n"
    "</style>\n";

/* ---- metadata.json ---- */

/* NULL: absent or not readable, and the part says so if `said`. */
static json_t *
metadata_read(struct report *report, bool said)
{
    char path[REPORT_PATH_BYTES], why[REPORT_WHY_BYTES];
    json_error_t error;
    report_path(report, "metadata.json", path);
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        if (said) {
            report_absent(report, "metadata.json", "latency -p PORT --out DIR");
        }
        return NULL;
    }
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL && said) {
        snprintf(why, sizeof(why), "%.400s:%d: %s", path, error.line, error.text);
        report_unread(report, why);
    }
    return root;
}

/* A word as a shell takes it. */
static void
word_write(FILE *html, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+%@";
    bool quoted = *word == '\0' || word[strspn(word, plain)] != '\0';
    fputs(quoted ? "&#39;" : "", html);
    for (const char *at = word; *at != '\0';) {
        size_t part = strcspn(at, "'");
        char *text = strndup(at, part);
        CHECK(text != NULL);
        escape_write(html, text, ESCAPE_HTML);
        free(text);
        at += part;
        if (*at == '\'') {
            fputs("&#39;\\&#39;&#39;", html);
            at++;
        }
    }
    fputs(quoted ? "&#39;" : "", html);
}

static void value_write(FILE *html, const json_t *value, uint32_t depth);

static void
object_write(FILE *html, const json_t *object, uint32_t depth)
{
    const char *name;
    json_t *value;
    fputs("<table class=\"wrap\"><tbody>\n", html);
    json_object_foreach((json_t *)object, name, value)
    {
        fputs("<tr><th scope=\"row\">", html);
        escape_write(html, name, ESCAPE_HTML);
        fputs("</th><td>", html);
        value_write(html, value, depth + 1);
        fputs("</td></tr>\n", html);
    }
    fputs("</tbody></table>\n", html);
}

static void
array_write(FILE *html, const json_t *array, uint32_t depth)
{
    size_t i;
    json_t *value;
    json_array_foreach(array, i, value)
    {
        bool block = json_is_object(value) || json_is_array(value);
        fputs(i > 0 && !block ? ", " : "", html);
        value_write(html, value, depth + 1);
    }
}

static void
value_write(FILE *html, const json_t *value, uint32_t depth)
{
    if (depth > METADATA_DEPTH_MAX) {
        fputs("...", html);
    } else if (json_is_object(value)) {
        object_write(html, value, depth);
    } else if (json_is_array(value)) {
        array_write(html, value, depth);
    } else if (json_is_string(value)) {
        escape_write(html, json_string_value(value), ESCAPE_HTML);
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        escape_write(html, text == NULL ? "" : text, ESCAPE_HTML);
        free(text);
    }
}

/* Warnings are strings or anything else: all of them are shown. */
static uint32_t
warnings_write(FILE *html, const json_t *run)
{
    const json_t *warnings = json_object_get(run, "warnings");
    const char *began = json_string_value(json_object_get(run, "began"));
    size_t i;
    json_t *warning;
    json_array_foreach(warnings, i, warning)
    {
        fputs("<p class=\"warning\">", html);
        escape_write(html, began == NULL ? "" : began, ESCAPE_HTML);
        fputs(began == NULL ? "" : ": ", html);
        value_write(html, warning, 0);
        fputs("</p>\n", html);
    }
    return (uint32_t)json_array_size(warnings);
}

void
report_warnings(struct report *report)
{
    uint32_t count = 0;
    size_t i;
    json_t *run, *root = metadata_read(report, false);
    report_part(report, "warnings", "Warnings");
    json_array_foreach(json_object_get(root, "runs"), i, run)
    {
        count += warnings_write(report->html, run);
    }
    if (root == NULL) {
        report_text(report, "Without a readable metadata.json nobody knows whether the machine was quiet.");
    } else if (count == 0) {
        report_text(report, "None: nothing disturbed the runs that was noticed.");
    }
    json_decref(root);
}

static void
run_write(FILE *html, const json_t *run)
{
    const json_t *command = json_object_get(run, "command");
    json_t *others = json_copy((json_t *)run), *word;
    size_t i;
    fputs("<p><code>", html);
    json_array_foreach(command, i, word)
    {
        fputs(i > 0 ? " " : "", html);
        word_write(html, json_is_string(word) ? json_string_value(word) : "");
    }
    fputs("</code></p>\n", html);
    if (others != NULL) {
        json_object_del(others, "command");
        json_object_del(others, "warnings");
        value_write(html, others, 0);
    }
    json_decref(others);
}

void
report_machine(struct report *report)
{
    size_t i;
    json_t *run, *value;
    const char *name;
    report_part(report, "machine", "Machine and commands");
    json_t *root = metadata_read(report, true), *runs = json_object_get(root, "runs");
    json_object_foreach(root, name, value)
    {
        if (value != runs) {
            fputs("<h3>", report->html);
            escape_write(report->html, name, ESCAPE_HTML);
            fputs("</h3>\n<div class=\"scroll facts\" tabindex=\"0\">", report->html);
            value_write(report->html, value, 0);
            fputs("</div>\n", report->html);
        }
    }
    if (json_array_size(runs) > 0) {
        fputs("<h3>Commands</h3>\n", report->html);
    }
    json_array_foreach(runs, i, run)
    {
        run_write(report->html, run);
    }
    json_decref(root);
}

/* ---- the page ---- */

static void
page_write(struct report *report)
{
    struct progress progress;
    char date[64];
    struct tm utc;
    time_t now = time(NULL);
    gmtime_r(&now, &utc);
    strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &utc);
    fputs(head, report->html);
    fputs("<title>Sluice: ", report->html);
    escape_write(report->html, report->folder, ESCAPE_HTML);
    fputs("</title>\n", report->html);
    fputs(style, report->html);
    fputs("</head>\n<body>\n<h1>Sluice: ", report->html);
    escape_write(report->html, report->folder, ESCAPE_HTML);
    fprintf(report->html, "</h1>\n<p>Written by sluice-bench %s on %s.</p>\n<nav>", SLUICE_VERSION, date);
    for (uint32_t i = 0; i < ARRAY_COUNT(parts); i++) {
        fprintf(report->html, "<a href=\"#%s\">%s</a> ", parts[i].name, parts[i].title);
    }
    fputs("</nav>\n<main>\n", report->html);
    progress_begin(&progress, "report", ARRAY_COUNT(parts));
    for (uint32_t i = 0; i < ARRAY_COUNT(parts); i++) {
        progress_show(&progress, i);
        parts[i].write(report);
    }
    progress_end(&progress);
    if (report->plots_left_out > 0) {
        report_text(report, "A page has at most %d plots: %u more were left out.", REPORT_PLOTS_MAX,
                    report->plots_left_out);
    }
    fputs("</main>\n</body>\n</html>\n", report->html);
}

static bool
folder_has_results(const struct report *report)
{
    static const char *const names[] = { "latency.csv", "unavailable.csv", "open.csv",  "throughput.csv",
                                         "sweep.csv",   "memory.csv",      "goals.csv", "metadata.json" };
    char path[REPORT_PATH_BYTES];
    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (access(report_path(report, names[i], path), F_OK) == 0) {
            return true;
        }
    }
    return false;
}

static int
fail(const char *what, const char *why)
{
    fputs("sluice-bench: ", stderr);
    escape_write(stderr, what, ESCAPE_TERMINAL);
    fputs(": ", stderr);
    escape_write(stderr, why, ESCAPE_TERMINAL);
    fputc('\n', stderr);
    return 1;
}

/* Whole, or not at all: a page that is there already stays until the new one is complete. A pipe or a device is written
 * to. */
static int
report_make(struct report *report, const char *path)
{
    char beside[REPORT_PATH_BYTES];
    struct stat about;
    bool direct = stat(path, &about) == 0 && !S_ISREG(about.st_mode);
    snprintf(beside, sizeof(beside), direct ? "%.4000s" : "%.4000s.%d", path, (int)getpid());
    report->html = fopen(beside, "we");
    if (report->html == NULL) {
        return fail(path, strerror(errno));
    }
    page_write(report);
    bool good = fflush(report->html) == 0 && !ferror(report->html);
    int error = errno;
    fclose(report->html);
    bool wanted = *report->why == '\0' && !machine_interrupted();
    if (wanted && good && (direct || rename(beside, path) == 0)) {
        fprintf(direct ? stderr : stdout, "%s\n", path);
        return report->unread > 0;
    }
    error = good ? errno : error;
    if (!direct) {
        unlink(beside);
    }
    return !wanted ? fail("report", *report->why != '\0' ? report->why : "interrupted") : fail(path, strerror(error));
}

int
bench_report(int argc, char **argv)
{
    static const struct option options[] = { { "help", no_argument, NULL, BENCH_HELP }, { 0 } };
    char path[REPORT_PATH_BYTES];
    const char *to = NULL;
    for (int option; (option = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        switch (option) {
        case 'o':
            to = optarg;
            break;
        case BENCH_HELP:
            printf("%s", usage);
            return 0;
        default:
            fprintf(stderr, "%s", usage);
            return BENCH_USAGE_ERROR;
        }
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "sluice-bench: report takes one folder\n%s", usage);
        return BENCH_USAGE_ERROR;
    }
    struct report report = { .folder = argv[optind] };
    if (strlen(report.folder) > 3000 || (to != NULL && strlen(to) > 3000)) {
        return fail("report", strerror(ENAMETOOLONG));
    }
    if (!folder_has_results(&report)) {
        return fail(report.folder,
                    "no results: latency, open, throughput, sweep, goals and matrix leave some with --out");
    }
    machine_interrupts_catch();
    return report_make(&report, to != NULL ? to : report_path(&report, "report.html", path));
}
