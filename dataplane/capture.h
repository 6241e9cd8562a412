/* capture.h - copies of a port's frames, from the lcore that polls it to whoever writes them down.
 *
 * A bounded ring with one writer, the lcore, and one reader, the management core. A full ring drops the copy and counts
 * it: the lcore never waits. Off, it costs one load and a branch a burst. */
#pragma once
#include "config/base.h"
#include "config/sync.h"

#define CAPTURE_RING_BYTES (4u * 1024 * 1024) /* a power of two */
#define CAPTURE_SNAP_MAX   16384

struct capture_record { /* before each copy */
    uint64_t cycles;    /* when it was seen */
    uint32_t frame_bytes, copied_bytes;
};

struct capture {
    _Atomic uint32_t snap_bytes; /* of each frame; 0: off. Reader writes, writer reads: relaxed, only a hint */
    _Alignas(CACHE_LINE) _Atomic uint64_t head; /* writer: release, pairs with the acquire in capture_take() */
    _Atomic uint64_t dropped;                   /* writer */
    uint64_t tail_seen;                         /* writer's own */
    _Alignas(CACHE_LINE) _Atomic uint64_t tail; /* reader: release, pairs with the acquire in capture_put() */
    uint8_t *ring;                              /* CAPTURE_RING_BYTES; NULL until the first capture_start() */
};

/* True while somebody looks: ask once a burst. */
static inline bool
capture_is_on(const struct capture *capture)
{
    return UNLIKELY(load_relaxed(&capture->snap_bytes) != 0);
}

/* Copy a frame of which `bytes` are at hand, and `frame_bytes` were there. Writer. */
void capture_put(struct capture *capture, uint64_t cycles, struct slice bytes, uint32_t frame_bytes);

/* Reader. Start throws away what is left of the last time; -ENOMEM when the ring cannot be had. */
int capture_start(struct capture *capture, uint32_t snap_bytes);
void capture_stop(struct capture *capture);
/* The next copy, into `bytes` of CAPTURE_SNAP_MAX. False: none. */
bool capture_take(struct capture *capture, struct capture_record *record, uint8_t *bytes);
void capture_fini(struct capture *capture); /* when the writer is gone */
