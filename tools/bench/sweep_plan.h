/* sweep_plan.h - what a sweep over value sizes moves, decided before anything moves: sizes, chunks, transports, and the
 * columns of its comparison. Pure. */
#pragma once
#include "config/limits.h"
#include "tools/bench/stats.h"

#define SWEEP_SIZE_MAX     (64 * GIB)
#define SWEEP_SIZES_MAX    64 /* every power of two up to SWEEP_SIZE_MAX, and room */
#define SWEEP_RAILS_MAX    32 /* devices of the largest instances */
#define SWEEP_SIDES_MAX    3
#define SWEEP_NAME_BYTES   48
#define SWEEP_CHUNK_MIN    (4 * KIB)
#define SWEEP_STRIPE_BYTES (64 * KIB) /* less than that is not worth a rail of its own */

enum sweep_operation { SWEEP_SET, SWEEP_GET, SWEEP_OPERATIONS };
extern const char *const sweep_operation_names[SWEEP_OPERATIONS];

/* ---- sizes ---- */

/* "8", "512k", "64M", "2G": k, M and G are 1024, 1024^2 and 1024^3 bytes, as nccl-tests reads them; KiB, MiB and GiB
 * too. False: none of these, or more than 64 bits. */
bool sweep_size_parse(const char *text, uint64_t *bytes);
/* "8 B", "64 KiB", "1000 B": exact. Returns `out`. */
const char *sweep_size_print(char out[32], uint64_t bytes);

/* begin, begin * factor ... up to end. Requires 0 < begin <= end <= SWEEP_SIZE_MAX, factor >= 2. Returns how many. */
uint32_t sweep_sizes(uint64_t begin, uint64_t end, uint64_t factor, uint64_t sizes[SWEEP_SIZES_MAX]);

/* How one transfer is cut into values: all of `chunk_bytes` but the last, which has `last_bytes` of 1 to chunk_bytes.
 * Chunk i travels on rail i % rails, all of them are in flight together. */
struct sweep_cut {
    uint64_t size, chunk_bytes, chunks, last_bytes;
};

/* As few chunks as `chunk_max` allows; with several rails at least one a rail, unless stripes would be smaller than
 * SWEEP_STRIPE_BYTES. */
struct sweep_cut sweep_cut_of(uint64_t size, uint64_t chunk_max, uint32_t rails);

static inline uint64_t
sweep_cut_bytes(const struct sweep_cut *cut, uint64_t chunk)
{
    return chunk + 1 == cut->chunks ? cut->last_bytes : cut->chunk_bytes;
}

/* ---- transports ---- */

/* USE_EFA in the environment: one variable turns EFA off for a control run. */
enum sweep_switch { SWEEP_SWITCH_UNSET, SWEEP_SWITCH_ON, SWEEP_SWITCH_OFF, SWEEP_SWITCH_BAD };
enum sweep_switch sweep_switch_read(const char *text); /* NULL and "": unset */

enum sweep_carrier { SWEEP_TCP, SWEEP_ETHERNET, SWEEP_UNIX, SWEEP_PEER, SWEEP_MEMCACHED, SWEEP_FABRIC };

struct sweep_transport {
    char asked[SWEEP_NAME_BYTES];
    char name[SWEEP_NAME_BYTES]; /* of what really carries the bytes */
    enum sweep_carrier carrier;
    bool switched_off; /* efa was asked for, and USE_EFA=false */
};

/* "tcp" (the kernel's), "none" (the same: no fabric), "ethernet" (TCP to such a port), "unix", "peer" (another server
 * on RESP), "memcached", else a provider; "fabric-tcp" is libfabric's own tcp. False: too long, empty. */
bool sweep_transport_of(const char *name, enum sweep_switch efa, struct sweep_transport *out);
/* Whether a place of this name is meant: what was asked for, or what carries. */
bool sweep_transport_is(const struct sweep_transport *transport, const char *name);
/* Of SWEEP_FABRIC; lifetime: the transport's. */
const char *sweep_provider(const struct sweep_transport *transport);
/* "A:B". False: not two names. */
bool sweep_versus_split(const char *text, char names[2][SWEEP_NAME_BYTES]);

/* ---- results and columns ---- */

/* Of one size, operation and side. `samples` 0: not measured. */
struct sweep_result {
    struct summary times;
    double bytes_per_second; /* size over the median time */
};

/* Sorts `ticks`. */
struct sweep_result sweep_result_of(uint64_t size, uint64_t *ticks, uint64_t count, double ns_per_tick);

/* A column of the comparison: bytes per second of a side, or by how much one side is faster than another. */
struct sweep_column {
    char head[2 * SWEEP_NAME_BYTES + 40];
    uint32_t side;
    int over; /* a side; -1: none */
};
#define SWEEP_COLUMNS_MAX 6

/* Sides are A; A, B; N rails of A, 1 rail of A; or N rails of A, 1 rail of A, B: rates first, then
 * speed-ups: one rail over B, N rails over B, N rails over one.
 * `names` are the transports' of A and B (NULL: no B). Returns how many. */
uint32_t sweep_columns(const char *a, const char *b, uint32_t rails, struct sweep_column columns[SWEEP_COLUMNS_MAX]);
/* "1.23" (GB/s, 10^9 bytes), "18.7"; "-" where something was not measured. `results` are the sides'. Returns `out`. */
const char *sweep_cell_print(char out[32], const struct sweep_column *column, const struct sweep_result *results);
