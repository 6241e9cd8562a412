/* sluice_cli_text.c - text that grows, and lines taken apart into words. */
#include "tools/sluice_cli.h"
#include <ctype.h>
#include <stdarg.h>

static void *
grow(void *memory, size_t bytes)
{
    void *grown = realloc(memory, bytes);
    CHECK(grown != NULL);
    return grown;
}

static void
text_reserve(struct cli_text *text, size_t bytes)
{
    if (text->room - text->bytes <= bytes) {
        text->room = MAX(text->room * 2, text->bytes + bytes + 64);
        text->data = grow(text->data, text->room);
    }
}

void
cli_text_append(struct cli_text *text, const void *data, size_t bytes)
{
    text_reserve(text, bytes);
    if (bytes > 0) {
        memcpy(text->data + text->bytes, data, bytes);
    }
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
}

void
cli_text_print(struct cli_text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int bytes = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    CHECK(bytes >= 0);
    text_reserve(text, (size_t)bytes);
    vsnprintf(text->data + text->bytes, (size_t)bytes + 1, format, again);
    va_end(again);
    text->bytes += (size_t)bytes;
}

void
cli_text_fini(struct cli_text *text)
{
    free(text->data);
    *text = (struct cli_text){ 0 };
}

void
cli_words_add(struct cli_words *words, struct slice word)
{
    if (words->count == words->room) {
        words->room = MAX(16u, words->room * 2);
        words->words = grow(words->words, words->room * sizeof(*words->words));
    }
    words->words[words->count++] = word;
}

void
cli_words_fini(struct cli_words *words)
{
    free(words->words);
    free(words->bytes);
    *words = (struct cli_words){ 0 };
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* After the backslash; *at moves past the escape. */
static char
escape_read(const char **at)
{
    char c = *(*at)++;
    if (c == 'x' && hex_digit((*at)[0]) >= 0 && hex_digit((*at)[1]) >= 0) {
        c = (char)(hex_digit((*at)[0]) * 16 + hex_digit((*at)[1]));
        *at += 2;
        return c;
    }
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return c;
    }
}

/* From behind the opening quote to behind the closing one. NULL: it is not there, or no blank follows it. */
static const char *
quoted_read(const char *at, char quote, char **out)
{
    while (*at != quote) {
        if (*at == '\0') {
            return NULL;
        }
        if (quote == '"' && at[0] == '\\' && at[1] != '\0') {
            at++;
            *(*out)++ = escape_read(&at);
        } else if (quote == '\'' && at[0] == '\\' && at[1] == '\'') {
            *(*out)++ = '\'';
            at += 2;
        } else {
            *(*out)++ = *at++;
        }
    }
    at++;
    return *at == '\0' || isspace((unsigned char)*at) ? at : NULL;
}

/* One word; a quote may begin in its middle. */
static const char *
word_read(const char *at, char **out)
{
    while (*at != '\0' && !isspace((unsigned char)*at)) {
        if (*at == '"' || *at == '\'') {
            return quoted_read(at + 1, *at, out);
        }
        *(*out)++ = *at++;
    }
    return at;
}

bool
cli_words_split(const char *line, struct cli_words *words)
{
    *words = (struct cli_words){ .bytes = grow(NULL, strlen(line) + 1) };
    char *out = words->bytes;
    for (const char *at = line;;) {
        while (isspace((unsigned char)*at)) {
            at++;
        }
        if (*at == '\0') {
            return true;
        }
        char *begin = out;
        at = word_read(at, &out);
        if (at == NULL) {
            cli_words_fini(words);
            return false;
        }
        cli_words_add(words, slice_of(begin, (size_t)(out - begin)));
    }
}
