/* text.h - a text that grows. Management code: allocates, aborts without memory. */
#pragma once
#include "config/base.h"

struct text {
    char *bytes; /* NUL behind the last one, once anything was written */
    size_t used, room;
};

void text_fini(struct text *text);
void text_clear(struct text *text); /* keeps the room */
void text_append(struct text *text, const void *bytes, size_t count);
void text_print(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Forget the first `count` bytes. */
void text_take(struct text *text, size_t count);
