/* open_rows.h - what a run of an open loop is called, printed as, and leaves in a result folder. */
#pragma once
#include "tools/bench/open_loop.h"
#include "tools/bench/target.h"

#define OPEN_CSV_HEADER                                                                                                \
    "label,test,intended_per_second,achieved_per_second,samples,late,p50_us,p90_us,p99_us,p99_9_us,p99_99_us,max_us,"  \
    "mean_us,client_late_p99_us,verdict"

/* One rate on one server. */
struct open_row {
    const struct target *target;
    const char *test;
    double rate;
    double p99_us_most; /* above it the verdict is "slow"; 0: no limit */
    const struct open_result *result;
};

/* "kept"; "not kept": less than 99% of the rate was answered in its time; "slow"; "client": that was the bottleneck,
 * the run says nothing of the server; "broken": ended early. */
const char *open_verdict(const struct open_row *row);

void open_header_print(bool csv);
/* What a reader must know goes to stderr. */
void open_row_print(const struct open_row *row, bool csv);
/* Add to the targets' folder: open.csv, or unavailable.csv for a run that the client held up, which would mislead when
 * drawn beside the others. */
void open_row_keep(const struct open_row *row, struct targets *targets);
/* Write the samples to FOLDER/LABEL-open-TEST-RATE.hlog. False: complained. */
bool open_log_write(const struct open_row *row, const char *folder, double began_s);
