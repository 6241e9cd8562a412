/* plot.h - figures as a plot: SVG by gnuplot, inside an HTML page, in the page's colours. */
#pragma once
#include "config/base.h"

/* More curves than that are not told apart: draw another plot. */
#define PLOT_SERIES_MAX 12
#define PLOT_WHY_BYTES  512

enum plot_axis { PLOT_LINEAR, PLOT_LOG10, PLOT_LOG2 };

struct plot_series {
    char *name;
    uint32_t count;
    double *points; /* x, y, x, y ... */
};

/* Caller's memory, zero but for what is to be drawn; plot_fini() is due. */
struct plot {
    char *title;             /* above it, and its name for who does not see it */
    const char *description; /* what is drawn, in a sentence; borrowed, as the following ones are */
    const char *x_label, *y_label;
    enum plot_axis x_axis, y_axis;
    bool pairs; /* two series each belong together: one colour, the second one dashed */
    bool bars;  /* x is a place from 0 on in `places`, for one bar of each series */
    const char *const *places;
    uint32_t place_count;
    const char *x_ticks; /* gnuplot's list, of constants only; NULL: its own choice */
    uint32_t count;
    struct plot_series series[PLOT_SERIES_MAX];
};

/* Gives back the title, too, which is malloc'd. */
void plot_fini(struct plot *plot);

bool plot_has(const struct plot *plot, const char *name);
/* The series of this name, added when it is not there. Fewer than PLOT_SERIES_MAX are. */
struct plot_series *plot_series(struct plot *plot, const char *name);
/* In any order. A y of 0 or less is left out on a logarithmic axis. */
void plot_point(struct plot_series *series, double x, double y);

/* Write <figure>. `number` differs for each plot of a page.
 *
 * Returns  false: `why` says why, and nothing was written: no gnuplot, it failed, or it took more than 20 s.
 * Cost     a process, some 50 ms; Ctrl-C ends it. */
bool plot_write(struct plot *plot, uint32_t number, FILE *html, char why[PLOT_WHY_BYTES]);
