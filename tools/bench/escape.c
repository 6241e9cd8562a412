#include "tools/bench/escape.h"

/* Bytes of the character at `text`; 0: none that may be shown. Overlong forms, surrogates and C1 controls are none. */
static uint32_t
character_bytes(const uint8_t *text)
{
    if (text[0] < 0x80) {
        return text[0] >= 0x20 && text[0] != 0x7f;
    }
    uint32_t bytes = text[0] >= 0xc2 && text[0] <= 0xdf ? 2
                     : (text[0] & 0xf0) == 0xe0         ? 3
                     : (text[0] & 0xf8) == 0xf0         ? 4
                                                        : 0;
    uint32_t code = text[0] & (0x7fu >> bytes);
    for (uint32_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3fu);
    }
    static const uint32_t least[] = { 0, 0, 0xa0, 0x800, 0x10000 };
    return code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : bytes;
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
