/* sluicectl_watch.c - latency live: what the last seconds counted, or all since a key was pressed. */
#include "mgmt/ctl_wire.h"
#include "tools/sluicectl.h"

static const char *const kinds[] = {
#define KIND_NAME(id, name, ...) name,
    CTL_LATENCY_KINDS(KIND_NAME)
#undef KIND_NAME
};

struct view {
    const struct options *options;
    size_t kind;
    uint64_t lcore; /* UINT64_MAX: all */
    char command[64];
    bool bars, paused, since_reset;
    json_t *now, *last, *reset; /* readings: this one, the one before, that of the last reset */
};

static json_t *
view_ask(const struct view *view)
{
    return latency_ask(view->options, kinds[view->kind], view->lcore, view->command[0] == '\0' ? NULL : view->command);
}

static void
view_read(struct view *view)
{
    json_decref(view->last);
    view->last = view->now;
    view->now = view_ask(view);
}

/* What is looked at has changed: the readings begin anew. */
static void
view_restart(struct view *view)
{
    json_decref(view->now);
    json_decref(view->last);
    json_decref(view->reset);
    view->now = view_ask(view);
    view->last = json_incref(view->now);
    view->reset = json_incref(view->now);
}

static void
view_next_lcore(struct view *view)
{
    json_t *result = call(view->options, "lcores", NULL);
    size_t count = json_array_size(json_object_get(result, "lcores"));

    json_decref(result);
    view->lcore = view->lcore == UINT64_MAX ? 0 : view->lcore + 1;
    view->lcore = view->lcore >= count ? UINT64_MAX : view->lcore;
    view_restart(view);
}

/* The command behind the one that is shown, of those that were ever called; then all of them again. */
static void
view_next_command(struct view *view)
{
    json_t *result = latency_ask(view->options, kinds[view->kind], view->lcore, NULL), *row;
    bool found = view->command[0] == '\0';
    const char *next = "";
    size_t at;

    json_array_foreach(json_object_get(result, "rows"), at, row)
    {
        if (found) {
            next = get_text(row, "command");
            break;
        }
        found = strcmp(get_text(row, "command"), view->command) == 0;
    }
    snprintf(view->command, sizeof(view->command), "%s", next);
    json_decref(result);
    view_restart(view);
}

/* False: the end. */
static bool
view_key(struct view *view, int key)
{
    switch (key) {
    case 'q':
    case 'Q':
    case SCREEN_STOP:
        return false;
    case 'p':
    case ' ':
        view->paused = !view->paused;
        break;
    case 'r':
        view_restart(view);
        view->since_reset = true;
        break;
    case 's':
        view->since_reset = !view->since_reset;
        break;
    case 'h':
        view->bars = !view->bars;
        break;
    case 'k':
        view->kind = (view->kind + 1) % ARRAY_COUNT(kinds);
        view->command[0] = '\0';
        view_restart(view);
        break;
    case 'c':
        if (view->kind < 2) { /* the others are not of commands */
            view_next_command(view);
        }
        break;
    case 'l':
        view_next_lcore(view);
        break;
    default:
        break;
    }
    return true;
}

static void
view_title(const struct view *view)
{
    char clock[32], lcore[32] = "all lcores";
    time_t now = time(NULL);
    struct tm parts;

    localtime_r(&now, &parts);
    strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    if (view->lcore != UINT64_MAX) {
        snprintf(lcore, sizeof(lcore), "lcore %llu", (unsigned long long)view->lcore);
    }
    printf("%s  ", clock);
    if (view->since_reset) {
        printf("since reset");
    } else {
        printf("last %.3g s", view->options->watch_s);
    }
    printf("%s; %s; %s\n", view->paused ? ", paused" : "", lcore,
           view->command[0] == '\0' ? "every command" : view->command);
    if (screen_is_whole()) {
        puts("l lcore  c command  k kind  h bars  s since reset  r reset  p pause  q quit\n");
    }
}

/* False: nobody reads any more. */
static bool
view_show(struct view *view)
{
    json_t *difference = result_difference(view->now, view->since_reset ? view->reset : view->last);

    if (view->options->json) {
        json_dumpf(difference, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        putchar('\n');
    } else {
        screen_begin();
        view_title(view);
        latency_print(difference, view->bars, view->options->full);
        putchar('\n');
    }
    json_decref(difference);
    return view->options->json ? fflush(stdout) == 0 : screen_end();
}

int
latency_watch(const struct options *options)
{
    struct view view = { .options = options, .lcore = options->lcore, .bars = options->hist };
    struct timespec at;
    bool goes_on = true;

    while (options->kind != NULL && view.kind < ARRAY_COUNT(kinds) && strcmp(kinds[view.kind], options->kind) != 0) {
        view.kind++;
    }
    if (view.kind == ARRAY_COUNT(kinds)) {
        fail(EXIT_USAGE, "--kind: expected one of" CTL_LATENCY_WORDS);
    }
    snprintf(view.command, sizeof(view.command), "%s", options->word == NULL ? "" : options->word);
    view_restart(&view);
    screen_open(!options->json);
    clock_gettime(CLOCK_MONOTONIC, &at);
    if (screen_is_whole()) {
        goes_on = view_show(&view);
    }
    while (goes_on) {
        timespec_add(&at, options->watch_s);
        int key;
        while ((key = screen_key(&at)) != SCREEN_TIME && (goes_on = view_key(&view, key))) {
            goes_on = view_show(&view);
        }
        if (goes_on && !view.paused) {
            view_read(&view);
            goes_on = view_show(&view);
        }
    }
    json_decref(view.now);
    json_decref(view.last);
    json_decref(view.reset);
    return EXIT_GOOD;
}
