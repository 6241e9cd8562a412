#include "mgmt/log.h"
#include <poll.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_BYTES 4096 /* PIPE_BUF: a pipe that is writable has room for so much */

#define LOG_SITES 64

/* One place that writes, known by its format. */
struct site {
    const char *format;
    int64_t since_ms; /* monotonic */
    uint32_t written, left_out;
};

struct record {
    int64_t unix_ms;
    enum log_level level;
    char text[LOG_KEPT_BYTES];
};

static struct {
    enum log_level level;
    bool journal;
    uint64_t dropped;
    struct site sites[LOG_SITES];
    struct record records[LOG_KEPT];
    uint64_t record_count; /* ever */
} state = { .level = LOG_LEVEL_INFO };

static const char *const level_names[] = { "debug", "info", "warning", "error" };
static const int level_priorities[] = { 7, 6, 4, 3 }; /* of syslog */

void
log_set_level(const char *level)
{
    for (size_t i = 0; i < ARRAY_COUNT(level_names); i++) {
        if (strcmp(level, level_names[i]) == 0) {
            state.level = (enum log_level)i;
        }
    }
}

void
log_open(const char *level)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat stat;

    log_set_level(level);
    state.journal = stream != NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
                    fstat(STDERR_FILENO, &stat) == 0 && stat.st_dev == device && stat.st_ino == inode;
}

static bool
put(const char *line, size_t bytes)
{
    struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };

    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) {
        return false;
    }
    return write(STDERR_FILENO, line, bytes) == (ssize_t)bytes;
}

/* What precedes a record: the journal's priority, or a time and the level. */
static size_t
print_head(char *line, size_t room, enum log_level level)
{
    struct timespec now;
    struct tm parts;
    char time[32];

    if (state.journal) {
        return (size_t)snprintf(line, room, "<%d>", level_priorities[level]);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &parts);
    return (size_t)snprintf(line, room, "%s.%03ldZ %s: ", time, now.tv_nsec / 1000000, level_names[level]);
}

/* Peers' bytes may be in a record: what does not print must not reach a terminal or begin a line. */
static void
make_printable(char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
}

static void
put_line(char line[LOG_LINE_BYTES], size_t used)
{
    if (state.dropped > 0) {
        char note[128];
        size_t bytes = print_head(note, sizeof(note), LOG_LEVEL_WARNING);
        bytes += (size_t)snprintf(note + bytes, sizeof(note) - bytes, "%llu records were dropped: stderr was full\n",
                                  (unsigned long long)state.dropped);
        if (put(note, bytes)) {
            state.dropped = 0;
        }
    }
    line[used++] = '\n';
    if (!put(line, used)) {
        state.dropped++;
    }
}

static int64_t
clock_ms(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The site of a format; when all places are taken, the one that was quiet for longest makes room. */
static struct site *
site_of(const char *format, int64_t now_ms)
{
    struct site *oldest = &state.sites[0];

    for (size_t i = 0; i < LOG_SITES; i++) {
        struct site *site = &state.sites[i];
        if (site->format == format) {
            return site;
        }
        oldest = site->since_ms < oldest->since_ms ? site : oldest;
    }
    *oldest = (struct site){ .format = format, .since_ms = now_ms };
    return oldest;
}

/* Whether a site may write; *left_out tells how many records it had to leave out before. */
static bool
site_may_write(const char *format, uint32_t *left_out)
{
    int64_t now_ms = clock_ms(CLOCK_MONOTONIC);
    struct site *site = site_of(format, now_ms);

    *left_out = 0;
    if (now_ms - site->since_ms >= LOG_SITE_MS) {
        *left_out = site->left_out;
        *site = (struct site){ .format = format, .since_ms = now_ms };
    }
    if (site->written == LOG_SITE_BURST) {
        site->left_out++;
        return false;
    }
    site->written++;
    return true;
}

static void
keep_record(enum log_level level, const char *text, size_t bytes)
{
    struct record *record = &state.records[state.record_count++ % LOG_KEPT];

    record->unix_ms = clock_ms(CLOCK_REALTIME);
    record->level = level;
    bytes = MIN(bytes, sizeof(record->text) - 1);
    memcpy(record->text, text, bytes);
    record->text[bytes] = '\0';
}

void
log_recall(size_t count, void (*each)(void *context, int64_t unix_ms, const char *level, const char *text),
           void *context)
{
    uint64_t kept = MIN(state.record_count, LOG_KEPT);

    for (uint64_t i = state.record_count - MIN(kept, count); i < state.record_count; i++) {
        const struct record *record = &state.records[i % LOG_KEPT];
        each(context, record->unix_ms, level_names[record->level], record->text);
    }
}

void
log_write(enum log_level level, const char *format, ...)
{
    char line[LOG_LINE_BYTES];
    uint32_t left_out;
    va_list args;

    if (level < state.level || !site_may_write(format, &left_out)) {
        return;
    }
    size_t head = print_head(line, sizeof(line), level);
    va_start(args, format);
    int wanted = vsnprintf(line + head, sizeof(line) - head, format, args);
    va_end(args);
    size_t used = MIN(head + (size_t)MAX(wanted, 0), sizeof(line) - 64);
    if (left_out > 0) {
        used += (size_t)snprintf(line + used, sizeof(line) - used, " (and %u such records left out before)", left_out);
    }
    make_printable(line + head, used - head);
    keep_record(level, line + head, used - head);
    put_line(line, used);
}

void
log_line(const char *text)
{
    char line[LOG_LINE_BYTES];
    size_t used = state.journal ? print_head(line, sizeof(line), LOG_LEVEL_INFO) : 0;
    size_t bytes = MIN(strlen(text), sizeof(line) - 1 - used);

    memcpy(line + used, text, bytes);
    make_printable(line + used, bytes);
    keep_record(LOG_LEVEL_INFO, line + used, bytes);
    put_line(line, used + bytes);
}
