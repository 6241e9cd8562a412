/* open_schedule.c - arithmetic of an open loop. */
#include "tools/bench/open_schedule.h"
#include <math.h>

static double
gap_draw(struct open_schedule *schedule)
{
    return -log(load_random_unit(&schedule->random)) * schedule->mean;
}

void
open_schedule_init(struct open_schedule *schedule, double rate, double ticks_per_second, bool poisson, uint64_t seed)
{
    *schedule = (struct open_schedule){ .mean = ticks_per_second / rate, .poisson = poisson, .random.state = seed };
    schedule->due = poisson ? gap_draw(schedule) : 0;
}

void
open_schedule_advance(struct open_schedule *schedule)
{
    schedule->index++;
    if (schedule->poisson) {
        schedule->due += gap_draw(schedule);
    } else {
        schedule->due = (double)schedule->index * schedule->mean;
    }
}

void
open_knee_init(struct open_knee *knee, double first, double least, double most)
{
    *knee = (struct open_knee){ .first = first, .least = least, .most = most, .failed = INFINITY };
}

double
open_knee_next(const struct open_knee *knee)
{
    if (knee->kept == 0 && isinf(knee->failed)) {
        return knee->first;
    }
    if (knee->kept == 0) {
        return knee->failed / 2 >= knee->least ? knee->failed / 2 : 0;
    }
    if (isinf(knee->failed)) {
        return knee->kept < knee->most ? MIN(2 * knee->kept, knee->most) : 0;
    }
    return knee->failed - knee->kept > OPEN_KNEE_PRECISION * knee->kept ? (knee->kept + knee->failed) / 2 : 0;
}

void
open_knee_tell(struct open_knee *knee, double rate, bool kept)
{
    /* A rate above one that was not kept, or below one that was, says nothing new: noise must not undo the bracket. */
    if (rate <= knee->kept || rate >= knee->failed) {
        return;
    }
    if (kept) {
        knee->kept = rate;
    } else {
        knee->failed = rate;
    }
}
