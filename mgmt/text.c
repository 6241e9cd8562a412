#include "mgmt/text.h"
#include <stdarg.h>

static void
text_grow(struct text *text, size_t count)
{
    size_t needed = text->used + count + 1;

    if (needed > text->room) {
        text->room = MAX(needed, text->room * 2);
        text->bytes = realloc(text->bytes, text->room);
        CHECK(text->bytes != NULL);
    }
}

void
text_fini(struct text *text)
{
    free(text->bytes);
    memset(text, 0, sizeof(*text));
}

void
text_clear(struct text *text)
{
    text->used = 0;
    if (text->room > 0) {
        text->bytes[0] = '\0';
    }
}

void
text_append(struct text *text, const void *bytes, size_t count)
{
    text_grow(text, count);
    if (count > 0) {
        memcpy(text->bytes + text->used, bytes, count);
    }
    text->used += count;
    text->bytes[text->used] = '\0';
}

void
text_print(struct text *text, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    text_grow(text, 127); /* enough for most, so that most are printed once */
    int count = vsnprintf(text->bytes + text->used, text->room - text->used, format, args);
    CHECK(count >= 0);
    if ((size_t)count >= text->room - text->used) {
        text_grow(text, (size_t)count);
        vsnprintf(text->bytes + text->used, (size_t)count + 1, format, again);
    }
    text->used += (size_t)count;
    va_end(again);
    va_end(args);
}

void
text_take(struct text *text, size_t count)
{
    CHECK(count <= text->used);
    if (count > 0) {
        memmove(text->bytes, text->bytes + count, text->used - count);
        text->used -= count;
        text->bytes[text->used] = '\0';
    }
}
