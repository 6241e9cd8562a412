#include "test/store/perturb.h"
#include <sched.h>

static _Thread_local uint64_t state;

/* One operation in 256 waits for others: mostly a yield, sometimes so long that they do thousands. */
void
perturb(void)
{
    if (state == 0) {
        state = (uint64_t)(uintptr_t)&state | 1;
    }
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    uint32_t dice = (uint32_t)(state >> 33);
    if ((dice & 0xff) != 0) {
        return;
    }
    uint32_t rounds = (dice >> 8 & 0x3f) == 0 ? 64 : dice >> 16 & 3;
    for (uint32_t i = 0; i < rounds; i++) {
        sched_yield();
    }
}
