#include "mgmt/log.h"
#include <poll.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_BYTES 4096 /* PIPE_BUF: a pipe that is writable has room for so much */

static struct {
    enum log_level level;
    bool journal;
    uint64_t dropped;
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

void
log_write(enum log_level level, const char *format, ...)
{
    char line[LOG_LINE_BYTES];
    va_list args;

    if (level < state.level) {
        return;
    }
    size_t head = print_head(line, sizeof(line), level);
    va_start(args, format);
    int wanted = vsnprintf(line + head, sizeof(line) - head, format, args);
    va_end(args);
    size_t used = MIN(head + (size_t)MAX(wanted, 0), sizeof(line) - 1);
    make_printable(line + head, used - head);
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
    put_line(line, used + bytes);
}
