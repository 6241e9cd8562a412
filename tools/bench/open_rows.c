/* open_rows.c - rows of open. */
#include "tools/bench/open_rows.h"
#include "tools/bench/csv.h"
#include "tools/bench/hlog.h"
#include "tools/bench/machine.h"

#define CSV_FILE "open.csv"

const char *
open_verdict(const struct open_row *row)
{
    const struct open_result *result = row->result;
    bool slow = row->p99_us_most > 0 && result->latency.p99_us > row->p99_us_most;
    return result->broken                           ? "broken"
           : result->errors + result->surprises > 0 ? "errors"
           : result->client_bound                   ? "client"
           : !result->kept                          ? "not kept"
           : slow                                   ? "slow"
                                                    : "kept";
}

static void
csv_row_print(const struct open_row *row, FILE *to)
{
    const struct summary *times = &row->result->latency;
    csv_cell_write(to, row->target->label);
    fputc(',', to);
    csv_cell_write(to, row->test);
    fprintf(to, ",%.0f,%.1f,%llu,%llu,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%s\n", row->rate, row->result->achieved,
            (unsigned long long)times->samples, (unsigned long long)row->result->late, times->p50_us, times->p90_us,
            times->p99_us, times->p99_9_us, times->p99_99_us, times->max_us, times->mean_us,
            row->result->lateness.p99_us, open_verdict(row));
}

void
open_header_print(bool csv)
{
    if (csv) {
        printf("%s\n", OPEN_CSV_HEADER);
    } else {
        printf("%-24s %-8s %10s %10s %9s %8s %9s %9s %9s %9s %9s %9s %9s\n", "label", "test", "intended/s",
               "achieved/s", "samples", "late", "p50 us", "p90 us", "p99 us", "p99.9 us", "p99.99 us", "max us",
               "client us");
    }
}

static void
table_row_print(const struct open_row *row)
{
    const struct summary *times = &row->result->latency;
    printf("%-24s %-8s %10.0f %10.1f %9llu %8llu %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f  %s\n", row->target->label,
           row->test, row->rate, row->result->achieved, (unsigned long long)times->samples,
           (unsigned long long)row->result->late, times->p50_us, times->p90_us, times->p99_us, times->p99_9_us,
           times->p99_99_us, times->max_us, row->result->lateness.p99_us, open_verdict(row));
}

static void
row_explain(const struct open_row *row)
{
    const struct open_result *result = row->result;
    if (result->client_bound) {
        fprintf(
            stderr,
            "sluice-bench: %s at %.0f/s: the client was the bottleneck (it was itself late by %.1f us at p99): this "
            "run says nothing of the server\n",
            row->target->label, row->rate, result->lateness.p99_us);
    }
    if (result->misses > 0) {
        fprintf(stderr, "sluice-bench: %s: %llu misses; --load creates what the tests read\n", row->test,
                (unsigned long long)result->misses);
    }
    if (result->unanswered > 0) {
        fprintf(
            stderr,
            "sluice-bench: %s: %llu requests were not answered when the run ended: they count with how long they had "
            "waited\n",
            row->test, (unsigned long long)result->unanswered);
    }
    if (result->errors + result->surprises > 0 || result->broken) {
        fprintf(stderr, "sluice-bench: %s: %llu errors, %llu replies of another type%s: %s\n", row->test,
                (unsigned long long)result->errors, (unsigned long long)result->surprises,
                result->broken ? ", ended early" : "", result->error);
    }
}

void
open_row_print(const struct open_row *row, bool csv)
{
    if (csv) {
        csv_row_print(row, stdout);
    } else {
        table_row_print(row);
    }
    fflush(stdout);
    row_explain(row);
}

void
open_row_keep(const struct open_row *row, struct targets *targets)
{
    const struct open_result *result = row->result;
    bool wrong = result->broken || result->errors + result->surprises > 0;
    if (wrong || result->client_bound || result->latency.samples == 0) { /* no latency of this rate */
        char error[512];
        snprintf(error, sizeof(error), "open %s at %.0f/s: %s", row->test, row->rate,
                 wrong                  ? result->error
                 : result->client_bound ? "the client was the bottleneck"
                                        : "interrupted before anything was measured");
        targets_unavailable(targets, row->target->label, error);
        return;
    }
    FILE *file = targets_table(targets, CSV_FILE, OPEN_CSV_HEADER);
    if (file != NULL) {
        csv_row_print(row, file);
        targets_table_close(targets, file, CSV_FILE);
    }
}

bool
open_log_write(const struct open_row *row, const char *folder, double began_s)
{
    char path[4096], why[512];
    snprintf(path, sizeof(path), "%s/%s-open-%s-%.0f.hlog", folder, row->target->label, row->test, row->rate);
    bool good = hlog_write(path, row->result->latencies, row->result->latency.samples, machine_ns_per_cycle(), began_s,
                           row->result->seconds, why, sizeof(why));
    if (!good) {
        fprintf(stderr, "sluice-bench: --hlog: %s\n", why);
    }
    return good;
}
