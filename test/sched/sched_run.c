/* Run the scenes: exhaustively within each one's bounds, then at random.
 *
 * usage: sched_... [-n SEEDS] [-x EXECUTIONS] [-s FIRST_SEED] [-m SCENES] [SCENE...]
 *        sched_... -r NUMBER [-v] SCENE      one execution again; -v prints each operation
 *
 * NUMBER is what a failure printed: a seed, or x and the count of executions of the exhaustive search before it. */
#include "test/sched/sched_run.h"
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#define SCENES_MOST 100 /* unless told otherwise */

static double
seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool
scene_report(const struct sched_scene *scene, struct sched_result result, double seconds)
{
    if (result.failed) {
        printf("%s: %s\n  again: -r %s%" PRIu64 " -v %s\n", scene->name, result.message,
               result.failed_exhaustive ? "x" : "", result.number, scene->name);
        return false;
    }
    printf("%-20s %7" PRIu64 "%s exhaustive, %6" PRIu64 " random, %.1f s\n", scene->name, result.exhaustive,
           result.complete ? "" : " (not all)", result.random, seconds);
    return true;
}

static struct sched_result
scene_replay(const struct sched_scene *scene, const char *number, bool verbose)
{
    if (number[0] == 'x') {
        return sched_replay_exhaustive(scene, strtoull(number + 1, NULL, 10), verbose);
    }
    struct sched_options once = { .first_seed = strtoull(number, NULL, 10), .random = 1, .verbose = verbose };
    return sched_explore(scene, &once);
}

static bool
scene_wanted(const char *name, char **names)
{
    for (char **wanted = names; *wanted != NULL; wanted++) {
        if (strcmp(*wanted, name) == 0) {
            return true;
        }
    }
    return *names == NULL;
}

int
main(int argc, char **argv)
{
    struct sched_options options = { .first_seed = 1, .random = 2000, .exhaustive = 20000 };
    const char *replay = NULL;
    uint32_t scenes_most = SCENES_MOST;
    bool verbose = false;
    setlinebuf(stdout);
    for (int option; (option = getopt(argc, argv, "n:x:s:m:r:v")) != -1;) {
        switch (option) {
        case 'n':
            options.random = strtoull(optarg, NULL, 10);
            break;
        case 'x':
            options.exhaustive = strtoull(optarg, NULL, 10);
            break;
        case 's':
            options.first_seed = strtoull(optarg, NULL, 10);
            break;
        case 'm':
            scenes_most = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            replay = optarg;
            break;
        case 'v':
            verbose = true;
            break;
        default:
            return 2;
        }
    }
    uint32_t failed = 0, ran = 0;
    const struct sched_scene *scene;
    uint32_t most = optind < argc ? UINT32_MAX : scenes_most, wanted = (uint32_t)(argc - optind);
    for (uint32_t i = 0; i < most && (wanted == 0 || ran < wanted) && (scene = scene_at(i)) != NULL; i++) {
        if (!scene_wanted(scene->name, argv + optind)) {
            continue;
        }
        double began = seconds_now();
        struct sched_result result =
            replay != NULL ? scene_replay(scene, replay, verbose) : sched_explore(scene, &options);
        failed += !scene_report(scene, result, seconds_now() - began);
        ran++;
    }
    if (ran == 0) {
        fprintf(stderr, "%s: no such scene\n", argv[0]);
        return 2;
    }
    return failed != 0;
}
