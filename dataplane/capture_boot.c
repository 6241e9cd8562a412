/* capture_boot.c - the ring's memory, taken when somebody looks for the first time: control path. */
#include "dataplane/capture.h"
#include <errno.h>
#include <sys/mman.h>

int
capture_start(struct capture *capture, uint32_t snap_bytes)
{
    if (capture->ring == NULL) {
        void *ring = mmap(NULL, CAPTURE_RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                          -1, 0); /* the lcore takes no page fault */
        if (ring == MAP_FAILED) {
            return -ENOMEM;
        }
        capture->ring = ring;
    }
    store_relaxed(&capture->tail, load_acquire(&capture->head)); /* pairs with the release in capture_put() */
    store_release(&capture->snap_bytes,
                  MIN(snap_bytes, CAPTURE_SNAP_MAX)); /* pairs with the acquire in capture_put() */
    return 0;
}

void
capture_fini(struct capture *capture)
{
    if (capture->ring != NULL) {
        munmap(capture->ring, CAPTURE_RING_BYTES);
        capture->ring = NULL;
    }
}
