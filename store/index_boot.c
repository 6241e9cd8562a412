#include "config/limits.h"
#include "store/index.h"
#include <errno.h>
#include <sys/mman.h>

#define SMALL_RECORD_BYTES   96 /* with its share of the index: sizes the directory for the most keys that fit */
#define KEYS_A_FULL_SEGMENT  (4 << INDEX_LOG2_MAX)
#define INDEX_SEGMENTS_LEAST 6 /* log2: one row */

static size_t
index_map_bytes(const struct index *index)
{
    return index->segment_count * (sizeof(uint64_t) + sizeof(struct index_segment)) +
           index_rows(index) * sizeof(uint32_t);
}

uint32_t
index_segments_log2(uint64_t reserve_bytes)
{
    uint64_t keys_most = reserve_bytes / SMALL_RECORD_BYTES;
    uint32_t log2 = INDEX_SEGMENTS_LEAST;
    while (log2 < INDEX_SEGMENTS_LOG2 && keys_most >> log2 > KEYS_A_FULL_SEGMENT) {
        log2++;
    }
    return log2;
}

uint32_t
index_first_log2(uint64_t keys_expected, uint32_t segments_log2)
{
    /* The next size only where nearly every segment would have grown to it: or who is told takes more than who grows.
     */
    uint32_t log2 = 0;
    while (log2 < INDEX_LOG2_MAX && keys_expected >> segments_log2 > (uint64_t)INDEX_BUCKET_SLOTS << log2) {
        log2++;
    }
    return log2;
}

int
index_open(struct index *index, uint64_t reserve_bytes, uint64_t keys_expected)
{
    uint32_t log2 = index_segments_log2(reserve_bytes);
    index->segment_shift = 64 - log2;
    index->segment_count = 1u << log2;
    index->first_log2 = index_first_log2(MIN(keys_expected, reserve_bytes / SMALL_RECORD_BYTES), log2);
    /* Populated here: no lcore is the first to touch a line of it. */
    uint8_t *map =
        mmap(NULL, index_map_bytes(index), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (map == MAP_FAILED) {
        return -ENOMEM;
    }
    index->directory = (_Atomic uint64_t *)map;
    index->segments = (struct index_segment *)(map + index->segment_count * sizeof(uint64_t));
    index->row_tables = (_Atomic uint32_t *)(index->segments + index->segment_count);
    index->fixed_bytes = index_map_bytes(index);
    return 0;
}

void
index_close(struct index *index)
{
    if (index->directory != NULL) {
        munmap((void *)index->directory, index->fixed_bytes);
    }
}
