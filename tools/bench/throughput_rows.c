/* throughput_rows.c - rows of throughput. */
#include "tools/bench/throughput_rows.h"
#include "tools/bench/csv.h"
#include "tools/bench/machine.h"

#define CSV_FILE           "throughput.csv"
/* Threads of the server that do less than that are not named. */
#define THREAD_SHARE_LEAST 0.02

/* ---- gathering ---- */

void
measured_add(struct measured *measured, const struct generator_result *result, const struct counters *counters)
{
    bool first = measured->runs == 0;
    CHECK(measured->runs < THROUGHPUT_RUNS_MAX);
    uint64_t right = result->replies - result->errors - result->surprises;
    measured->rates[measured->runs++] = result->seconds > 0 ? (double)right / result->seconds : 0;
    measured->replies += result->replies;
    measured->misses += result->misses;
    measured->errors += result->errors;
    measured->surprises += result->surprises;
    measured->seconds += result->seconds;
    measured->broken |= result->broken;
    if (measured->error[0] == '\0') {
        snprintf(measured->error, sizeof(measured->error), "%s", result->error);
    }
    if (result->tick_count > 0) {
        uint64_t *ticks =
            realloc(measured->ticks, (measured->tick_count + result->tick_count) * sizeof(*measured->ticks));
        CHECK(ticks != NULL);
        memcpy(ticks + measured->tick_count, result->ticks, result->tick_count * sizeof(*ticks));
        measured->ticks = ticks;
        measured->tick_count += result->tick_count;
    }
    measured->has_cpu = (first || measured->has_cpu) && counters->has_cpu;
    measured->has_instructions = (first || measured->has_instructions) && counters->has_instructions;
    measured->has_busy = (first || measured->has_busy) && counters->has_busy;
    measured->cpu_ns += (double)counters->cpu_ns;
    measured->instructions += (double)counters->instructions;
    measured->busy_ns += counters->busy_ns;
    measured->counted_seconds += counters->seconds;
    measured->counters = *counters;
}

void
measured_finish(struct measured *measured)
{
    double rates[THROUGHPUT_RUNS_MAX];
    memcpy(rates, measured->rates, measured->runs * sizeof(*rates));
    measured->rate = median_of(rates, measured->runs);
    measured->times = summary_of(measured->ticks, measured->tick_count, machine_ns_per_cycle());
}

void
measured_fini(struct measured *measured)
{
    free(measured->ticks);
    measured->ticks = NULL;
}

/* ---- printing ---- */

/* `total` over the replies; "not here" when it is not known. */
static void
per_reply(char *text, size_t text_bytes, bool known, double total, uint64_t replies)
{
    if (known && replies > 0) {
        snprintf(text, text_bytes, "%.0f", total / (double)replies);
    } else {
        snprintf(text, text_bytes, "not here");
    }
}

/* What the server spent: a thread that spins always uses its CPU, and only the server knows how much of that was busy.
 */
static void
server_print(const struct measured *measured)
{
    const struct counters *counters = &measured->counters;
    char text[32];
    if (counters->pid == 0 && counters->control == NULL) {
        return;
    }
    const char *separator = "";
    printf("    server: ");
    if (measured->has_cpu) {
        per_reply(text, sizeof(text), true, measured->cpu_ns, measured->replies);
        printf("CPU %s ns an operation (", text);
        const char *between = "";
        for (uint32_t i = 0; i < counters->thread_count; i++) {
            double share = (double)counters->threads[i].cpu_ns * 1e-9 / counters->seconds;
            if (share >= THREAD_SHARE_LEAST) {
                printf("%s%s %.0f%%", between, counters->threads[i].name, 100 * share);
                between = ", ";
            }
        }
        printf(" of a CPU)");
        separator = "; ";
    }
    if (measured->has_busy) {
        per_reply(text, sizeof(text), true, measured->busy_ns, measured->replies);
        printf("%sbusy %s ns an operation (%.0f%% of a CPU found work; the rest is spinning)", separator, text,
               100 * measured->busy_ns * 1e-9 / measured->counted_seconds);
        separator = "; ";
    } else if (counters->control != NULL) {
        printf("%sbusy not here: %s does not say", separator, counters->control);
        separator = "; ";
    }
    if (counters->pid != 0) {
        per_reply(text, sizeof(text), measured->has_instructions, measured->instructions, measured->replies);
        printf("%sinstructions %s%s%s", separator, text,
               measured->has_instructions ? " an operation, in user space" : ": ",
               measured->has_instructions ? "" : counters->why);
    }
    printf("\n");
}

void
rows_header(enum row_form form)
{
    if (form == ROWS_CSV) {
        printf("test,requests_per_second,requests,seconds,misses,errors,p50_us,p99_us,max_us,label,connections,depth,"
               "lcores,value_bytes,keys,distribution,server_cpu_ns,instructions\n");
    } else if (form == ROWS_TABLE) {
        printf("%-24s %-8s %5s %5s %6s %6s %11s %10s %7s %9s %9s %9s\n", "label", "test", "conns", "depth", "lcores",
               "bytes", "requests/s", "requests", "s", "p50 us", "p99 us", "max us");
    }
}

static void
csv_print(const struct target *target, const struct load_case *load, const struct measured *measured)
{
    const struct summary *times = &measured->times;
    char cpu[32], instructions[32];
    per_reply(cpu, sizeof(cpu), measured->has_cpu, measured->cpu_ns, measured->replies);
    per_reply(instructions, sizeof(instructions), measured->has_instructions, measured->instructions,
              measured->replies);
    csv_cell_write(stdout, load->test);
    printf(",%.0f,%llu,%.3f,%llu,%llu,%.2f,%.2f,%.2f,", measured->rate, (unsigned long long)measured->replies,
           measured->seconds, (unsigned long long)measured->misses,
           (unsigned long long)(measured->errors + measured->surprises), times->p50_us, times->p99_us, times->max_us);
    csv_cell_write(stdout, target->label);
    printf(",%u,%u,%s,%u,%llu,%s,%s,%s\n", load->connections, load->depth,
           target->lcores[0] != '\0' ? target->lcores : "not here", load->value_bytes, (unsigned long long)load->keys,
           load->distribution, cpu, instructions);
}

static void
table_print(const struct target *target, const struct load_case *load, const struct measured *measured)
{
    const struct summary *times = &measured->times;
    printf("%-24s %-8s %5u %5u %6s %6u %11.0f %10llu %7.2f %9.1f %9.1f %9.1f", target->label, load->test,
           load->connections, load->depth, target->lcores[0] != '\0' ? target->lcores : "-", load->value_bytes,
           measured->rate, (unsigned long long)measured->replies, measured->seconds, times->p50_us, times->p99_us,
           times->max_us);
    if (measured->misses > 0) {
        printf("  %llu misses", (unsigned long long)measured->misses);
    }
    printf("\n");
    server_print(measured);
}

void
row_print(enum row_form form, const struct target *target, const struct load_case *load,
          const struct measured *measured)
{
    if (form == ROWS_CSV) {
        csv_print(target, load, measured);
    } else if (form == ROWS_QUIET) {
        printf("%s: %.0f requests per second, p50=%.3f msec\n", load->test, measured->rate,
               measured->times.p50_us / 1000);
    } else {
        table_print(target, load, measured);
    }
    fflush(stdout);
    if (measured->errors + measured->surprises > 0 || measured->broken) {
        fprintf(stderr, "sluice-bench: %s: %llu errors, %llu replies of another type%s: %s\n", load->test,
                (unsigned long long)measured->errors, (unsigned long long)measured->surprises,
                measured->broken ? ", ended early" : "", measured->error);
    }
}

void
ratio_print(const struct target *peer, const double *ratios, uint32_t runs)
{
    double copy[THROUGHPUT_RUNS_MAX], low = ratios[0], high = ratios[0];
    memcpy(copy, ratios, runs * sizeof(*copy));
    for (uint32_t i = 0; i < runs; i++) {
        low = MIN(low, ratios[i]);
        high = MAX(high, ratios[i]);
    }
    printf("    %.2fx %s (median of %u runs, %.2f to %.2f)\n", median_of(copy, runs), peer->label, runs, low, high);
}

void
row_keep(struct targets *targets, const struct target *target, const struct load_case *load,
         const struct measured *measured)
{
    const struct summary *times = &measured->times;
    char cpu[32], instructions[32];
    if (measured->broken) { /* a rate of the moment before it broke is none */
        char error[512];
        snprintf(error, sizeof(error), "throughput %s: %s", load->test, measured->error);
        targets_unavailable(targets, target->label, error);
        return;
    }
    FILE *file = targets_table(targets, CSV_FILE,
                               "label,test,connections,depth,lcores,value_bytes,keys,distribution,requests_per_second,"
                               "requests,seconds,misses,errors,p50_us,p99_us,max_us,server_cpu_ns,instructions");
    if (file == NULL) {
        return;
    }
    per_reply(cpu, sizeof(cpu), measured->has_cpu, measured->cpu_ns, measured->replies);
    per_reply(instructions, sizeof(instructions), measured->has_instructions, measured->instructions,
              measured->replies);
    csv_cell_write(file, target->label);
    fputc(',', file);
    csv_cell_write(file, load->test);
    fprintf(file, ",%u,%u,%s,%u,%llu,%s,%.0f,%llu,%.3f,%llu,%llu,%.2f,%.2f,%.2f,%s,%s\n", load->connections,
            load->depth, target->lcores[0] != '\0' ? target->lcores : "not here", load->value_bytes,
            (unsigned long long)load->keys, load->distribution, measured->rate, (unsigned long long)measured->replies,
            measured->seconds, (unsigned long long)measured->misses,
            (unsigned long long)(measured->errors + measured->surprises), times->p50_us, times->p99_us, times->max_us,
            cpu, instructions);
    targets_table_close(targets, file, CSV_FILE);
}
