/* sluicectl_screen.c - a whole terminal: pictures without flicker, keys without Return, left as it was found. */
#include "config/sync.h"
#include "tools/sluicectl.h"
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static bool whole; /* the terminal is ours */
static FILE *terminal;
static char *picture;
static size_t picture_bytes;
static _Atomic bool stopped; /* by the signal handler, for the loop */

static void
on_signal(int number)
{
    store_relaxed(&stopped, true); /* read by the same thread */
}

static void
screen_leave(void)
{
    if (whole) {
        whole = false;
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        if (write(STDOUT_FILENO, "\033[?25h\033[?1049l", 14) < 0) {
            return; /* the terminal is gone */
        }
    }
}

void
screen_open(bool pictures)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct termios raw;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    if (!pictures || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0) {
        return;
    }
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    whole = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    if (whole) {
        atexit(screen_leave);
        fputs("\033[?1049h\033[?25l", stdout);
        fflush(stdout);
    }
}

bool
screen_is_whole(void)
{
    return whole;
}

void
timespec_add(struct timespec *at, double seconds)
{
    at->tv_nsec += (long)((seconds - floor(seconds)) * 1e9);
    at->tv_sec += (time_t)floor(seconds) + at->tv_nsec / 1000000000;
    at->tv_nsec %= 1000000000;
}

int
screen_key(struct timespec *until)
{
    struct timespec now;

    for (;;) {
        if (load_relaxed(&stopped)) {
            return SCREEN_STOP;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        double left = (double)(until->tv_sec - now.tv_sec) + (double)(until->tv_nsec - now.tv_nsec) / 1e9;
        if (left <= 0) {
            return SCREEN_TIME;
        }
        struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
        int ready = poll(&input, whole ? 1 : 0, (int)MIN(left * 1000 + 1, 1e6));
        if (ready > 0) {
            char key;
            return read(STDIN_FILENO, &key, 1) == 1 ? (unsigned char)key : SCREEN_STOP;
        }
    }
}

void
screen_begin(void)
{
    if (whole) {
        terminal = stdout;
        stdout = open_memstream(&picture, &picture_bytes);
        CHECK(stdout != NULL);
    }
}

/* Lines beyond the last row, and what is right of the last column, are cut. */
bool
screen_end(void)
{
    struct winsize size = { .ws_row = 24, .ws_col = 80 };
    const char *line;
    int row = 0;

    if (!whole) {
        return fflush(stdout) == 0;
    }
    fclose(stdout);
    stdout = terminal;
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    fputs("\033[H", stdout);
    for (line = picture; *line != '\0' && row < size.ws_row; row++) {
        int bytes = (int)strcspn(line, "\n");
        printf("%.*s\033[K%s", MIN(bytes, (int)size.ws_col), line, row + 1 < size.ws_row ? "\n" : "");
        line += bytes + (line[bytes] == '\n');
    }
    fputs("\033[J", stdout);
    free(picture);
    picture = NULL;
    return fflush(stdout) == 0;
}
