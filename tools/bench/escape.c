#include "tools/bench/escape.h"

/* Letters of another direction mark themselves: only text that is to be misread needs a mark of its own. */
static bool
turns_direction(uint32_t code)
{
    return code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/* Bytes of the character at `text`; 0: none that may be shown. Overlong forms, surrogates and C1 controls are none. */
static uint32_t
character_bytes(const uint8_t *text)
{
    static const uint32_t least[] = { 0, 0, 0xa0, 0x800, 0x10000 };
    uint8_t first = text[0];
    if (first < 0x80) {
        return first >= 0x20 && first != 0x7f;
    }
    uint32_t bytes = (first & 0xe0) == 0xc0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : (first & 0xf8) == 0xf0 ? 4 : 0;
    uint32_t code = first & (0x7fu >> bytes);
    for (uint32_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3fu);
    }
    bool shown = code >= least[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) && !turns_direction(code);
    return shown ? bytes : 0;
}

static const char *
replacement(char character, enum escape form)
{
    if (form == ESCAPE_HTML || form == ESCAPE_MARKDOWN) {
        switch (character) {
        case '&':
            return "&amp;";
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        }
    }
    if (form == ESCAPE_HTML && character == '"') {
        return "&quot;";
    }
    if (form == ESCAPE_HTML && character == '\'') {
        return "&#39;";
    }
    if (form == ESCAPE_GNUPLOT && character == '\'') {
        return "''";
    }
    return NULL;
}

void
escape_write(FILE *to, const char *text, enum escape form)
{
    for (uint32_t bytes; *text != '\0'; text += MAX(bytes, 1u)) {
        bytes = character_bytes((const uint8_t *)text);
        const char *other = replacement(*text, form);
        if (bytes == 0) {
            fputc(strchr("\t\r\n", *text) != NULL ? ' ' : '?', to);
        } else if (other != NULL) {
            fputs(other, to);
        } else {
            if (form == ESCAPE_MARKDOWN && strchr("\\|*`[]", *text) != NULL) {
                fputc('\\', to);
            }
            fwrite(text, 1, bytes, to);
        }
    }
}

uint32_t
escape_width(const char *text)
{
    uint32_t width = 0;
    for (uint32_t bytes; *text != '\0'; text += MAX(bytes, 1u)) {
        bytes = character_bytes((const uint8_t *)text);
        width++;
    }
    return width;
}
