#include "dataplane/capture.h"

#define RECORD_ALIGN 8

static uint32_t
record_room(uint32_t copied_bytes)
{
    return (uint32_t)ALIGN_UP(sizeof(struct capture_record) + copied_bytes, RECORD_ALIGN);
}

static void
ring_write(uint8_t *ring, uint64_t at, const void *bytes, uint32_t count)
{
    uint32_t offset = (uint32_t)(at & (CAPTURE_RING_BYTES - 1));
    uint32_t first = MIN(count, CAPTURE_RING_BYTES - offset);

    memcpy(ring + offset, bytes, first);
    memcpy(ring, (const uint8_t *)bytes + first, count - first);
}

static void
ring_read(const uint8_t *ring, uint64_t at, void *bytes, uint32_t count)
{
    uint32_t offset = (uint32_t)(at & (CAPTURE_RING_BYTES - 1));
    uint32_t first = MIN(count, CAPTURE_RING_BYTES - offset);

    memcpy(bytes, ring + offset, first);
    memcpy((uint8_t *)bytes + first, ring, count - first);
}

void
capture_put(struct capture *capture, uint64_t cycles, struct slice bytes, uint32_t frame_bytes)
{
    /* acquire: pairs with the release in capture_start(): the ring is there */
    uint32_t snap = load_acquire(&capture->snap_bytes);
    uint32_t copied = (uint32_t)MIN(bytes.bytes, snap);
    uint64_t head = load_relaxed(&capture->head);
    struct capture_record record = { .cycles = cycles, .frame_bytes = frame_bytes, .copied_bytes = copied };

    if (snap == 0) {
        return;
    }
    if (head + record_room(copied) - capture->tail_seen > CAPTURE_RING_BYTES) {
        capture->tail_seen = load_acquire(&capture->tail); /* pairs with the release in capture_take() */
        if (head + record_room(copied) - capture->tail_seen > CAPTURE_RING_BYTES) {
            counter_add(&capture->dropped, 1);
            return;
        }
    }
    ring_write(capture->ring, head, &record, sizeof(record));
    ring_write(capture->ring, head + sizeof(record), bytes.data, copied);
    store_release(&capture->head, head + record_room(copied)); /* pairs with the acquire in capture_take() */
}

bool
capture_take(struct capture *capture, struct capture_record *record, uint8_t *bytes)
{
    uint64_t tail = load_relaxed(&capture->tail);

    if (tail == load_acquire(&capture->head)) { /* pairs with the release in capture_put() */
        return false;
    }
    ring_read(capture->ring, tail, record, sizeof(*record));
    ring_read(capture->ring, tail + sizeof(*record), bytes, record->copied_bytes);
    store_release(&capture->tail, tail + record_room(record->copied_bytes)); /* pairs with capture_put() */
    return true;
}

void
capture_stop(struct capture *capture)
{
    store_relaxed(&capture->snap_bytes, 0); /* a frame that is being copied still comes */
}
