#include "tools/bench/plot.h"
#include "tools/bench/escape.h"
#include "tools/bench/machine.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUN_NS_MAX 20000000000
#define LOOK_US    2000
#define WIDTH      720
#define HEIGHT     420
#define NAME_BYTES 48
#define OUTPUT_MAX (8u << 20)

/* Of middling lightness, to be seen on white and on black. */
static const char *const colours[PLOT_SERIES_MAX] = {
    "#2f81d8", "#d9622b", "#2a9d62", "#c2498f", "#8168d4", "#a8891a",
    "#0f9aa8", "#d1495b", "#6b8e23", "#9c6b3f", "#7a8794", "#b45fd0"
};

void
plot_fini(struct plot *plot)
{
    for (uint32_t i = 0; i < plot->count; i++) {
        free(plot->series[i].name);
        free(plot->series[i].points);
    }
    free(plot->title);
    *plot = (struct plot){ 0 };
}

bool
plot_has(const struct plot *plot, const char *name)
{
    uint32_t at = 0;
    while (at < plot->count && strcmp(plot->series[at].name, name) != 0) {
        at++;
    }
    return at < plot->count;
}

struct plot_series *
plot_series(struct plot *plot, const char *name)
{
    for (uint32_t i = 0; i < plot->count; i++) {
        if (strcmp(plot->series[i].name, name) == 0) {
            return &plot->series[i];
        }
    }
    CHECK(plot->count < PLOT_SERIES_MAX);
    struct plot_series *series = &plot->series[plot->count++];
    *series = (struct plot_series){ .name = strdup(name) };
    CHECK(series->name != NULL);
    return series;
}

void
plot_point(struct plot_series *series, double x, double y)
{
    if ((series->count & (series->count - 1)) == 0) { /* room for the next power of two */
        series->points = realloc(series->points, 2 * MAX(2 * series->count, 1u) * sizeof(*series->points));
        CHECK(series->points != NULL);
    }
    series->points[2 * series->count] = x;
    series->points[2 * series->count + 1] = y;
    series->count++;
}

static int
points_compare(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (left[0] > right[0]) - (left[0] < right[0]);
}

/* ---- the script: of what others named, only what stands between single quotes ---- */

static void
quoted_write(FILE *to, const char *text)
{
    char part[NAME_BYTES + 4];
    snprintf(part, sizeof(part), "%.*s%s", NAME_BYTES, text, strlen(text) > NAME_BYTES ? "..." : "");
    fputc('\'', to);
    escape_write(to, part, ESCAPE_GNUPLOT);
    fputc('\'', to);
}

static void
axis_script(FILE *to, char name, enum plot_axis axis, const char *label)
{
    fprintf(to, "set %clabel ", name);
    quoted_write(to, label);
    fputs(name == 'x' ? " offset 0,0.5\n" : "\n", to); /* away from the key */
    if (axis == PLOT_LINEAR) {
        fprintf(to, "set %crange [0:*]\nset format %c '%%.4g'\n", name, name);
    } else if (axis == PLOT_LOG10) {
        fprintf(to, "set logscale %c 10\nset format %c '%%g'\n", name, name);
    } else {
        fprintf(to, "set logscale %c 2\nset format %c '%%.0b%%B'\n", name, name);
    }
}

static void
bars_script(const struct plot *plot, FILE *to)
{
    fprintf(to, "set style data histograms\nset style histogram clustered gap 1\nset style fill solid 0.85\n"
                "set datafile missing '?'\nset xtics (");
    for (uint32_t i = 0; i < plot->place_count; i++) {
        fputs(i > 0 ? ", " : "", to);
        quoted_write(to, plot->places[i]);
        fprintf(to, " %u", i);
    }
    fprintf(to, ")\n$bars << END\n");
    for (uint32_t place = 0; place < plot->place_count; place++) {
        for (uint32_t i = 0; i < plot->count; i++) {
            const struct plot_series *series = &plot->series[i];
            uint32_t at = 0;
            while (at < series->count && series->points[2 * at] != place) {
                at++;
            }
            if (at < series->count) {
                fprintf(to, "%.9g ", series->points[2 * at + 1]);
            } else {
                fputs("? ", to);
            }
        }
        fputc('\n', to);
    }
    fputs("END\n", to);
}

static void
lines_script(struct plot *plot, FILE *to)
{
    for (uint32_t i = 0; i < plot->count; i++) {
        struct plot_series *series = &plot->series[i];
        qsort(series->points, series->count, 2 * sizeof(*series->points), points_compare);
        fprintf(to, "$data%u << END\n", i);
        for (uint32_t j = 0; j < series->count; j++) {
            double x = series->points[2 * j], y = series->points[2 * j + 1];
            if ((plot->x_axis == PLOT_LINEAR || x > 0) && (plot->y_axis == PLOT_LINEAR || y > 0)) {
                fprintf(to, "%.9g %.9g\n", x, y);
            }
        }
        fputs("END\n", to);
    }
}

static void
script_write(struct plot *plot, uint32_t number, FILE *to)
{
    fprintf(to,
            "set encoding utf8\nset terminal svg size %d,%d dynamic noenhanced name 'plot%u' font 'sans-serif,14' "
            "linewidth 1.5\nset grid\nset border 3\nset tics nomirror\nset key outside below left Left reverse\n",
            WIDTH, HEIGHT + 18 * (int)(plot->count / 3), number);
    axis_script(to, 'x', plot->x_axis, plot->x_label);
    axis_script(to, 'y', plot->y_axis, plot->y_label);
    if (plot->bars) {
        fputs("set format x\nset xrange [*:*]\n", to);
        bars_script(plot, to);
    } else {
        if (plot->x_ticks != NULL) {
            fprintf(to, "set xtics (%s)\n", plot->x_ticks);
        }
        lines_script(plot, to);
    }
    fputs("plot ", to);
    for (uint32_t i = 0; i < plot->count; i++) {
        if (plot->bars) {
            fprintf(to, "%s$bars using %u lc rgb '%s' title ", i > 0 ? ", " : "", i + 1, colours[i]);
        } else {
            uint32_t colour = plot->pairs ? i / 2 : i, dash = plot->pairs ? i % 2 : i % 4;
            fprintf(to, "%s$data%u using 1:2 with linespoints lc rgb '%s' pt %u dt %u ps 0.5 title ", i > 0 ? ", " : "",
                    i, colours[colour], i % 6 + 4, dash + 1);
        }
        quoted_write(to, plot->series[i].name);
    }
    fputc('\n', to);
}

/* ---- gnuplot ---- */

/* Files in memory instead of pipes: neither side waits for the other. */
struct child {
    int in, out, err;
};

static void
child_close(struct child *child)
{
    close(child->in);
    close(child->out);
    close(child->err);
}

static bool
child_wait(pid_t pid, int *status, char why[PLOT_WHY_BYTES])
{
    int64_t deadline = machine_now_ns() + RUN_NS_MAX;
    while (waitpid(pid, status, WNOHANG) == 0) {
        bool late = machine_now_ns() > deadline;
        if (late || machine_interrupted()) {
            kill(pid, SIGKILL);
            waitpid(pid, status, 0);
            snprintf(why, PLOT_WHY_BYTES, late ? "gnuplot took more than %d s" : "interrupted",
                     (int)(RUN_NS_MAX / 1000000000));
            return false;
        }
        usleep(LOOK_US);
    }
    return true;
}

static bool
child_run(const struct child *child, char why[PLOT_WHY_BYTES])
{
    static char *const words[] = { "gnuplot", "-d", "-", NULL }; /* -d: without anybody's start-up files */
    posix_spawn_file_actions_t actions;
    int status = 0;
    pid_t pid;
    CHECK(posix_spawn_file_actions_init(&actions) == 0 &&
          posix_spawn_file_actions_adddup2(&actions, child->in, STDIN_FILENO) == 0 &&
          posix_spawn_file_actions_adddup2(&actions, child->out, STDOUT_FILENO) == 0 &&
          posix_spawn_file_actions_adddup2(&actions, child->err, STDERR_FILENO) == 0);
    int error = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        snprintf(why, PLOT_WHY_BYTES, "gnuplot: %s: plots need it: apt-get install gnuplot-nox", strerror(error));
        return false;
    }
    if (!child_wait(pid, &status, why)) {
        return false;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        char said[256] = "";
        if (pread(child->err, said, sizeof(said) - 1, 0) < 0) {
            said[0] = '\0';
        }
        snprintf(why, PLOT_WHY_BYTES, "gnuplot failed (%s %d): %s", WIFEXITED(status) ? "exit code" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), said);
        return false;
    }
    return true;
}

/* All that the child wrote; free() it. NULL: too much, or nothing that is SVG. */
static char *
output_take(int fd, char why[PLOT_WHY_BYTES])
{
    off_t bytes = lseek(fd, 0, SEEK_END);
    if (bytes <= 0 || bytes > OUTPUT_MAX) {
        snprintf(why, PLOT_WHY_BYTES, "gnuplot wrote %lld bytes", (long long)bytes);
        return NULL;
    }
    char *text = calloc(1, (size_t)bytes + 1);
    CHECK(text != NULL);
    if (pread(fd, text, (size_t)bytes, 0) != bytes || strstr(text, "<defs>") == NULL ||
        strstr(text, "\n</svg>") == NULL) {
        snprintf(why, PLOT_WHY_BYTES, "gnuplot wrote no SVG");
        free(text);
        return NULL;
    }
    return text;
}

static char *
gnuplot_run(struct plot *plot, uint32_t number, char why[PLOT_WHY_BYTES])
{
    struct child child = { memfd_create("script", MFD_CLOEXEC), memfd_create("svg", MFD_CLOEXEC),
                           memfd_create("errors", MFD_CLOEXEC) };
    char *svg = NULL;
    FILE *script = child.in < 0 ? NULL : fdopen(dup(child.in), "w");
    if (script == NULL || child.out < 0 || child.err < 0) {
        snprintf(why, PLOT_WHY_BYTES, "no file in memory: %s", strerror(errno));
    } else {
        script_write(plot, number, script);
        fflush(script);
        lseek(child.in, 0, SEEK_SET);
        svg = child_run(&child, why) ? output_take(child.out, why) : NULL;
    }
    if (script != NULL) {
        fclose(script);
    }
    child_close(&child);
    return svg;
}

/* ---- SVG into the page: names of one page differ, nothing is drawn for nobody ---- */

static bool
begins(const char *line, const char *text)
{
    return strncmp(line, text, strlen(text)) == 0;
}

/* gnuplot's own names begin with gp in each of its files. The text goes on behind `bytes`, or ends there. */
static void
line_write(FILE *html, const char *line, size_t bytes, uint32_t number)
{
    for (size_t i = 0; i < bytes; i++) {
        size_t prefix = begins(line + i, "id='gp") ? 4 : begins(line + i, "'#gp") ? 2 : 0;
        if (prefix > 0) {
            fprintf(html, "%.*sp%u-", (int)prefix, line + i, number);
            i += prefix - 1;
        } else {
            fputc(line[i], html);
        }
    }
}

static void
svg_write(const struct plot *plot, uint32_t number, const char *svg, FILE *html)
{
    const char *line = strstr(svg, "<defs>"), *group = NULL;
    bool filter = false;
    for (uint32_t drawn = 0; *line != '\0' && !begins(line, "</svg>");) {
        const char *next = strchr(line, '\n');
        next = next == NULL ? line + strlen(line) : next + 1;
        const char *text = line + strspn(line, " \t");
        filter = filter || begins(text, "<filter");
        if (group != NULL && !begins(line, "</g>")) {
            line_write(html, group, (size_t)(line - group), number);
            group = NULL;
        }
        if (group != NULL) {
            group = NULL; /* a group of nothing */
        } else if (begins(line, "<g fill=\"none\"")) {
            group = line;
        } else if (begins(text, "<g id=\"plot") && drawn < plot->count) {
            fputs("<g><title>", html);
            escape_write(html, plot->series[drawn++].name, ESCAPE_HTML);
            fputs("</title>\n", html);
        } else if (!filter) {
            line_write(html, line, (size_t)(next - line), number);
        }
        filter = filter && !begins(text, "</filter>");
        line = next;
    }
}

bool
plot_write(struct plot *plot, uint32_t number, FILE *html, char why[PLOT_WHY_BYTES])
{
    char *svg = gnuplot_run(plot, number, why);
    if (svg == NULL) {
        return false;
    }
    fprintf(html, "<figure>\n<figcaption>");
    escape_write(html, plot->title, ESCAPE_HTML);
    fprintf(html,
            "</figcaption>\n<div class=\"scroll\" tabindex=\"0\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
            "aria-labelledby=\"t%u d%u\">\n<title id=\"t%u\">",
            WIDTH, HEIGHT + 18 * (int)(plot->count / 3), number, number, number);
    escape_write(html, plot->title, ESCAPE_HTML);
    fprintf(html, "</title>\n<desc id=\"d%u\">", number);
    escape_write(html, plot->description, ESCAPE_HTML);
    fputs("</desc>\n<g>\n", html);
    svg_write(plot, number, svg, html);
    fputs("</svg></div>\n</figure>\n", html);
    free(svg);
    return true;
}
