/* Weak memory: which store does a load read, and what does its thread know after it? */
#include "test/sched/sched_private.h"

#define LOCATIONS    (1u << 15)   /* slots of the table; an execution uses less than half of them */
#define STORES_MOST  (1u << 17)   /* of one execution */
#define STALE_MOST   8            /* a load looks back so far */
#define CYCLES_STEP  40           /* less than a tick of stamp.h: two readings may share one */
#define CYCLES_FIRST (1ull << 32) /* of an execution; setup is before */

/* One store in the modification order of its location. */
struct store {
    struct store *older;
    uint64_t value;
    uint32_t seat, time;
    bool uninitialised;
    uint32_t seen[SCHED_SEATS]; /* when each seat read or wrote it first; 0: never */
    struct sched_view sync;     /* what an acquire load of it joins */
};

struct location {
    uintptr_t address;
    uint64_t execution; /* slots of earlier ones are free */
    struct store *newest;
    uint32_t accessed[SCHED_SEATS];
    uint32_t bytes;
};

static struct location locations[LOCATIONS];
static struct store stores[STORES_MOST];
static uint32_t store_count, location_count;
static uint64_t execution;
static uint32_t fence_order[SCHED_SEATS]; /* co of all seq_cst fences so far */
static uint32_t time_order[SCHED_SEATS];  /* what was visible at the readings of the cycle counter so far */
static uint64_t cycles;

void
atomic_begin_setup(void)
{
    cycles = 0;
}

void
atomic_begin_execution(void)
{
    execution++;
    store_count = location_count = 0;
    memset(fence_order, 0, sizeof(fence_order));
    memset(time_order, 0, sizeof(time_order));
    cycles = CYCLES_FIRST;
}

/* ---- clocks ---- */

static void
clock_join(uint32_t *clock, const uint32_t *with)
{
    for (uint32_t i = 0; i < SCHED_SEATS; i++) {
        clock[i] = MAX(clock[i], with[i]);
    }
}

void
view_join(struct sched_view *view, const struct sched_view *with)
{
    clock_join(view->hb, with->hb);
    clock_join(view->co, with->co);
}

static bool
order_acquires(memory_order order)
{
    return order == memory_order_acquire || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static bool
order_releases(memory_order order)
{
    return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

/* One more operation of the running thread. */
static struct sched_sight *
sight_tick(void)
{
    struct sched_sight *sight = sched_sight();
    sight->now.hb[sched_seat()]++;
    sight->now.co[sched_seat()]++;
    return sight;
}

static uint32_t
sight_time(const struct sched_sight *sight)
{
    return sight->now.hb[sched_seat()];
}

/* ---- locations ---- */

static struct store *
store_new(struct location *location, uint64_t value)
{
    if (store_count == STORES_MOST) {
        sched_fail("more than %u stores", STORES_MOST);
    }
    struct store *store = &stores[store_count++];
    *store = (struct store){ .older = location->newest, .value = value };
    location->newest = store;
    return store;
}

static uint64_t
memory_read(const void *p, uint32_t bytes)
{
    uint64_t value = 0;
    switch (bytes) {
    case 1:
        value = *(const uint8_t *)p;
        break;
    case 2:
        value = *(const uint16_t *)p;
        break;
    case 4:
        value = *(const uint32_t *)p;
        break;
    default:
        value = *(const uint64_t *)p;
        break;
    }
    return value;
}

static uint64_t
value_mask(uint32_t bytes)
{
    return bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
}

/* What the location held before this execution first met it. */
static void
location_begin(struct location *location, const void *p)
{
    uint32_t seat = 0, time = 0;
    enum heap_origin origin = heap_origin(p, &seat, &time);
    struct store *first = store_new(location, memory_read(p, location->bytes));
    if (origin == HEAP_SNAPSHOT) {
        return; /* written by seat 0 at time 0: before everything */
    }
    first->uninitialised = true;
    first->seat = SCHED_SEATS; /* nobody has seen it */
    if (origin == HEAP_PLAIN) {
        struct store *plain = store_new(location, first->value);
        plain->seat = seat;
        plain->time = plain->seen[seat] = time;
    }
}

static struct location *
location_slot(uintptr_t address)
{
    uint32_t slot = (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 49) % LOCATIONS;
    while (locations[slot].execution == execution && locations[slot].address != address) {
        slot = (slot + 1) % LOCATIONS;
    }
    return &locations[slot];
}

static struct location *
location_of(const void *p, uint32_t bytes)
{
    struct location *location = location_slot((uintptr_t)p);
    if (location->execution != execution) {
        if (++location_count > LOCATIONS / 2) {
            sched_fail("more than %u locations", LOCATIONS / 2);
        }
        *location = (struct location){ .address = (uintptr_t)p, .execution = execution, .bytes = bytes };
    }
    if (location->newest == NULL) {
        location->bytes = bytes;
        location_begin(location, p);
    }
    CHECK(location->bytes == bytes); /* words are not accessed in parts */
    return location;
}

bool
atomic_forget(uintptr_t address, size_t bytes)
{
    const struct sched_sight *sight = sched_sight();
    bool ordered = true;
    for (size_t at = 0; at < bytes; at++) {
        struct location *location = location_slot(address + at);
        if (location->execution != execution || location->newest == NULL) {
            continue;
        }
        for (uint32_t i = 0; i < SCHED_SEATS; i++) {
            ordered = ordered && (i == sched_seat() || location->accessed[i] <= sight->now.hb[i]);
        }
        location->newest = NULL;
        memset(location->accessed, 0, sizeof(location->accessed));
    }
    return ordered;
}

/* ---- loads ---- */

/* Nothing older than this store may be read: the thread knows that somebody wrote or read it. */
static bool
store_is_floor(const struct store *store, const struct sched_sight *sight)
{
    if (store->seat == 0) {
        return true;
    }
    for (uint32_t i = 1; i < SCHED_SEATS; i++) {
        if (store->seen[i] != 0 && store->seen[i] <= sight->now.co[i]) {
            return true;
        }
    }
    return false;
}

static struct store *
load_choose(const struct location *location, const struct sched_sight *sight, const char *at)
{
    struct store *candidates[STALE_MOST];
    uint32_t count = 0;
    for (struct store *store = location->newest; store != NULL && count < STALE_MOST; store = store->older) {
        if (store->uninitialised) {
            sched_fail("may read a word of a new block before the first store to it: %s", at);
        }
        candidates[count++] = store;
        if (store_is_floor(store, sight)) {
            break;
        }
    }
    return candidates[choose_store(count)];
}

static void
load_take(struct sched_sight *sight, struct store *store, memory_order order)
{
    uint32_t seat = sched_seat();
    if (store->seen[seat] == 0) {
        store->seen[seat] = sight_time(sight);
    }
    view_join(&sight->acquired, &store->sync);
    if (order_acquires(order)) {
        view_join(&sight->now, &store->sync);
    }
    if (order_acquires(order) && store->seat != seat) {
        /* A store is seen by all others at once (x86, Armv8): what this thread saw of another, all can see. */
        clock_join(sight->visible, store->sync.co);
    }
}

/* ---- stores ---- */

static void
store_put(struct location *location, struct sched_sight *sight, uint64_t value, memory_order order,
          const struct store *replaced)
{
    uint32_t seat = sched_seat();
    struct store *store = store_new(location, value & value_mask(location->bytes));
    store->seat = seat;
    store->time = store->seen[seat] = sight_time(sight);
    store->sync = order_releases(order) ? sight->now : sight->released;
    if (replaced != NULL) {
        view_join(&store->sync, &replaced->sync); /* a release sequence goes on through read-modify-writes only */
    }
    heap_write((void *)location->address, store->value, location->bytes);
    if (!heap_is_private((void *)location->address)) {
        heap_publish();
    }
}

/* ---- the operations of config/sync.h ---- */

/* True: simulate; false: the access is one of setup, check, or of a quiet word. */
static bool
access_begin(const void *p, uint32_t bytes)
{
    heap_check_access(p, bytes, HEAP_ATOMIC);
    if (!sched_running() || heap_is_quiet(p)) {
        return false;
    }
    if (!heap_is_private(p)) {
        sched_point();
        heap_check_access(p, bytes, HEAP_ATOMIC); /* others ran meanwhile */
    }
    return true;
}

static struct location *
location_access(const void *p, uint32_t bytes, const struct sched_sight *sight)
{
    struct location *location = location_of(p, bytes);
    location->accessed[sched_seat()] = sight_time(sight);
    return location;
}

uint64_t
sched_load(const void *p, uint32_t bytes, memory_order order, const char *at)
{
    if (!access_begin(p, bytes)) {
        return memory_read(p, bytes);
    }
    struct sched_sight *sight = sight_tick();
    struct location *location = location_access(p, bytes, sight);
    struct store *store = load_choose(location, sight, at);
    load_take(sight, store, order);
    sched_trace("%s [%p] = %#lx%s", at, p, (long)store->value, store == location->newest ? "" : "  (not the newest)");
    return store->value;
}

void
sched_store(void *p, uint32_t bytes, uint64_t value, memory_order order, const char *at)
{
    if (!access_begin(p, bytes)) {
        heap_write(p, value, bytes);
        return;
    }
    struct sched_sight *sight = sight_tick();
    store_put(location_access(p, bytes, sight), sight, value, order, NULL);
    sched_trace("%s [%p] := %#lx", at, p, (long)value);
}

static struct store *
newest_store(const struct location *location, const char *at)
{
    if (location->newest->uninitialised) {
        sched_fail("changes a word of a new block before the first store to it: %s", at);
    }
    return location->newest;
}

bool
sched_cas(void *p, void *expected, uint32_t bytes, uint64_t desired, memory_order order, const char *at)
{
    uint64_t wanted = memory_read(expected, bytes);
    if (!access_begin(p, bytes)) {
        uint64_t now = memory_read(p, bytes);
        heap_write(now == wanted ? p : expected, now == wanted ? desired : now, bytes);
        return now == wanted;
    }
    struct sched_sight *sight = sight_tick();
    struct location *location = location_access(p, bytes, sight);
    struct store *newest = newest_store(location, at);
    load_take(sight, newest, order); /* of a failure too: sync.h gives both the same acquire half */
    sched_trace("%s [%p] = %#lx, %s %#lx", at, p, (long)newest->value, newest->value == wanted ? "becomes" : "is not",
                (long)(newest->value == wanted ? desired : wanted));
    if (newest->value != wanted) {
        heap_write(expected, newest->value, bytes);
        return false;
    }
    store_put(location, sight, desired, order, newest);
    return true;
}

static uint64_t
fetch_result(enum sched_fetch_kind kind, uint64_t old, uint64_t operand)
{
    switch (kind) {
    case SCHED_ADD:
        return old + operand;
    case SCHED_SUB:
        return old - operand;
    case SCHED_OR:
        return old | operand;
    case SCHED_AND:
        return old & operand;
    case SCHED_EXCHANGE:
        break;
    }
    return operand;
}

uint64_t
sched_fetch(void *p, uint32_t bytes, enum sched_fetch_kind kind, uint64_t operand, memory_order order, const char *at)
{
    if (!access_begin(p, bytes)) {
        uint64_t now = memory_read(p, bytes);
        heap_write(p, fetch_result(kind, now, operand), bytes);
        return now;
    }
    struct sched_sight *sight = sight_tick();
    struct location *location = location_access(p, bytes, sight);
    struct store *newest = newest_store(location, at);
    load_take(sight, newest, order);
    store_put(location, sight, fetch_result(kind, newest->value, operand), order, newest);
    sched_trace("%s [%p] = %#lx, becomes %#lx", at, p, (long)newest->value, (long)location->newest->value);
    return newest->value;
}

void
sched_fence(memory_order order, const char *at)
{
    if (!sched_running()) {
        return;
    }
    if (order == memory_order_seq_cst) {
        sched_point();
    }
    struct sched_sight *sight = sight_tick();
    sched_trace("%s", at);
    if (order_acquires(order)) {
        view_join(&sight->now, &sight->acquired);
    }
    if (order == memory_order_seq_cst) {
        clock_join(sight->now.co, fence_order);
        clock_join(fence_order, sight->now.co);
        memcpy(sight->visible, sight->now.co, sizeof(sight->visible));
    }
    if (order_releases(order)) {
        sight->released = sight->now;
    }
}

uint64_t
sched_cycles(const char *at)
{
    cycles += CYCLES_STEP;
    if (!sched_running()) {
        return cycles;
    }
    sched_point();
    struct sched_sight *sight = sight_tick();
    clock_join(time_order, sight->visible);
    clock_join(sight->now.co, time_order);
    sched_trace("%s = %#lx", at, (long)cycles);
    return cycles;
}
