#include "config/settings_parts.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

/* One pass over one file. */
struct scan {
    struct settings_text *text;
    const char *at, *end;
    uint32_t file, line, depth;
    int nesting;
    const char *name; /* the last name, for messages */
    int name_bytes;
    char *why;
    size_t why_bytes;
};

static bool text_add_file(struct settings_text *text, const char *path, uint32_t depth, const char *from, char *why,
                          size_t why_bytes);

static bool
scan_complain(struct scan *scan, const char *what, const char *token, size_t bytes, const char *expected)
{
    char word[64], quoted[QUOTE_BYTES];

    snprintf(word, sizeof(word), "%.*s", (int)MIN(bytes, sizeof(word) - 1), token);
    return complain(scan->why, scan->why_bytes, "%s:%u: %.*s%s%s %s, expected %s", scan->text->files[scan->file],
                    scan->line, scan->name_bytes, scan->name, scan->name_bytes ? ": " : "", quote_text(quoted, word),
                    what, expected);
}

/* ---- the joined text ---- */

static bool
text_append(struct settings_text *text, const char *bytes, size_t count)
{
    if (text->used + count + 1 > text->room) {
        size_t room = MAX(text->room * 2, text->used + count + 4096);
        char *grown = realloc(text->bytes, room);
        CHECK(grown != NULL);
        text->bytes = grown;
        text->room = room;
    }
    if (count != 0) {
        memcpy(text->bytes + text->used, bytes, count);
    }
    text->used += count;
    text->bytes[text->used] = '\0';
    return text->used <= SETTINGS_FILE_BYTES_MAX;
}

/* Say where the line that is about to be appended stands. */
static void
text_mark_line(struct settings_text *text, uint32_t file, uint32_t line)
{
    if (text->line_count == text->line_room) {
        text->line_room = MAX(text->line_room * 2, 256);
        text->lines = realloc(text->lines, text->line_room * sizeof(*text->lines));
        CHECK(text->lines != NULL);
    }
    text->lines[text->line_count++] = (struct text_line){ file, line };
}

static void
scan_end_line(struct scan *scan)
{
    text_append(scan->text, "\n", 1);
    scan->line++;
    text_mark_line(scan->text, scan->file, scan->line);
}

const char *
settings_text_place(const struct settings_text *text, unsigned line, char out[PLACE_BYTES])
{
    if (line == 0 || line > text->line_count) {
        snprintf(out, PLACE_BYTES, "%s", text->file_count ? text->files[0] : "");
    } else {
        const struct text_line *at = &text->lines[line - 1];
        if (at->line == 0) {
            snprintf(out, PLACE_BYTES, "%s", text->files[at->file]);
        } else {
            snprintf(out, PLACE_BYTES, "%s:%u", text->files[at->file], at->line);
        }
    }
    return out;
}

void
settings_text_fini(struct settings_text *text)
{
    free(text->bytes);
    free(text->lines);
    for (uint32_t i = 0; i < text->file_count; i++) {
        free(text->files[i]);
    }
    memset(text, 0, sizeof(*text));
}

/* ---- tokens ---- */

static bool
is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '*';
}

static bool
is_word(char c)
{
    return is_name_start(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '+';
}

/* A whole decimal number; libconfig gets the L that it needs to read more than 32 bits. */
static bool
scan_number(struct scan *scan)
{
    static const char wanted[] = "a whole decimal number, or text in double quotes";
    const char *begin = scan->at, *digits = begin + (*begin == '-'), *end;
    char word[32];
    long long value;

    while (scan->at < scan->end && is_word(*scan->at)) {
        scan->at++;
    }
    end = scan->at;
    size_t suffix = 0;
    while (suffix < 2 && end - suffix > digits && end[-1 - (ptrdiff_t)suffix] == 'L') {
        suffix++;
    }
    const char *digits_end = end - suffix;
    size_t bytes = (size_t)(end - begin);
    if (digits_end > digits + 1 && *digits == '0' && digits[1] >= '0' && digits[1] <= '9') {
        return scan_complain(scan, "begins with a zero", begin, bytes, wanted);
    }
    for (const char *at = digits; at < digits_end; at++) {
        if (*at < '0' || *at > '9') {
            return scan_complain(scan, "is not a whole decimal number", begin, bytes, wanted);
        }
    }
    if (digits_end == digits) {
        return scan_complain(scan, "is not a number", begin, bytes, wanted);
    }
    if ((size_t)(digits_end - begin) >= sizeof(word)) {
        return scan_complain(scan, "does not fit 64 bits", begin, bytes, "a smaller number");
    }
    memcpy(word, begin, (size_t)(digits_end - begin));
    word[digits_end - begin] = '\0';
    errno = 0;
    value = strtoll(word, NULL, 10);
    if (errno == ERANGE) {
        return scan_complain(scan, "does not fit 64 bits", begin, bytes, "a smaller number");
    }
    text_append(scan->text, begin, (size_t)(digits_end - begin));
    if (value < INT32_MIN || value > INT32_MAX) {
        text_append(scan->text, "L", 1);
    }
    return true;
}

static bool
scan_name(struct scan *scan)
{
    const char *begin = scan->at;

    while (scan->at < scan->end && is_word(*scan->at)) {
        scan->at++;
    }
    size_t bytes = (size_t)(scan->at - begin);
    scan->name = begin;
    scan->name_bytes = (int)MIN(bytes, 64);
    const char *point = memchr(begin, '.', bytes);
    if (point != NULL) {
        char expected[256];
        scan->name_bytes = 0;
        snprintf(expected, sizeof(expected), "a group: %.*s: { %.*s = ...; };", (int)MIN(point - begin, 64), begin,
                 (int)MIN(bytes - (size_t)(point - begin) - 1, 64), point + 1);
        return scan_complain(scan, "is the form of --set", begin, bytes, expected);
    }
    text_append(scan->text, begin, bytes);
    return true;
}

static bool
scan_string(struct scan *scan)
{
    const char *begin = scan->at++;

    while (scan->at < scan->end && *scan->at != '"' && *scan->at != '\n') {
        if (*scan->at == '\\') {
            if (scan->end - scan->at >= 4 && memcmp(scan->at, "\\x00", 4) == 0) {
                return scan_complain(scan, "has a NUL", begin, 16, "text without it");
            }
            scan->at += scan->end - scan->at > 1 && scan->at[1] != '\n';
        }
        scan->at++;
    }
    if (scan->at >= scan->end || *scan->at == '\n') {
        return scan_complain(scan, "is not closed on its line", begin, (size_t)(scan->at - begin), "a double quote");
    }
    scan->at++;
    text_append(scan->text, begin, (size_t)(scan->at - begin));
    return true;
}

/* Comments do not reach libconfig, their line ends do. */
static bool
scan_comment(struct scan *scan)
{
    uint32_t begin_line = scan->line;

    if (scan->at[0] == '#' || scan->at[1] == '/') {
        while (scan->at < scan->end && *scan->at != '\n') {
            scan->at++;
        }
        return true;
    }
    for (scan->at += 2; scan->end - scan->at >= 2; scan->at++) {
        if (scan->at[0] == '*' && scan->at[1] == '/') {
            scan->at += 2;
            text_append(scan->text, " ", 1);
            return true;
        }
        if (*scan->at == '\n') {
            scan_end_line(scan);
        }
    }
    scan->line = begin_line;
    return scan_complain(scan, "is not closed", "/*", 2, "*/ in the same file");
}

/* @include "path", relative to the file that says so. */
static bool
scan_include(struct scan *scan)
{
    static const char word[] = "@include";
    char name[PATH_MAX], path[2 * PATH_MAX];
    const char *at = scan->at, *close;

    if ((size_t)(scan->end - at) < sizeof(word) - 1 || memcmp(at, word, sizeof(word) - 1) != 0) {
        return scan_complain(scan, "means nothing here", at, 1, "@include \"file\" or a setting");
    }
    at += sizeof(word) - 1;
    while (at < scan->end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    close = at < scan->end && *at == '"' ? memchr(at + 1, '"', (size_t)(scan->end - at - 1)) : NULL;
    if (close == NULL || memchr(at, '\n', (size_t)(close - at)) != NULL || close - at - 1 >= PATH_MAX) {
        return scan_complain(scan, "has no file", word, sizeof(word) - 1, "@include \"file\"");
    }
    snprintf(name, sizeof(name), "%.*s", (int)(close - at - 1), at + 1);
    for (const char *byte = name; *byte != '\0'; byte++) {
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f) { /* it would be repeated in messages */
            return scan_complain(scan, "does not print", name, strlen(name), "the name of a file");
        }
    }
    const char *parent = scan->text->files[scan->file], *slash = strrchr(parent, '/');
    if (name[0] == '/' || slash == NULL) {
        snprintf(path, sizeof(path), "%s", name);
    } else {
        snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - parent), parent, name);
    }
    char from[PLACE_BYTES];
    snprintf(from, sizeof(from), "%s:%u: ", parent, scan->line);
    if (!text_add_file(scan->text, path, scan->depth + 1, from, scan->why, scan->why_bytes)) {
        return false;
    }
    text_append(scan->text, "\n", 1);
    text_mark_line(scan->text, scan->file, scan->line);
    scan->at = close + 1;
    return true;
}

static bool
scan_punctuation(struct scan *scan)
{
    char c = *scan->at;

    if (strchr("{}()[]=:;,", c) == NULL) {
        return scan_complain(scan, "means nothing here", scan->at, 1, "name = value;");
    }
    scan->nesting += (c == '{' || c == '(' || c == '[') - (c == '}' || c == ')' || c == ']');
    if (scan->nesting > SETTINGS_NESTING_MAX) {
        return scan_complain(scan, "is nested too deep", scan->at, 1, "at most 8 levels");
    }
    text_append(scan->text, scan->at, 1);
    scan->at++;
    return true;
}

static bool
scan_token(struct scan *scan)
{
    char c = *scan->at;

    if (c == '\n') {
        scan->at++;
        scan_end_line(scan);
        return true;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
        text_append(scan->text, " ", 1);
        scan->at++;
        return true;
    }
    if (c == '#' || (c == '/' && scan->end - scan->at >= 2 && (scan->at[1] == '/' || scan->at[1] == '*'))) {
        return scan_comment(scan);
    }
    if (c == '"') {
        return scan_string(scan);
    }
    if (c == '@') {
        return scan_include(scan);
    }
    if (is_name_start(c)) {
        return scan_name(scan);
    }
    if (is_word(c)) {
        return scan_number(scan);
    }
    return scan_punctuation(scan);
}

static bool
text_scan(struct settings_text *text, const char *bytes, size_t count, uint32_t file, uint32_t depth, char *why,
          size_t why_bytes)
{
    struct scan scan = { .text = text, .at = bytes, .end = bytes + count, .file = file, .line = 1, .depth = depth };

    scan.name = "";
    scan.why = why;
    scan.why_bytes = why_bytes;
    text_mark_line(text, file, 1);
    const char *nul = count == 0 ? NULL : memchr(bytes, '\0', count);
    if (nul != NULL) {
        return complain(why, why_bytes, "%s: holds a NUL byte, expected text", text->files[file]);
    }
    while (scan.at < scan.end) {
        if (!scan_token(&scan)) {
            return false;
        }
        if (text->used > SETTINGS_FILE_BYTES_MAX) {
            return complain(why, why_bytes, "%s: settings are longer than 1 MiB, expected a text for people",
                            text->files[file]);
        }
    }
    return true;
}

/* ---- files ---- */

/* Pipes and devices have no size, so the text grows as it comes. The caller frees *bytes on success. */
static bool
read_all(const char *path, char **bytes, size_t *count, const char *from, char *why, size_t why_bytes)
{
    size_t used = 0, room = 0;
    char *text = NULL;
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    while (fd >= 0 && used <= SETTINGS_FILE_BYTES_MAX) {
        if (used == room) {
            room = MAX(room * 2, 4096);
            char *grown = realloc(text, room);
            CHECK(grown != NULL);
            text = grown;
        }
        got = read(fd, text + used, room - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (fd < 0 || got < 0 || used > SETTINGS_FILE_BYTES_MAX) {
        free(text);
        return complain(why, why_bytes, "%s%s: %s", from, path,
                        fd < 0 || got < 0 ? strerror(error) : "is longer than 1 MiB, expected a text for people");
    }
    *bytes = text;
    *count = used;
    return true;
}

static bool
text_add_file(struct settings_text *text, const char *path, uint32_t depth, const char *from, char *why,
              size_t why_bytes)
{
    char *bytes = NULL;
    size_t count = 0;

    if (depth > SETTINGS_NESTING_MAX || text->file_count == SETTINGS_FILES_MAX) {
        return complain(why, why_bytes,
                        "%s%s: too many includes, expected at most %d files, %d deep: does it include "
                        "itself?",
                        from, path, SETTINGS_FILES_MAX, SETTINGS_NESTING_MAX);
    }
    if (!read_all(path, &bytes, &count, from, why, why_bytes)) {
        return false;
    }
    uint32_t file = text->file_count;
    text->files[text->file_count++] = strdup(path);
    CHECK(text->files[file] != NULL);
    if (depth > 0) {
        text_append(text, "\n", 1);
    }
    bool good = text_scan(text, bytes, count, file, depth, why, why_bytes);
    free(bytes);
    return good;
}

bool
settings_text_read(struct settings_text *text, const char *path, char *why, size_t why_bytes)
{
    memset(text, 0, sizeof(*text));
    text_append(text, "", 0);
    return text_add_file(text, path, 0, "", why, why_bytes);
}

void
settings_list_files(const char *path, void (*each)(void *context, const char *file), void *context)
{
    char unused[SETTINGS_WHY_BYTES];
    struct settings_text text;

    (void)settings_text_read(&text, path, unused, sizeof(unused));
    for (uint32_t i = 0; i < text.file_count; i++) {
        each(context, text.files[i]);
    }
    settings_text_fini(&text);
}

bool
settings_text_take(struct settings_text *text, const char *name, const char *bytes, char *why, size_t why_bytes)
{
    memset(text, 0, sizeof(*text));
    text_append(text, "", 0);
    text->files[text->file_count++] = strdup(name);
    CHECK(text->files[0] != NULL);
    return text_scan(text, bytes, strlen(bytes), 0, 0, why, why_bytes);
}
