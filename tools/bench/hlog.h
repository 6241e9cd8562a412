/* hlog.h - HdrHistogram's log format, so that its own tools read our samples.
 *
 * Counts of values from 1 ns to an hour, 3 significant digits: below 2048 ns each value has a bucket, above that 1024
 * buckets for each power of two. One interval a file; the maximum column is in milliseconds, as its writer has it.
 * Source   HdrHistogram's V2 encoding (0x1c849303, ZigZag LEB128-64b9B) inside the compressed one (0x1c849304, zlib),
 *          log format 1.3. */
#pragma once
#include "config/base.h"

#define HLOG_NS_MAX       3600000000000ull
#define HLOG_BUCKET_COUNT 33792u /* up to HLOG_NS_MAX */

/* The bucket of a value; above HLOG_NS_MAX: the last one. */
uint32_t hlog_bucket(uint64_t ns);

/* A count, or minus the length of a run of zeros: at most 9 bytes into `out`. Returns how many. */
uint32_t hlog_number_encode(int64_t number, uint8_t out[9]);

/* Counts of buckets [0, count) in HdrHistogram's V2 form, compressed. Returns bytes; free(*out) is due. */
size_t hlog_encode(const uint64_t *counts, uint32_t count, uint8_t **out);

/* Write samples as a log of one interval that began at `began_s` (since 1970) and lasted `seconds`.
 * Returns false with a sentence in `why`; nothing half-written stays. */
bool hlog_write(const char *path, const uint64_t *ticks, uint64_t count, double ns_per_tick, double began_s,
                double seconds, char *why, size_t why_bytes);
