/* rank_print.c - the tables of rank, what is to be said about them, and the command. */
#include "tools/bench/bench.h"
#include "tools/bench/escape.h"
#include "tools/bench/rank.h"
#include <getopt.h>
#include <stdarg.h>

static const char usage[] =
    "Usage: sluice-bench rank [OPTIONS] FILE|DIR\n"
    "FILE is what latency and matrix write: latency.csv, or one of the same columns; of a folder, its latency.csv.\n"
    "Ranks modes by the mean of the eight operations' p50. An unavailable.csv beside FILE is read as well.\n"
    "  --format text|csv|markdown    (text)\n"
    "  --operations                  p50 / p99.99 of each operation instead of the averages\n"
    "A mode without all eight operations, or interrupted in one, is shown without a rank.\n";

/* ticks / by with `decimals`; "-" or, in CSV, nothing when it is not known. */
static void
figure_cell(struct sheet *sheet, enum sheet_form form, bool known, int64_t ticks, int64_t by)
{
    if (!known) {
        sheet_cell(sheet, "%s", form == SHEET_CSV ? "" : "-");
    } else if (form == SHEET_CSV) {
        int64_t figure = rank_divide(ticks, by);
        sheet_cell(sheet, "%lld.%04lld", (long long)figure / 10000, (long long)figure % 10000);
    } else {
        int64_t figure = rank_divide(ticks, by * 100);
        sheet_cell(sheet, "%lld.%02lld", (long long)figure / 100, (long long)figure % 100);
    }
}

void
rank_aggregate(const struct rank *rank, enum sheet_form form, struct sheet *sheet)
{
    static const struct {
        const char *machine, *people;
    } names[] = { { "avg_p50_us", "avg p50 us" },
                  { "avg_mean_us", "avg mean us" },
                  { "avg_sequential_ops_s", "avg seq. ops/s" },
                  { "avg_p99_99_us", "avg p99.99 us" },
                  { "worst_max_us", "worst max us" } };
    bool csv = form == SHEET_CSV;
    sheet_init(sheet, "Modes by the mean of the eight operations' p50");
    if (!csv) {
        sheet_column(sheet, "rank", false);
    }
    sheet_column(sheet, "label", true);
    if (csv) {
        sheet_column(sheet, "operations", false);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        sheet_column(sheet, csv ? names[i].machine : names[i].people, false);
    }
    for (uint32_t i = 0; i < rank->count; i++) {
        const struct rank_label *label = &rank->labels[rank->order[i]];
        bool known = label->operations == OPERATION_COUNT;
        if (!csv && label->rank == 0) {
            sheet_cell(sheet, "-");
        } else if (!csv) {
            sheet_cell(sheet, "%u", label->rank);
        }
        sheet_cell(sheet, "%s", label->label);
        if (csv) {
            sheet_cell(sheet, "%u", label->operations);
        }
        figure_cell(sheet, form, known, label->sum_p50, OPERATION_COUNT);
        figure_cell(sheet, form, known, label->sum_mean, OPERATION_COUNT);
        if (known) {
            sheet_cell(sheet, "%.0f", label->sum_rate / OPERATION_COUNT);
        } else {
            sheet_cell(sheet, "%s", csv ? "" : "-");
        }
        figure_cell(sheet, form, known, label->sum_p99_99, OPERATION_COUNT);
        figure_cell(sheet, form, known, label->worst_max, 1);
    }
}

void
rank_operations(const struct rank *rank, enum sheet_form form, struct sheet *sheet)
{
    sheet_init(sheet, "p50 / p99.99 of each operation, us");
    sheet_column(sheet, "label", true);
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof(name), form == SHEET_CSV ? "%s_p50_us" : "%s", operation_names[i]);
        sheet_column(sheet, name, false);
        if (form == SHEET_CSV) {
            snprintf(name, sizeof(name), "%s_p99_99_us", operation_names[i]);
            sheet_column(sheet, name, false);
        }
    }
    for (uint32_t i = 0; i < rank->count; i++) {
        const struct rank_label *label = &rank->labels[i];
        sheet_cell(sheet, "%s", label->label);
        for (uint32_t j = 0; j < OPERATION_COUNT; j++) {
            const struct rank_figures *figures = &label->figures[j];
            if (form == SHEET_CSV || figures->samples == 0) {
                figure_cell(sheet, form, figures->samples > 0, figures->p50, 1);
                if (form == SHEET_CSV) {
                    figure_cell(sheet, form, figures->samples > 0, figures->p99_99, 1);
                }
                continue;
            }
            long long p50 = rank_divide(figures->p50, 100), p99_99 = rank_divide(figures->p99_99, 100);
            sheet_cell(sheet, "%lld.%02lld / %lld.%02lld", p50 / 100, p50 % 100, p99_99 / 100, p99_99 % 100);
        }
    }
}

static void
incomplete_note(const struct rank_label *label, char text[RANK_NOTE_BYTES])
{
    int used = snprintf(text, RANK_NOTE_BYTES, "%.200s has no rank: %u of %d operations were measured, not",
                        label->label, label->operations, OPERATION_COUNT);
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        if (label->figures[i].samples == 0) {
            used += snprintf(text + used, RANK_NOTE_BYTES - (size_t)used, " %s", operation_names[i]);
        }
    }
    if (label->error != NULL) {
        snprintf(text + used, RANK_NOTE_BYTES - (size_t)used, " (%s)", label->error);
    }
}

/* Smallest and largest number of samples of this label's operations. */
static void
samples_span(const struct rank_label *label, uint64_t *least, uint64_t *most)
{
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        uint64_t samples = label->figures[i].samples;
        *least = samples > 0 ? MIN(*least, samples) : *least;
        *most = MAX(*most, samples);
    }
}

/* False: nothing is to be said about it. */
static bool
label_note(const struct rank_label *label, char text[RANK_NOTE_BYTES])
{
    uint64_t least = UINT64_MAX, most = 0;
    switch (label->state) {
    case RANK_COMPLETE:
    case RANK_FLOOR:
        return false;
    case RANK_UNEVEN:
        samples_span(label, &least, &most);
        snprintf(text, RANK_NOTE_BYTES,
                 "%.200s has no rank: its operations have between %llu and %llu samples: it was interrupted",
                 label->label, (unsigned long long)least, (unsigned long long)most);
        return true;
    case RANK_INCOMPLETE:
        incomplete_note(label, text);
        return true;
    case RANK_UNAVAILABLE:
        snprintf(text, RANK_NOTE_BYTES, "%.200s is unavailable: %s", label->label, label->error);
        return true;
    }
    return false;
}

bool
rank_note(const struct rank *rank, uint32_t *at, char text[RANK_NOTE_BYTES])
{
    uint32_t complete = 0, floors = 0;
    uint64_t least = UINT64_MAX, most = 0;
    for (; *at < rank->count; (*at)++) {
        if (label_note(&rank->labels[rank->order[*at]], text)) {
            (*at)++;
            return true;
        }
    }
    for (uint32_t i = 0; i < rank->count; i++) {
        floors += rank->labels[i].state == RANK_FLOOR;
        complete += rank->labels[i].state == RANK_COMPLETE;
        if (rank->labels[i].state == RANK_COMPLETE) {
            samples_span(&rank->labels[i], &least, &most);
        }
    }
    for (uint32_t general = *at - rank->count;; general++) {
        *at = rank->count + general + 1;
        if (general == 0 && floors > 0) {
            snprintf(text, RANK_NOTE_BYTES, "a label that ends in -floor is the bare transport: it has no rank");
            return true;
        }
        if (general == 1 && complete == 0) {
            snprintf(text, RANK_NOTE_BYTES, "no label has all eight operations: nothing is ranked");
            return true;
        }
        if (general == 2 && most > least) {
            snprintf(text, RANK_NOTE_BYTES, "labels were measured with between %llu and %llu samples an operation",
                     (unsigned long long)least, (unsigned long long)most);
            return true;
        }
        if (general > 2) {
            return false;
        }
    }
}

static void
notes_print(const struct rank *rank, FILE *to, enum sheet_form form)
{
    char text[RANK_NOTE_BYTES];
    for (uint32_t at = 0, first = 0; rank_note(rank, &at, text); first++) {
        fputs(first == 0 && form != SHEET_CSV ? "\n" : "", to);
        fputs(form == SHEET_MARKDOWN ? "- " : form == SHEET_CSV ? "sluice-bench: " : "", to);
        escape_write(to, text, form == SHEET_MARKDOWN ? ESCAPE_MARKDOWN : ESCAPE_TERMINAL);
        fputc('\n', to);
    }
}

static int
rank_show(const char *path, enum sheet_form form, bool operations)
{
    struct rank rank;
    struct sheet sheet;
    if (!rank_init(&rank, path)) {
        fputs("sluice-bench: ", stderr);
        escape_write(stderr, rank.error, ESCAPE_TERMINAL);
        fputc('\n', stderr);
        rank_fini(&rank);
        return 1;
    }
    if (operations) {
        rank_operations(&rank, form, &sheet);
    } else {
        rank_aggregate(&rank, form, &sheet);
    }
    sheet_print(&sheet, stdout, form);
    notes_print(&rank, form == SHEET_CSV ? stderr : stdout, form);
    sheet_fini(&sheet);
    rank_fini(&rank);
    return 0;
}

int
bench_rank(int argc, char **argv)
{
    enum { OPTION_FORMAT = BENCH_OWN, OPTION_OPERATIONS };
    static const struct option options[] = {
        { "format", required_argument, NULL, OPTION_FORMAT },
        { "operations", no_argument, NULL, OPTION_OPERATIONS },
        { "help", no_argument, NULL, BENCH_HELP },
        { 0 },
    };
    static const char *const forms[] = { [SHEET_TEXT] = "text", [SHEET_CSV] = "csv", [SHEET_MARKDOWN] = "markdown" };
    uint32_t form = SHEET_TEXT;
    bool operations = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case OPTION_FORMAT:
            for (form = 0; form < ARRAY_COUNT(forms) && strcmp(optarg, forms[form]) != 0; form++) {
            }
            if (form == ARRAY_COUNT(forms)) {
                fprintf(stderr, "sluice-bench: --format is '%s', expected text, csv or markdown\n", optarg);
                return BENCH_USAGE_ERROR;
            }
            break;
        case OPTION_OPERATIONS:
            operations = true;
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
        fprintf(stderr, "sluice-bench: rank takes one file\n%s", usage);
        return BENCH_USAGE_ERROR;
    }
    return rank_show(argv[optind], form, operations);
}
