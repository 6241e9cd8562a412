/* Coroutines, and the two ways to choose among what may happen next. */
#include "test/sched/sched_private.h"
#include <stdarg.h>
#include <sys/mman.h>

#define STACK_BYTES   (256 * KIB)
#define STEPS_MOST    200000 /* of one execution: more means that nothing moves on */
#define CHOICES_MOST  8192   /* of one path of the exhaustive search */
#define CHANGES_MOST  4      /* of priorities, in one execution */
#define STEPS_TYPICAL 256    /* priorities change within so many steps, or eight times as many */
#define SEAT_CHECK    0      /* runs begin() and check() */

#if defined(__x86_64__)
enum { SWITCH_WORDS = 8, SWITCH_ENTRY = 6 }; /* six registers, the return address, alignment */
#else
enum { SWITCH_WORDS = 20, SWITCH_ENTRY = 11 }; /* x19 .. x30, d8 .. d15 */
#endif
void sched_switch(void **from, void *to); /* switch_*.S */

enum thread_state { THREAD_READY, THREAD_WAITING, THREAD_DONE };

struct thread {
    void *stack_pointer;
    uint8_t *stack;
    enum thread_state state;
    const _Atomic uint64_t *word; /* it waits until this is not 0 */
    const char *waits_for;
    uint32_t priority;
    struct sched_sight sight;
};

/* Random: either a coin at each step, or priorities that change at a few steps (Burckhardt's PCT: few preemptions at
 * the right places find most bugs). */
struct dice {
    uint64_t state;
    bool priorities;
    uint32_t leave, stale; /* of 256 */
    uint32_t changes[CHANGES_MOST];
};

/* Exhaustive: depth first over the choices of one execution. */
struct choice {
    uint16_t taken, count;
};
struct path {
    struct choice choices[CHOICES_MOST];
    uint32_t length, at;
    uint32_t preemptions, stale_loads; /* left in this execution */
};

static struct sched {
    const struct sched_scene *scene;
    bool inside, running, verbose, exhaustive, failed;
    uint32_t seat, step, lowest_priority;
    uint64_t moment;
    void *main_stack_pointer;
    struct thread threads[SCHED_SEATS];
    struct dice dice;
    struct path path;
    char message[400];
} sched;

/* ---- choices ---- */

static uint64_t
dice_next(void)
{
    uint64_t *state = &sched.dice.state;
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717ull >> 11;
}

static bool
dice_throw(uint32_t of_256)
{
    return dice_next() % 256 < of_256;
}

static void
dice_begin(uint64_t seed)
{
    static const uint32_t leave[] = { 128, 64, 32, 12 }, stale[] = { 0, 16, 64, 160 };
    sched.dice = (struct dice){ .state = (seed + 1) * 0x9e3779b97f4a7c15ull };
    (void)dice_next();
    sched.dice.priorities = dice_throw(128);
    sched.dice.leave = leave[dice_next() % ARRAY_COUNT(leave)];
    sched.dice.stale = stale[dice_next() % ARRAY_COUNT(stale)];
    uint64_t within = dice_throw(128) ? STEPS_TYPICAL : 8 * STEPS_TYPICAL;
    for (uint32_t i = 0; i < CHANGES_MOST; i++) {
        sched.dice.changes[i] = (uint32_t)(dice_next() % within);
    }
    sched.lowest_priority = 1000;
    for (uint32_t i = 1; i < SCHED_SEATS; i++) {
        sched.threads[i].priority = 2000 + (uint32_t)(dice_next() % 1000);
    }
}

static uint32_t
path_choose(uint32_t count)
{
    struct path *path = &sched.path;
    if (count == 1) {
        return 0;
    }
    if (path->at == path->length) {
        CHECK(path->length < CHOICES_MOST);
        path->choices[path->length++] = (struct choice){ 0, (uint16_t)count };
    }
    CHECK(path->choices[path->at].count == count); /* else an execution depends on more than its choices */
    return path->choices[path->at++].taken;
}

static void
path_begin(void)
{
    sched.path.at = 0;
    sched.path.preemptions = sched.scene->preemptions;
    sched.path.stale_loads = sched.scene->stale_loads;
}

/* The next path in order; false: that was the last. */
static bool
path_next(void)
{
    struct path *path = &sched.path;
    while (path->length != 0) {
        struct choice *last = &path->choices[path->length - 1];
        if (++last->taken < last->count) {
            return true;
        }
        path->length--;
    }
    return false;
}

uint32_t
sched_choose_store(uint32_t count)
{
    if (count == 1) {
        return 0;
    }
    if (!sched.exhaustive) {
        return dice_throw(sched.dice.stale) ? 1 + (uint32_t)(dice_next() % (count - 1)) : 0;
    }
    if (sched.path.stale_loads == 0) {
        return 0;
    }
    uint32_t chosen = path_choose(count);
    sched.path.stale_loads -= chosen != 0;
    return chosen;
}

/* ---- threads ---- */

static bool
thread_can_run(struct thread *thread)
{
    if (thread->state == THREAD_WAITING && atomic_load(thread->word) != 0) {
        thread->state = THREAD_READY;
    }
    return thread->state == THREAD_READY;
}

/* Seats that can run, the current one left out. */
static uint32_t
others_ready(uint32_t *seats)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i <= sched.scene->thread_count; i++) {
        if (i != sched.seat && thread_can_run(&sched.threads[i])) {
            seats[count++] = i;
        }
    }
    return count;
}

static void
switch_to(uint32_t seat)
{
    uint32_t from = sched.seat;
    if (seat != from) {
        sched.seat = seat;
        sched_switch(&sched.threads[from].stack_pointer, sched.threads[seat].stack_pointer);
    }
}

static void
enter(uint32_t seat)
{
    sched.seat = seat;
    sched.inside = true;
    sched_switch(&sched.main_stack_pointer, sched.threads[seat].stack_pointer);
    sched.inside = false;
}

_Noreturn static void
return_to_main(void)
{
    sched_switch(&sched.threads[sched.seat].stack_pointer, sched.main_stack_pointer);
    abort();
}

static uint32_t
highest_priority(const uint32_t *seats, uint32_t count)
{
    uint32_t best = seats[0];
    for (uint32_t i = 1; i < count; i++) {
        if (sched.threads[seats[i]].priority > sched.threads[best].priority) {
            best = seats[i];
        }
    }
    return best;
}

/* Leaving is free here: the current thread cannot go on, or asks to be left. */
static uint32_t
pick_other(const uint32_t *seats, uint32_t count)
{
    if (sched.exhaustive) {
        return seats[path_choose(count)];
    }
    return sched.dice.priorities ? highest_priority(seats, count) : seats[dice_next() % count];
}

static void
leave_or_stay(const uint32_t *others, uint32_t count)
{
    struct thread *current = &sched.threads[sched.seat];
    if (sched.exhaustive) {
        uint32_t chosen = sched.path.preemptions != 0 ? path_choose(1 + count) : 0;
        if (chosen != 0) {
            sched.path.preemptions--;
            switch_to(others[chosen - 1]);
        }
        return;
    }
    if (!sched.dice.priorities) {
        if (dice_throw(sched.dice.leave)) {
            switch_to(others[dice_next() % count]);
        }
        return;
    }
    for (uint32_t i = 0; i < CHANGES_MOST; i++) {
        if (sched.dice.changes[i] == sched.step) {
            current->priority = --sched.lowest_priority;
        }
    }
    uint32_t best = highest_priority(others, count);
    if (sched.threads[best].priority > current->priority) {
        switch_to(best);
    }
}

void
sched_point(void)
{
    uint32_t others[SCHED_SEATS];
    if (++sched.step > STEPS_MOST) {
        sched_fail("no end after %u steps", sched.step);
    }
    uint32_t count = others_ready(others);
    if (count != 0) {
        leave_or_stay(others, count);
    }
}

void
sched_relax(void)
{
    uint32_t others[SCHED_SEATS];
    if (!sched.running) {
        return;
    }
    if (++sched.step > STEPS_MOST) {
        sched_fail("no end after %u steps", sched.step);
    }
    sched.threads[sched.seat].priority = --sched.lowest_priority;
    uint32_t count = others_ready(others);
    if (count != 0) {
        switch_to(pick_other(others, count));
    }
}

/* The current thread has ended or waits. */
static void
run_another(void)
{
    uint32_t others[SCHED_SEATS];
    uint32_t count = others_ready(others);
    if (count != 0) {
        switch_to(pick_other(others, count));
        return;
    }
    for (uint32_t i = 1; i <= sched.scene->thread_count; i++) {
        const struct thread *thread = &sched.threads[i];
        if (thread->state == THREAD_WAITING) {
            sched_fail("thread %u waits for %s for ever", i, thread->waits_for);
        }
    }
    return_to_main();
}

void
sched_wait(const _Atomic uint64_t *word, const char *what)
{
    struct thread *thread = &sched.threads[sched.seat];
    while (atomic_load(word) == 0) {
        sched_trace("waits for %s", what);
        thread->state = THREAD_WAITING;
        thread->word = word;
        thread->waits_for = what;
        run_another();
    }
}

static void
thread_main(void)
{
    sched.scene->thread(sched.seat - 1);
    sched_trace("ends");
    sched.threads[sched.seat].state = THREAD_DONE;
    run_another();
    abort();
}

static void
check_main(void)
{
    if (sched.scene->check != NULL) {
        sched.scene->check();
    }
    return_to_main();
}

static void
begin_main(void)
{
    if (sched.scene->begin != NULL) {
        sched.scene->begin();
    }
    return_to_main();
}

static void
setup_main(void)
{
    sched.scene->setup();
    return_to_main();
}

static void
thread_prepare(uint32_t seat, void (*entry)(void))
{
    struct thread *thread = &sched.threads[seat];
    if (thread->stack == NULL) {
        thread->stack = sched_pages(STACK_BYTES);
    }
    void **words = (void **)(void *)(thread->stack + STACK_BYTES) - SWITCH_WORDS;
    for (uint32_t i = 0; i < SWITCH_WORDS; i++) {
        words[i] = NULL;
    }
    words[SWITCH_ENTRY] = (void *)(uintptr_t)entry;
    thread->stack_pointer = words;
    thread->state = THREAD_READY;
    thread->sight = (struct sched_sight){ 0 };
}

/* On a stack that can be left for good when something fails; false: it was. */
static bool
run_alone(void (*entry)(void))
{
    thread_prepare(SEAT_CHECK, entry);
    enter(SEAT_CHECK);
    return !sched.failed;
}

static bool
run_threads(void)
{
    uint32_t seats[SCHED_SEATS];
    for (uint32_t i = 1; i <= sched.scene->thread_count; i++) {
        thread_prepare(i, thread_main);
    }
    sched.seat = SEAT_CHECK;
    uint32_t count = others_ready(seats);
    uint32_t first = pick_other(seats, count);
    sched.running = true;
    enter(first);
    sched.running = false;
    return !sched.failed;
}

/* ---- executions ---- */

static bool
execute(void)
{
    heap_begin_execution();
    atomic_begin_execution();
    sched.step = 0;
    return run_alone(begin_main) && run_threads() && run_alone(check_main);
}

static struct sched_result
scene_begin(const struct sched_scene *scene, bool verbose)
{
    static struct sched_result none;
    CHECK(scene->thread_count >= 1 && scene->thread_count <= SCHED_THREADS_MAX);
    sched.scene = scene;
    sched.failed = false;
    sched.verbose = false;
    heap_open();
    atomic_begin_execution();
    CHECK(run_alone(setup_main));
    heap_snapshot();
    sched.verbose = verbose;
    return none;
}

static struct sched_result
scene_end(struct sched_result result)
{
    if (sched.failed) {
        result.failed = true;
        result.failed_exhaustive = sched.exhaustive;
        snprintf(result.message, sizeof(result.message), "%s", sched.message);
    } else {
        heap_check_restored();
    }
    return result;
}

struct sched_result
sched_explore(const struct sched_scene *scene, const struct sched_options *options)
{
    struct sched_result result = scene_begin(scene, options->verbose);
    sched.exhaustive = true;
    sched.path.length = 0;
    bool more = scene->preemptions + scene->stale_loads != 0;
    while (more && result.exhaustive < options->exhaustive && !sched.failed) {
        path_begin();
        result.number = result.exhaustive++;
        more = execute() && path_next();
    }
    result.complete = !more;
    if (!sched.failed) {
        sched.exhaustive = false;
    }
    while (result.random < options->random && !sched.failed) {
        result.number = options->first_seed + result.random++;
        dice_begin(result.number);
        (void)execute();
    }
    return scene_end(result);
}

struct sched_result
sched_replay_exhaustive(const struct sched_scene *scene, uint64_t number, bool verbose)
{
    struct sched_result result = scene_begin(scene, false);
    sched.exhaustive = true;
    sched.path.length = 0;
    bool more = true;
    while (more && result.exhaustive <= number && !sched.failed) {
        path_begin();
        sched.verbose = verbose && result.exhaustive == number;
        result.number = result.exhaustive++;
        more = execute() && path_next();
    }
    return scene_end(result);
}

/* ---- what the other files ask ---- */

void *
sched_pages(size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *at = __real_mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

bool
sched_running(void)
{
    return sched.running;
}

bool
sched_inside(void)
{
    return sched.inside;
}

uint32_t
sched_seat(void)
{
    return sched.seat;
}

uint32_t
sched_step(void)
{
    return sched.step;
}

struct sched_sight *
sched_sight(void)
{
    return &sched.threads[sched.seat].sight;
}

uint64_t
sched_moment(void)
{
    return ++sched.moment;
}

void
sched_trace(const char *format, ...)
{
    if (!sched.verbose) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    printf("%5u  %*s%u  ", sched.step, 4 * (int)sched.seat, "", sched.seat);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

void
sched_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sched.message, sizeof(sched.message), format, arguments);
    va_end(arguments);
    sched_trace("FAILS: %s", sched.message);
    sched.failed = true;
    sched.running = false;
    return_to_main();
}
