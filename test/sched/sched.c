/* Coroutines, and one execution after another. */
#include "test/sched/sched_private.h"
#include <stdarg.h>
#include <sys/mman.h>

#define STACK_BYTES (256 * KIB)
#define STEPS_MOST  200000 /* of one execution: more means that nothing moves on */
#define SEAT_CHECK  0      /* runs begin() and check() */

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
    struct sched_sight sight;
};

static struct sched {
    const struct sched_scene *scene;
    bool inside, running, verbose, failed;
    uint32_t seat, step;
    uint64_t moment;
    void *main_stack_pointer;
    struct thread threads[SCHED_SEATS];
    char message[400];
} sched;

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

void
sched_point(void)
{
    uint32_t others[SCHED_SEATS];
    if (++sched.step > STEPS_MOST) {
        sched_fail("no end after %u steps", sched.step);
    }
    uint32_t count = others_ready(others);
    if (count != 0) {
        switch_to(choose_stay_or_leave(sched.seat, others, count, sched.step));
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
    choose_last(sched.seat);
    uint32_t count = others_ready(others);
    if (count != 0) {
        switch_to(choose_seat(others, count));
    }
}

/* The current thread has ended or waits. */
static void
run_another(void)
{
    uint32_t others[SCHED_SEATS];
    uint32_t count = others_ready(others);
    if (count != 0) {
        switch_to(choose_seat(others, count));
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
    uint32_t first = choose_seat(seats, count);
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
    atomic_begin_setup();
    CHECK(run_alone(setup_main));
    heap_snapshot();
    sched.verbose = verbose;
    return none;
}

static struct sched_result
scene_end(struct sched_result result)
{
    result.failed = sched.failed;
    if (sched.failed) {
        snprintf(result.message, sizeof(result.message), "%s", sched.message);
    } else {
        heap_check_restored();
    }
    return result;
}

/* With bounds of 1, then 2 and so on up to the scene's: few preemptions find most, and are soon all tried. At most
 * `limit` executions; `verbose_at` is the number of one, or UINT64_MAX. */
static void
search(const struct sched_scene *scene, uint64_t limit, uint64_t verbose_at, struct sched_result *result)
{
    uint32_t most = MAX(scene->preemptions, scene->stale_loads);
    result->complete = true;
    for (uint32_t bound = 1; bound <= most && (bound == 1 || choose_was_bounded()); bound++) {
        bool more = true;
        choose_first_path();
        while (more) {
            if (result->exhaustive == limit) {
                result->complete = false;
                return;
            }
            choose_by_path(MIN(bound, scene->preemptions), MIN(bound, scene->stale_loads));
            sched.verbose = sched.verbose || result->exhaustive == verbose_at;
            result->number = result->exhaustive++;
            if (!execute()) {
                result->failed_exhaustive = true;
                return;
            }
            more = choose_next_path();
        }
    }
}

struct sched_result
sched_explore(const struct sched_scene *scene, const struct sched_options *options)
{
    struct sched_result result = scene_begin(scene, options->verbose);
    search(scene, options->exhaustive, UINT64_MAX, &result);
    while (result.random < options->random && !sched.failed) {
        result.number = options->first_seed + result.random++;
        choose_by_seed(result.number);
        (void)execute();
    }
    return scene_end(result);
}

struct sched_result
sched_replay_exhaustive(const struct sched_scene *scene, uint64_t number, bool verbose)
{
    struct sched_result result = scene_begin(scene, false);
    search(scene, number + 1, verbose ? number : UINT64_MAX, &result);
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
