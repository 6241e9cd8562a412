/* rank.h - modes of a latency.csv beside each other: the averages of their eight operations, ranked by average p50. */
#pragma once
#include "tools/bench/csv.h"
#include "tools/bench/operations.h"
#include "tools/bench/sheet.h"

#define RANK_LABELS_MAX 1024

enum rank_state {
    RANK_COMPLETE,    /* all eight operations with as many samples each: ranked */
    RANK_FLOOR,       /* the bare transport beside a mode, LABEL-floor: it answers nothing, so it has no rank */
    RANK_UNEVEN,      /* its operations have different numbers of samples: interrupted */
    RANK_INCOMPLETE,  /* operations are missing */
    RANK_UNAVAILABLE, /* it could not be measured */
};

/* In ticks of 0.1 ns, the last digit of the file: sums and means of them are exact. */
struct rank_figures {
    int64_t p50, mean, p99_99, max;
    uint64_t samples; /* 0: not measured */
};

struct rank_label {
    const char *label;
    const char *error; /* why it is unavailable; NULL: nobody said so */
    enum rank_state state;
    uint32_t operations; /* measured, of the eight */
    uint32_t rank;       /* from 1; 0: none */
    int64_t sum_p50, sum_mean, sum_p99_99, worst_max;
    double sum_rate; /* of each operation's 1 / mean, a second */
    struct rank_figures figures[OPERATION_COUNT];
};

/* Caller's memory; read-only. */
struct rank {
    uint32_t count;
    struct rank_label *labels; /* as the file has them, then the unavailable ones */
    uint32_t *order;           /* the complete ones by rank, the floors by p50, then the others */
    struct csv latency, unavailable;
    char error[CSV_ERROR_BYTES];
};

/* Read a latency.csv, or that of a folder, and the unavailable.csv beside it where there is one.
 *
 * Returns  false: rank->error says why. rank_fini() is due in both cases. */
bool rank_init(struct rank *rank, const char *path);
void rank_fini(struct rank *rank);

/* sum / by, the half to the even neighbour. sum >= 0, by > 0. */
int64_t rank_divide(int64_t sum, int64_t by);

/* A line a label; and p50 / p99.99 of each operation. SHEET_CSV: four decimals, empty cells for what is not known;
 * otherwise two decimals and "-". sheet_fini() is due. */
void rank_aggregate(const struct rank *rank, enum sheet_form form, struct sheet *sheet);
void rank_operations(const struct rank *rank, enum sheet_form form, struct sheet *sheet);

/* Why a label has no rank, or what is to be known about all of them. One sentence each, in `text`; false: no more.
 * `at` counts from 0 on. */
#define RANK_NOTE_BYTES 1024
bool rank_note(const struct rank *rank, uint32_t *at, char text[RANK_NOTE_BYTES]);
