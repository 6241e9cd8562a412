/* lane_result.h - a run of `latency` in a result folder: latency.csv, config.csv, unavailable.csv and logs. */
#pragma once
#include "tools/bench/lane.h"

#define LATENCY_CSV_HEADER                                                                                             \
    "label,operation,min_us,p50_us,p75_us,p90_us,p95_us,p99_us,p99_9_us,p99_99_us,max_us,mean_us,qps,samples"
#define CONFIG_CSV_HEADER      "label,transport,protocol,pipeline,endpoint,buffers,samples,warmup"
#define UNAVAILABLE_CSV_HEADER "label,error"

/* Where a run leaves its results; both may be NULL. */
struct lane_result {
    const char *folder;
    const char *hlog_folder; /* of LABEL-OPERATION.hlog; NULL: the folder's */
};

/* Make the folders; refuse labels that are in latency.csv already: two runs under one name are no result. */
bool lane_result_open(const struct lane_result *result, const struct lanes *lanes, char *why, size_t why_bytes);
/* One row, and its log from the lane's samples. */
bool lane_result_row(const struct lane_result *result, const struct lane *lane, enum operation_id id, double began_s,
                     double seconds, char *why, size_t why_bytes);
/* A row of unavailable.csv. */
bool lane_result_unavailable(const char *folder, const char *label, const char *error, char *why, size_t why_bytes);
/* The rows of config.csv: they come last, for lanes that measured something. */
bool lane_result_config(const struct lane_result *result, const struct lanes *lanes, bool ethernet, uint64_t warmup,
                        char *why, size_t why_bytes);
