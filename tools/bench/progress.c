#include "tools/bench/progress.h"
#include "tools/bench/machine.h"
#include <sys/ioctl.h>
#include <unistd.h>

#define SHOW_EVERY_NS   100000000
#define BAR_WIDTH       24
#define COLUMNS_UNKNOWN 80

void
progress_begin(struct progress *progress, const char *what, uint64_t total)
{
    const char *terminal = getenv("TERM");
    *progress = (struct progress){ .what = what, .total = total, .begin_ns = machine_now_ns() };
    progress->on = isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

static int
columns_of_terminal(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS_UNKNOWN;
}

void
progress_show(struct progress *progress, uint64_t done)
{
    int64_t now = machine_now_ns();
    if (!progress->on || now - progress->shown_ns < SHOW_EVERY_NS) {
        return;
    }
    progress->shown_ns = now;
    char line[256];
    int seconds = (int)((now - progress->begin_ns) / 1000000000), used;
    if (progress->total == 0) {
        used = snprintf(line, sizeof(line), "%s %d s", progress->what, seconds);
    } else {
        done = MIN(done, progress->total);
        char bar[BAR_WIDTH + 1];
        int full = (int)((double)done / (double)progress->total * BAR_WIDTH);
        memset(bar, '.', BAR_WIDTH);
        memset(bar, '#', (size_t)full);
        bar[BAR_WIDTH] = '\0';
        used = snprintf(line, sizeof(line), "[%s] %3.0f%% %d s %s", bar, 100 * (double)done / (double)progress->total,
                        seconds, progress->what);
    }
    /* One column is left free: a full line would wrap, and the next \r would not take it away. */
    used = MIN(MIN(used, (int)sizeof(line) - 1), columns_of_terminal() - 1);
    fprintf(stderr, "\r%.*s\033[K", MAX(used, 0), line);
    fflush(stderr);
}

void
progress_end(struct progress *progress)
{
    if (progress->on && progress->shown_ns != 0) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
    progress->on = false;
}
