/* scene_calls.h - what a thread of a scene does, as text: words separated by commas, some with a letter behind them. */
#pragma once
#include "config/base.h"

#define SCENE_CALLS 24 /* of one thread */

struct scene_calls {
    struct scene_call {
        uint32_t word;   /* its index in `words` */
        uint32_t letter; /* 0 is a, also when there is none */
    } calls[SCENE_CALLS];
    uint32_t count;
};

/* NULL: no calls. A word that is not there, or too many, stop the program. */
struct scene_calls scene_calls_parse(const char *text, const char *const *words, uint32_t word_count);
