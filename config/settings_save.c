/* settings_save.c - one value into the file that people wrote: their comments, order and includes stay.
 *
 * The file was read without an error before, so this scanner looks for names and braces only. */
#include "config/settings_parts.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file's text and where in it things stand. */
struct edit {
    char *bytes;
    size_t used;
    char path[PATH_MAX];     /* with symbolic links followed */
    size_t value, value_end; /* of the setting; 0 0: it is not here */
    size_t group_end;        /* where the group's brace closes */
};

struct scanner {
    struct edit *edit;             /* of the file being scanned */
    struct edit found, group_file; /* copies of the files that hold the setting and its group; bytes NULL: none does */
    const char *group, *name;      /* looked for */
    size_t group_bytes;
    uint32_t depth; /* of includes */
};

/* ---- reading ---- */

static bool
edit_read(struct edit *edit, const char *path, char *why, size_t why_bytes)
{
    struct stat info;
    int fd = -1;
    ssize_t got = -1;

    memset(edit, 0, sizeof(*edit));
    if (realpath(path, edit->path) == NULL || (fd = open(edit->path, O_RDONLY | O_CLOEXEC)) < 0) {
        return complain(why, why_bytes, "%s: %s", path, strerror(errno));
    }
    bool good = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= (off_t)SETTINGS_FILE_BYTES_MAX;
    if (good) {
        edit->bytes = malloc((size_t)info.st_size + 1);
        CHECK(edit->bytes != NULL);
        got = read(fd, edit->bytes, (size_t)info.st_size);
        good = got == info.st_size;
        edit->bytes[good ? got : 0] = '\0';
        edit->used = good ? (size_t)got : 0;
    }
    close(fd);
    return good || complain(why, why_bytes, "%s: no regular file of at most 1 MiB, or it is changing", path);
}

static void
edit_drop(struct edit *edit)
{
    free(edit->bytes);
    edit->bytes = NULL;
}

/* ---- finding ---- */

static bool
is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_-.+*", c) != NULL;
}

/* Behind blanks and comments. */
static size_t
skip_blanks(const struct edit *edit, size_t at)
{
    const char *bytes = edit->bytes;

    for (;;) {
        if (bytes[at] == '#' || (bytes[at] == '/' && bytes[at + 1] == '/')) {
            at += strcspn(bytes + at, "\n");
        } else if (bytes[at] == '/' && bytes[at + 1] == '*') {
            const char *end = strstr(bytes + at + 2, "*/");
            at = end == NULL ? edit->used : (size_t)(end - bytes) + 2;
        } else if (bytes[at] != '\0' && strchr(" \t\r\n\f", bytes[at]) != NULL) {
            at++;
        } else {
            return at;
        }
    }
}

static size_t
skip_string(const struct edit *edit, size_t at)
{
    for (at++; edit->bytes[at] != '\0' && edit->bytes[at] != '"'; at++) {
        at += edit->bytes[at] == '\\' && edit->bytes[at + 1] != '\0';
    }
    return at + (edit->bytes[at] == '"');
}

static size_t
skip_word(const struct edit *edit, size_t at)
{
    while (edit->bytes[at] != '\0' && is_word_byte(edit->bytes[at])) {
        at++;
    }
    return at;
}

/* The value that begins at `at`; strings side by side are one value. */
static size_t
value_end(const struct edit *edit, size_t at)
{
    if (edit->bytes[at] != '"') {
        return skip_word(edit, at);
    }
    size_t end = skip_string(edit, at), next;
    while (edit->bytes[next = skip_blanks(edit, end)] == '"') {
        end = skip_string(edit, next);
    }
    return end;
}

static bool scan_file(struct scanner *scanner, bool inside, char *why, size_t why_bytes);

/* @include "path" at `at`; `inside` the group that is looked for. */
static bool
scan_include(struct scanner *scanner, size_t *at, bool inside, char *why, size_t why_bytes)
{
    struct edit *parent = scanner->edit, child;
    size_t open = *at + strcspn(parent->bytes + *at, "\""), close = skip_string(parent, open);
    const char *slash = strrchr(parent->path, '/');
    char path[2 * PATH_MAX];
    int bytes = (int)(close - open) - 2;

    *at = close;
    if (bytes < 0 || scanner->depth > SETTINGS_NESTING_MAX) {
        return complain(why, why_bytes, "%s: an include cannot be followed", parent->path);
    }
    if (parent->bytes[open + 1] == '/' || slash == NULL) {
        snprintf(path, sizeof(path), "%.*s", bytes, parent->bytes + open + 1);
    } else {
        snprintf(path, sizeof(path), "%.*s/%.*s", (int)(slash - parent->path), parent->path, bytes,
                 parent->bytes + open + 1);
    }
    if (!edit_read(&child, path, why, why_bytes)) {
        edit_drop(&child);
        return false;
    }
    scanner->edit = &child;
    scanner->depth++;
    bool good = scan_file(scanner, inside, why, why_bytes);
    scanner->depth--;
    scanner->edit = parent;
    edit_drop(&child);
    return good;
}

static struct edit
edit_copy(const struct edit *edit)
{
    struct edit copy = *edit;

    copy.bytes = malloc(edit->used + 1);
    CHECK(copy.bytes != NULL);
    memcpy(copy.bytes, edit->bytes, edit->used + 1);
    return copy;
}

/* The scan of one file; `inside`: it is included in the group that is looked for. */
static bool
scan_file(struct scanner *scanner, bool inside, char *why, size_t why_bytes)
{
    struct edit *edit = scanner->edit;
    int depth = inside, opened_at = inside ? -1 : 0; /* depth of the group looked for; 0: not in it */

    for (size_t at = skip_blanks(edit, 0); at < edit->used; at = skip_blanks(edit, at)) {
        char c = edit->bytes[at];
        bool here = opened_at == -1 ? depth == 1 : opened_at != 0 && depth == opened_at;
        if (c == '@') {
            if (!scan_include(scanner, &at, here, why, why_bytes)) {
                return false;
            }
        } else if (c == '"') {
            at = skip_string(edit, at);
        } else if (strchr("{([", c) != NULL) {
            depth++;
            at++;
        } else if (strchr("})]", c) != NULL) {
            if (opened_at > 0 && depth == opened_at) {
                edit_drop(&scanner->group_file);
                scanner->group_file = edit_copy(edit);
                scanner->group_file.group_end = at;
                opened_at = 0;
            }
            depth--;
            at++;
        } else if (!is_word_byte(c)) {
            at++;
        } else {
            size_t begin = at, bytes = (at = skip_word(edit, at)) - begin;
            size_t next = skip_blanks(edit, at);
            if (edit->bytes[next] != '=' && edit->bytes[next] != ':') {
                continue; /* a value */
            }
            next = skip_blanks(edit, next + 1);
            if (depth == 0 && bytes == scanner->group_bytes &&
                memcmp(edit->bytes + begin, scanner->group, bytes) == 0 && edit->bytes[next] == '{') {
                opened_at = 1;
            } else if (here && bytes == strlen(scanner->name) &&
                       memcmp(edit->bytes + begin, scanner->name, bytes) == 0) {
                edit_drop(&scanner->found);
                scanner->found = edit_copy(edit);
                scanner->found.value = next;
                scanner->found.value_end = value_end(edit, next);
            }
            at = next;
        }
    }
    return true;
}

/* ---- writing ---- */

/* The value as it stands in a file. */
static void
value_print(const struct setting *setting, const char *value, char out[2 * SETTING_TEXT_BYTES + 3])
{
    size_t used = 0;

    if (setting->kind == SETTING_BOOL || (setting->kind == SETTING_COUNT && strcmp(value, "auto") != 0)) {
        snprintf(out, 2 * SETTING_TEXT_BYTES + 3, "%s", value);
        return;
    }
    out[used++] = '"';
    for (size_t i = 0; i < SETTING_TEXT_BYTES && value[i] != '\0'; i++) {
        if (value[i] == '"' || value[i] == '\\') {
            out[used++] = '\\';
        }
        out[used++] = value[i];
    }
    out[used++] = '"';
    out[used] = '\0';
}

/* Put `text` in the place of bytes begin .. end. */
static void
edit_replace(struct edit *edit, size_t begin, size_t end, const char *text)
{
    size_t bytes = strlen(text), used = edit->used - (end - begin) + bytes;
    char *changed = malloc(used + 1);

    CHECK(changed != NULL);
    memcpy(changed, edit->bytes, begin);
    memcpy(changed + begin, text, bytes);
    memcpy(changed + begin + bytes, edit->bytes + end, edit->used - end + 1);
    free(edit->bytes);
    edit->bytes = changed;
    edit->used = used;
}

/* A line of its own before the brace that closes the group, or a group of its own at the end. */
static void
edit_insert(struct edit *edit, const struct scanner *scanner, const char *value)
{
    char line[3 * SETTING_TEXT_BYTES];
    size_t at = edit->group_end;

    if (at == 0) { /* no brace closes at the very start */
        at = edit->used;
        snprintf(line, sizeof(line), "%s\n%.*s: {\n  %s = %s;\n};\n", at > 0 && edit->bytes[at - 1] != '\n' ? "\n" : "",
                 (int)scanner->group_bytes, scanner->group, scanner->name, value);
        edit_replace(edit, at, at, line);
        return;
    }
    /* Behind the last thing in the group, which may have no semicolon of its own. */
    size_t last = at;
    while (last > 0 && strchr(" \t", edit->bytes[last - 1]) != NULL) {
        last--;
    }
    bool own_line = last > 0 && edit->bytes[last - 1] == '\n';
    snprintf(line, sizeof(line), own_line ? "  %s = %s;\n" : " %s = %s; ", scanner->name, value);
    edit_replace(edit, own_line ? last : at, own_line ? last : at, line);
}

/* A new file beside the old one with its mode and owner, on the disk before it takes the old one's name. */
static bool
edit_write(const struct edit *edit, char *temporary, char *why, size_t why_bytes)
{
    struct stat info;
    size_t done = 0;
    int fd = -1;

    if (stat(edit->path, &info) == 0) {
        fd = mkostemp(temporary, O_CLOEXEC);
    }
    if (fd < 0) {
        return complain(why, why_bytes, "%s: %s", temporary, strerror(errno));
    }
    bool good = fchmod(fd, info.st_mode & 07777) == 0 && fchown(fd, info.st_uid, info.st_gid) == 0;
    while (good && done < edit->used) {
        ssize_t put = write(fd, edit->bytes + done, edit->used - done);
        good = put > 0 || (put < 0 && errno == EINTR);
        done += put > 0 ? (size_t)put : 0;
    }
    good = good && fsync(fd) == 0;
    int error = errno;
    close(fd);
    if (!good) {
        unlink(temporary);
        return complain(why, why_bytes, "%s: %s", temporary, strerror(error));
    }
    return true;
}

static void
sync_directory(const char *path)
{
    char dir[PATH_MAX];

    snprintf(dir, sizeof(dir), "%.*s", (int)MAX(strrchr(path, '/') - path, 1), path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* the name is right either way, only later on the disk */
        close(fd);
    }
}

static void
drop_all(struct scanner *scanner, struct edit *file)
{
    edit_drop(file);
    edit_drop(&scanner->found);
    edit_drop(&scanner->group_file);
}

bool
settings_save(const char *path, const struct setting *setting, const char *value, char *why, size_t why_bytes)
{
    static struct settings trial; /* 70 KiB; one thread saves */
    struct edit file;
    struct scanner scanner = { .edit = &file,
                               .group = setting->name,
                               .name = strchr(setting->name, '.') + 1,
                               .group_bytes = (size_t)(strchr(setting->name, '.') - setting->name) };
    char printed[2 * SETTING_TEXT_BYTES + 3], temporary[2 * PATH_MAX];

    if (settings_parse(path, NULL, 0, &trial, why, why_bytes) != 0) {
        return false; /* what is wrong now would be blamed on this change */
    }
    if (!edit_read(&file, path, why, why_bytes) || !scan_file(&scanner, false, why, why_bytes)) {
        drop_all(&scanner, &file);
        return false;
    }
    value_print(setting, value, printed);
    struct edit *edit = scanner.found.bytes != NULL        ? &scanner.found
                        : scanner.group_file.bytes != NULL ? &scanner.group_file
                                                           : &file;
    bool whole = strcmp(edit->path, file.path) == 0;
    if (scanner.found.bytes != NULL) {
        edit_replace(edit, edit->value, edit->value_end, printed);
    } else {
        edit_insert(edit, &scanner, printed);
    }
    snprintf(temporary, sizeof(temporary), "%.*s.XXXXXX", PATH_MAX, edit->path);
    bool good = edit_write(edit, temporary, why, why_bytes);
    /* An included file cannot be read alone; there, one value took another's place or came as a whole line. */
    if (good && whole && settings_parse(temporary, NULL, 0, &trial, why, why_bytes) != 0) {
        unlink(temporary);
        good = false;
    }
    if (good && rename(temporary, edit->path) != 0) {
        good = complain(why, why_bytes, "%s: %s", edit->path, strerror(errno));
        unlink(temporary);
    }
    if (good) {
        sync_directory(edit->path);
    }
    drop_all(&scanner, &file);
    return good;
}
