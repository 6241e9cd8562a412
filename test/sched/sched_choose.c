/* The two ways to choose among what may happen next: by a seed, or by the next path of an exhaustive search. */
#include "test/sched/sched_private.h"

#define CHOICES_MOST   65536 /* of one path */
#define CHANGES        4     /* of priorities, in one execution */
#define CHANGES_WITHIN 256   /* steps, or eight times as many */
#define PRIORITY_FIRST 1000  /* changed ones are below */

/* By seed: either a coin at each step, or priorities that change at a few steps (PCT, Burckhardt 2010: a few changes of
 * thread at the right places find most bugs). */
static struct {
    uint64_t state;
    bool priorities;
    uint32_t leave, stale; /* of 256 */
    uint32_t changes[CHANGES];
    uint32_t priority[SCHED_SEATS], lowest;
} dice;

/* By path: depth first over the choices of one execution. */
static struct {
    struct choice {
        uint16_t taken, count;
    } choices[CHOICES_MOST];
    uint32_t length, at;
    uint32_t preemptions, stale_loads; /* left in this execution */
    bool bounded;
} path;

static bool by_path;

/* ---- by seed ---- */

static uint64_t
dice_next(void)
{
    dice.state ^= dice.state >> 12;
    dice.state ^= dice.state << 25;
    dice.state ^= dice.state >> 27;
    return dice.state * 2685821657736338717ull >> 11;
}

static bool
dice_throw(uint32_t of_256)
{
    return dice_next() % 256 < of_256;
}

void
choose_by_seed(uint64_t seed)
{
    static const uint32_t leave[] = { 128, 64, 32, 12 }, stale[] = { 0, 16, 64, 160 };
    by_path = false;
    dice.state = (seed + 1) * 0x9e3779b97f4a7c15ull;
    (void)dice_next();
    dice.priorities = dice_throw(128);
    dice.leave = leave[dice_next() % ARRAY_COUNT(leave)];
    dice.stale = stale[dice_next() % ARRAY_COUNT(stale)];
    uint64_t within = dice_throw(128) ? CHANGES_WITHIN : 8 * CHANGES_WITHIN;
    for (uint32_t i = 0; i < CHANGES; i++) {
        dice.changes[i] = (uint32_t)(dice_next() % within);
    }
    dice.lowest = PRIORITY_FIRST;
    for (uint32_t i = 1; i < SCHED_SEATS; i++) {
        dice.priority[i] = PRIORITY_FIRST + (uint32_t)(dice_next() % PRIORITY_FIRST);
    }
}

static uint32_t
highest_priority(const uint32_t *seats, uint32_t count)
{
    uint32_t best = seats[0];
    for (uint32_t i = 1; i < count; i++) {
        if (dice.priority[seats[i]] > dice.priority[best]) {
            best = seats[i];
        }
    }
    return best;
}

static uint32_t
dice_stay_or_leave(uint32_t seat, const uint32_t *others, uint32_t count, uint32_t step)
{
    if (!dice.priorities) {
        return dice_throw(dice.leave) ? others[dice_next() % count] : seat;
    }
    for (uint32_t i = 0; i < CHANGES; i++) {
        if (dice.changes[i] == step) {
            choose_last(seat);
        }
    }
    uint32_t best = highest_priority(others, count);
    return dice.priority[best] > dice.priority[seat] ? best : seat;
}

void
choose_last(uint32_t seat)
{
    dice.priority[seat] = --dice.lowest;
}

/* ---- by path ---- */

void
choose_first_path(void)
{
    path.length = 0;
    path.bounded = false;
}

void
choose_by_path(uint32_t preemptions, uint32_t stale_loads)
{
    by_path = true;
    path.at = 0;
    path.preemptions = preemptions;
    path.stale_loads = stale_loads;
}

bool
choose_next_path(void)
{
    while (path.length != 0) {
        struct choice *last = &path.choices[path.length - 1];
        if (++last->taken < last->count) {
            return true;
        }
        path.length--;
    }
    return false;
}

bool
choose_was_bounded(void)
{
    return path.bounded;
}

static uint32_t
path_choose(uint32_t count)
{
    if (count == 1) {
        return 0;
    }
    if (path.at == path.length) {
        CHECK(path.length < CHOICES_MOST);
        path.choices[path.length++] = (struct choice){ 0, (uint16_t)count };
    }
    CHECK(path.choices[path.at].count == count); /* else an execution depends on more than its choices */
    return path.choices[path.at++].taken;
}

static uint32_t
path_stay_or_leave(uint32_t seat, const uint32_t *others, uint32_t count)
{
    uint32_t chosen = path.preemptions != 0 ? path_choose(1 + count) : 0;
    path.bounded = path.bounded || path.preemptions == 0;
    path.preemptions -= chosen != 0;
    return chosen != 0 ? others[chosen - 1] : seat;
}

/* ---- either ---- */

uint32_t
choose_seat(const uint32_t *seats, uint32_t count)
{
    if (by_path) {
        return seats[path_choose(count)];
    }
    return dice.priorities ? highest_priority(seats, count) : seats[dice_next() % count];
}

uint32_t
choose_stay_or_leave(uint32_t seat, const uint32_t *others, uint32_t count, uint32_t step)
{
    return by_path ? path_stay_or_leave(seat, others, count) : dice_stay_or_leave(seat, others, count, step);
}

uint32_t
choose_store(uint32_t count)
{
    if (count == 1) {
        return 0;
    }
    if (!by_path) {
        return dice_throw(dice.stale) ? 1 + (uint32_t)(dice_next() % (count - 1)) : 0;
    }
    uint32_t chosen = path.stale_loads != 0 ? path_choose(count) : 0;
    path.bounded = path.bounded || path.stale_loads == 0;
    path.stale_loads -= chosen != 0;
    return chosen;
}
