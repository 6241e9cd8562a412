#include "test/sched/scene_store.h"
#include "test/sched/sched_run.h"

#define FULL_BUCKET "set t, set u, set v, set w, set x, set y, set z"

/* clang-format off */
static const struct scene_plan plans[] = {
    /* inserts, overwrites, deletes */
    { "first-table", LOOSE, 2, 2, NULL, { "set a, get b", "set b, get a" } },
    { "insert-insert", JUDGED, 3, 2, "set z", { "add a, get a", "add a, get a" } },
    { "insert-neighbour", JUDGED, 2, 1, "set z", { "add a, get b", "add b, get a", "add a" } },
    { "overwrite-read", JUDGED, 3, 2, "set a", { "set a, set a", "get a, get a" } },
    { "overwrite-loose", LOOSE, 2, 2, "set a", { "set a, set a", "get a, get a", "incr a" } },
    { "incr-incr", JUDGED, 3, 2, "set z", { "incr a, incr a", "incr a, incr a" } },
    { "delete-insert", JUDGED, 2, 1, "set a", { "del a, add a", "add a, get a", "get a" } },
    { "ghost-reuse", JUDGED, 3, 2, "set a, del a", { "add a, del a", "set a, get a" } },
    { "chain-append", JUDGED, 2, 2, FULL_BUCKET, { "add a, get b", "add b, get a" } },
    { "chain-append-three", JUDGED, 1, 1, FULL_BUCKET, { "add a, get c", "add a, get b", "add b, turn" } },
    { "chain-append-long", LOOSE, 2, 1, FULL_BUCKET ", set m, set n, set o, set p, set q, set r, set s",
      { "add a, get b", "add b, get a" } },
    /* several keys at one moment */
    { "mget-overwrite", JUDGED, 2, 2, "set a, set b", { "mget", "set a, set b" } },
    { "mget-appear", JUDGED, 2, 2, "set z", { "mget", "set a, set b" } },
    { "mget-vanish", JUDGED, 2, 2, "set a, set b", { "mget", "del a, del b, set a" } },
    { "mget-flush", JUDGED, 2, 2, "set a, set b", { "mget", "flush, set b" } },
    { "mget-sweep", JUDGED, 2, 1, "expiring a, set b", { "mget", "add a, set b", "sweep" } },
    { "mget-ghost-sweep", JUDGED, 1, 5, "set z, del z, set b", { "mget", "set a, del b, sweep" } },
    { "mget-rebuild", JUDGED, 1, 1, "set a, set b, set z, del z", { "mget", "set a, add c", "rebuild" } },
    /* reclamation */
    { "retire-read", LOOSE, 2, 2, "set a", { "set a, nap, reclaim", "nap, get a, nap, get a" } },
    { "retire-sealed", LOOSE, 2, 2, "set a", { "set a, seal, reclaim", "nap, get a, nap, get a" } },
    { "retire-quiesce", LOOSE, 2, 1, "set a", { "set a, nap, turn, reclaim", "get a, turn, get a, turn" } },
    { "retire-three", LOOSE, 1, 2, "set a", { "set a, nap, reclaim", "nap, get a", "set a, nap, reclaim" } },
    /* rebuilds */
    { "rebuild-read", JUDGED, 2, 1, "set a, set b, expiring z, expiring y",
      { "sweep, rebuild, set a, nap, reclaim", "get a, get b, turn, get a" } },
    { "rebuild-loose", LOOSE, 2, 1, "set a, set b, set z, del z",
      { "rebuild, set a, nap, reclaim", "get a, nap, get a, nap, get a" } },
    { "rebuild-write", JUDGED, 2, 1, "set a, set b, set z, del z", { "rebuild, get a", "set a, add c, get a" } },
    { "rebuild-helpers", JUDGED, 1, 1, "set a, set b, set z, del z",
      { "rebuild, get a", "set a, del b", "add c, set b" } },
    { "rebuild-grow", JUDGED, 1, 0, FULL_BUCKET ", set a",
      { "rebuild, get b, get a", "set a, add b, turn", "del a, get b, turn" } },
    { "rebuild-append", JUDGED, 1, 1, "set a, set u, set v, set w, set x, set y, set z, del z",
      { "rebuild, get b", "add b, get a", "add c, get b" } },
    /* closing */
    { "close-write", JUDGED, 2, 2, "set a, del a", { "rebuild, get a", "add a, get a" } },
    { "close-helpers", JUDGED, 2, 1, "set a, del a", { "rebuild, get b", "add a, get a", "add b, del a" } },
    { "close-close", JUDGED, 1, 1, "set a, del a", { "rebuild, add a", "rebuild, del a", "incr a, del a" } },
    { "close-read", LOOSE, 2, 1, "set a, del a", { "rebuild, nap, reclaim", "get a, nap, get a, nap, get a" } },
    { "close-open", LOOSE, 1, 1, "set a, del a",
      { "rebuild, nap, reclaim", "set a, nap, rebuild, get a", "del a, rebuild, nap, reclaim" } },
    { "close-sweep", LOOSE, 1, 1, "set a, del a", { "rebuild, nap, reclaim", "sweep, nap, sweep", "add b, scan" } },
    /* eviction */
    { "evict-overwrite", LOOSE, 2, 1, "set a, set b", { "evict, nap, reclaim", "set a, get b, nap, get a" } },
    { "evict-evict", LOOSE, 1, 1, "set a, set x, set y, set z", { "evict", "evict, add b", "del a" } },
    { "evict-rebuild", LOOSE, 1, 1, "set a, set b, set z, del z", { "rebuild, nap, reclaim", "evict, nap, get a" } },
    /* moves */
    { "move-incr", JUDGED, 2, 1, "incr a, set b", { "move, get a", "incr a, get a" } },
    { "move-read", LOOSE, 2, 1, "set a, set b", { "move, nap, reclaim", "get a, set b, nap, get a" } },
    { "move-rebuild", LOOSE, 1, 1, "set a, set b, set z, del z", { "move, nap, reclaim", "rebuild, set a, nap, get b" } },
    { "mget-move", JUDGED, 1, 1, "set a, set b, del b", { "mget", "move, set a, move" } },
    /* walks */
    { "scan-overwrite", LOOSE, 2, 2, "set a, set b", { "scan", "set a, set b, add c" } },
    { "scan-clear", LOOSE, 2, 1, "set a, set b, set z, del z", { "scan", "rebuild, set a, nap, reclaim" } },
    { "scan-grow", LOOSE, 1, 1, FULL_BUCKET ", set a", { "scan", "rebuild, set b, nap, reclaim", "set a, del z" } },
    { "scan-grown", LOOSE, 1, 1, FULL_BUCKET ", set a, rebuild, del u, del v, del w, del x",
      { "scan", "rebuild, nap, reclaim", "set a, set t, nap" } },
    { "scan-opened", LOOSE, 1, 1, NULL, { "set a, scan", "set b, scan" } },
    /* sweeps */
    { "ghost-sweep", JUDGED, 2, 1, "set z, del z, set a, del a", { "sweep, get a", "add a, get a", "del a" } },
    { "expired-sweep", JUDGED, 2, 1, "expiring a, set b", { "sweep, get a", "add a, get a", "incr a, add c" } },
    { "swept-neighbour", JUDGED, 2, 1, "expiring a, expiring b", { "sweep, add a", "add b, add c", "add c, get b" } },
    /* cuts */
    { "flush-incr", JUDGED, 3, 2, "set a", { "flush, get a", "incr a, incr a" } },
    { "flush-incr-cycles", CYCLES, 3, 2, "set a", { "flush, get a", "incr a, incr a" } },
    { "flush-flush", CYCLES, 2, 1, "set a", { "flush, add a", "flush, get a", "incr a" } },
    { "flush-sweep", JUDGED, 2, 1, "set a, set b",
      { "flush, turn, nap, turn, turn", "incr a, nap, turn, get a, turn" } },
    { "flush-sweeps", LOOSE, 2, 1, "set a, set b, expiring c",
      { "flush, nap, turn, turn", "nap, sweep, nap, sweep, nap, turn" } },
};
/* clang-format on */

/* ---- soups: scenes made up by their number ---- */

#define SOUP_BEFORE  10 /* calls, at most */
#define SOUP_THREADS 3
#define SOUP_CALLS   5
#define SOUP_TEXT    256

static struct soup {
    char name[32], before[SOUP_TEXT], threads[SOUP_THREADS][SOUP_TEXT];
    struct scene_plan plan;
    uint64_t random;
} soup;

static uint32_t
soup_random(uint32_t below)
{
    soup.random = soup.random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(soup.random >> 33) % below;
}

static void
soup_add(char *text, const char *const *words, uint32_t word_count)
{
    static const char keys[] = "aabbcxyz";
    const char *word = words[soup_random(word_count)];
    size_t used = strlen(text);
    bool has_key = word[strlen(word) - 1] == ' ';
    int length = snprintf(text + used, SOUP_TEXT - used, "%s%s%.1s", used != 0 ? ", " : "", word,
                          has_key ? &keys[soup_random(sizeof(keys) - 1)] : "");
    CHECK(length > 0 && used + (size_t)length < SOUP_TEXT);
}

static const struct scene_plan *
soup_make(uint32_t number)
{
    static const char *const before[] = { "set ", "set ", "set ", "del ", "expiring ", "incr ", "rebuild" };
    static const char *const judged[] = { "get ", "set ", "add ", "del ",    "incr ",   "incr ", "flush",
                                          "turn", "nap",  "seal", "reclaim", "rebuild", "sweep", "mget" };
    static const char *const loose[] = { "get ", "get ", "set ", "set ",    "del ",    "add ",  "mget",    "turn",
                                         "nap",  "nap",  "seal", "reclaim", "reclaim", "sweep", "rebuild", "evict" };
    static const enum scene_mode modes[] = { JUDGED, JUDGED, CYCLES, LOOSE };
    soup = (struct soup){ .random = number };
    (void)soup_random(1);
    enum scene_mode mode = modes[soup_random(ARRAY_COUNT(modes))];
    snprintf(soup.name, sizeof(soup.name), "soup-%u", number);
    soup.plan = (struct scene_plan){ .name = soup.name, .mode = mode, .before = soup.before };
    for (uint32_t calls = soup_random(SOUP_BEFORE); calls != 0; calls--) {
        soup_add(soup.before, before, ARRAY_COUNT(before));
    }
    uint32_t threads = 2 + soup_random(SOUP_THREADS - 1);
    for (uint32_t thread = 0; thread < threads; thread++) {
        soup.plan.threads[thread] = soup.threads[thread];
        for (uint32_t calls = 2 + soup_random(SOUP_CALLS - 1); calls != 0; calls--) {
            if (mode == LOOSE) {
                soup_add(soup.threads[thread], loose, ARRAY_COUNT(loose));
            } else {
                /* Three threads, and one of them reads several keys: see the last limit in sched.h. */
                soup_add(soup.threads[thread], judged, ARRAY_COUNT(judged) - (threads > 2));
            }
        }
    }
    return &soup.plan;
}

const struct sched_scene *
scene_at(uint32_t index)
{
    uint32_t count = ARRAY_COUNT(plans);
    return scene_of_plan(index < count ? &plans[index] : soup_make(index - count));
}
