/* open_schedule.h - when an open loop's requests are due, whatever the server does; and the search for the rate that it
 * just keeps. Pure. */
#pragma once
#include "tools/bench/random.h"

struct open_schedule {
    double mean; /* ticks between two requests */
    bool poisson;
    struct load_random random;
    uint64_t index;
    double due; /* ticks from the beginning to the next request */
};

/* `rate` requests a second, evenly spaced, or with exponential gaps: a Poisson process. */
void open_schedule_init(struct open_schedule *schedule, double rate, double ticks_per_second, bool poisson,
                        uint64_t seed);
/* Go on to the next request. Even spacing does not drift: the n-th is due at n times the mean, counted from 0. */
void open_schedule_advance(struct open_schedule *schedule);

/* Doubles the rate until one is not kept, then halves what lies between. */
struct open_knee {
    double first, least, most; /* rates */
    double kept, failed;       /* the highest kept and the lowest not kept so far; 0 and infinity: none */
};

/* Between `kept` and `failed` there is at most this share of `kept` in the end. */
#define OPEN_KNEE_PRECISION 0.05

/* No rate outside [least, most] is tried but `first`. */
void open_knee_init(struct open_knee *knee, double first, double least, double most);
/* The rate to try next; 0: the search is over. */
double open_knee_next(const struct open_knee *knee);
void open_knee_tell(struct open_knee *knee, double rate, bool kept);
