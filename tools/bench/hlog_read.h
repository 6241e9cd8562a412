/* hlog_read.h - what is in a HdrHistogram log: hlog.h's, and any other of V2 histograms, compressed. */
#pragma once
#include "config/base.h"

#define HLOG_READ_FILE_MAX  (16u << 20)
#define HLOG_READ_WHY_BYTES 512

struct hlog_reading {
    uint64_t samples;
    uint32_t buckets;
    uint64_t *counts, *highest; /* of each bucket: samples, and the largest value that it stands for */
};

/* Intervals of one log are added up; they are to have the same buckets. Caller's memory, hlog_read_fini() is due when
 * it returned true; false: `why` says why, with the file. */
bool hlog_read(struct hlog_reading *reading, const char *path, char why[HLOG_READ_WHY_BYTES]);
void hlog_read_fini(struct hlog_reading *reading);

/* The nearest rank: the value below or at which `rank` samples lie, to the bucket's upper edge. 0 < rank <= samples. */
uint64_t hlog_read_rank(const struct hlog_reading *reading, uint64_t rank);
