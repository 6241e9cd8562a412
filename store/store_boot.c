/* Opening, joining, and what the management core does: everything that may allocate or wait. */
#include "store/evict.h"
#include "store/rebuild.h"
#include "store/store.h"
#include "store/store_layout.h"
#include "store/sweep.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#define LEAVE_TURNS      20000
#define LEAVE_SLEEP_NS   50000
#define LIMBO_SOFT_BYTES (4 * MIB)
#define KEY_INDEX_BYTES  16  /* 64 bytes a bucket for 4 keys */
#define EPOCH_MS         100 /* a member that stands still is noticed although nothing is unlinked */
#define STATS_MS         10  /* between decisions what to sweep for */
#define MOVE_LINGER_MS   50  /* after the walk: limbo passes */
#define MOVE_MOST_MS     30000
#define MOVE_REST_MS     100 /* doubled with every futile round, up to */
#define MOVE_FUTILE_MOST 7u  /* 13 s */

static void *
pages_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* The store itself, its directory and limbo count against memory.limit too. */
static uint64_t
store_fixed_bytes(const struct store *store)
{
    return sizeof(*store) + store->index.fixed_bytes + store->member_count * LIMBO_BLOCKS * sizeof(uint64_t);
}

static uint64_t
store_limit_left(const struct store *store, uint64_t limit_bytes)
{
    uint64_t fixed_bytes = store_fixed_bytes(store);
    return limit_bytes > fixed_bytes ? limit_bytes - fixed_bytes : 0;
}

/* The whole store's limbo: what members may leave unfreed, in equal shares, before writers park. */
static void
store_share_limbo(struct store *store)
{
    struct memory_stats stats;
    memory_stats(store->memory, &stats);
    store_relaxed(&store->qsbr.soft_bytes, MAX(stats.limit_bytes / 16 / store->member_count, LIMBO_SOFT_BYTES));
}

int
store_open(const struct store_config *config, struct store **out)
{
    if (config->members == 0 || config->members > LIMIT_MEMBERS) {
        return -EINVAL;
    }
    struct store *store = pages_map(sizeof(*store));
    if (store == NULL) {
        return -ENOMEM;
    }
    store->member_count = config->members;
    store_relaxed(&store->stalled_member, -1);
    stamp_clock_init(&store->clock, config->trust_cycle_counter);
    qsbr_init(&store->qsbr, config->members);
    int rc = getrandom(store->secret, sizeof(store->secret), 0) == (ssize_t)sizeof(store->secret) ? 0 : -errno;
    if (rc == 0) {
        /* First tables take at most 1/16 of the limit, however many keys are expected: they grow. */
        uint64_t keys_most = config->memory.limit_bytes / 16 / KEY_INDEX_BYTES;
        rc = index_open(&store->index, config->memory.reserve_bytes, MIN(config->keys_expected, keys_most));
    }
    if (rc == 0) {
        struct memory_config memory = config->memory;
        memory.limit_bytes = store_limit_left(store, memory.limit_bytes);
        rc = memory_open(&memory, &store->memory);
    }
    if (rc != 0) {
        store_close(store);
        return rc;
    }
    store_share_limbo(store);
    *out = store;
    return 0;
}

void
store_close(struct store *store)
{
    for (uint32_t i = 0; i < store->member_count; i++) {
        if (store->members[i].limbo.entries != NULL) {
            munmap(store->members[i].limbo.entries, LIMBO_BLOCKS * sizeof(uint64_t));
        }
    }
    if (store->memory != NULL) {
        memory_close(store->memory);
    }
    index_close(&store->index);
    munmap(store, sizeof(*store));
}

struct store_member *
store_join(struct store *store, uint32_t index, const char *name)
{
    if (index >= store->member_count || store->members[index].joined) {
        return NULL;
    }
    struct store_member *member = &store->members[index];
    if (member->limbo.entries == NULL) { /* else this seat was left before: what it could not finish is ours now */
        member->limbo.entries = pages_map(LIMBO_BLOCKS * sizeof(uint64_t));
        if (member->limbo.entries == NULL) {
            return NULL;
        }
    }
    member->cache = memory_join(store->memory, index);
    if (member->cache == NULL) {
        return NULL;
    }
    member->store = store;
    member->seat = index;
    member->joined = true;
    member->limbo.qsbr = &store->qsbr;
    member->limbo.cache = member->cache;
    member->limbo.seat = index;
    member->evict.random = 0x9e3779b9u + index;
    snprintf(member->name, sizeof(member->name), "%s", name);
    store_online(member);
    return member;
}

/* Waits for the others' reports, within bounds: what is left after them is for whoever takes the seat next. */
void
store_leave(struct store_member *member)
{
    struct limbo *limbo = &member->limbo;
    for (uint32_t turn = 0; turn < LEAVE_TURNS && member->rebuild.state == REBUILD_MOVE; turn++) {
        rebuild_step(member);
        limbo_reclaim(limbo, LIMBO_BLOCKS);
        store_quiesce(member);
    }
    sweep_leave(member);
    store_offline(member);
    for (uint32_t turn = 0; turn < LEAVE_TURNS && limbo->head != limbo->tail; turn++) {
        qsbr_offline(limbo); /* seals what is open, when a batch is free */
        if (limbo_reclaim(limbo, LIMBO_BLOCKS) == 0) {
            nanosleep(&(struct timespec){ .tv_nsec = LEAVE_SLEEP_NS }, NULL);
        }
    }
    memory_leave(member->cache);
    member->joined = false;
}

bool
store_uses_cycles(const struct store *store)
{
    return store->clock.trusted;
}

void
store_set_published(struct store *store, store_published_fn published, void *context)
{
    store->published = published;
    store->published_context = context;
}

void
store_set_limit(struct store *store, uint64_t limit_bytes)
{
    memory_set_limit(store->memory, store_limit_left(store, limit_bytes));
    store_share_limbo(store);
}

const char *
store_member_name(const struct store *store, uint32_t index)
{
    return index < store->member_count ? store->members[index].name : "";
}

/* ---- for the management core ---- */

static void
member_add_stats(const struct store_member *member, uint64_t cut, struct store_stats *out)
{
    const struct member_counters *counters = &member->counters;
    if (load_acquire(&counters->cut) == cut) { /* pairs with member_count_key() */
        out->keys += load_relaxed(&counters->keys);
        out->keys_with_expiry += load_relaxed(&counters->keys_with_expiry);
    }
    out->hits += load_relaxed(&counters->hits);
    out->misses += load_relaxed(&counters->misses);
    out->record_bytes += load_relaxed(&counters->record_bytes);
    out->ghost_bytes += load_relaxed(&counters->ghost_bytes);
    out->index_bytes += load_relaxed(&counters->index_bytes);
    out->ghosts += load_relaxed(&counters->ghosts);
    out->limbo_bytes += load_relaxed(&member->limbo.bytes);
    out->expired_keys += load_relaxed(&counters->expired_keys);
    out->flushes += load_relaxed(&counters->flushes);
    out->update_retries += load_relaxed(&counters->update_retries);
    out->try_laters += load_relaxed(&counters->try_laters);
    out->oom_refusals += load_relaxed(&counters->oom_refusals);
    out->rebuilds += load_relaxed(&counters->rebuilds);
    out->evicted_keys += load_relaxed(&counters->evicted_keys);
    out->moved_records += load_relaxed(&counters->moved_records);
    out->chain_buckets_max = MAX(out->chain_buckets_max, load_relaxed(&counters->chain_buckets_max));
}

/* Members add and remove what others counted: a moment's sum may be a little below 0. */
static uint64_t
sum_or_zero(uint64_t sum)
{
    return (int64_t)sum < 0 ? 0 : sum;
}

void
store_stats(const struct store *store, struct store_stats *out)
{
    *out = (struct store_stats){ .index_bytes = store->index.fixed_bytes };
    uint64_t cut = cut_value(load_acquire(&store->cut.word));
    for (uint32_t i = 0; i < store->member_count; i++) {
        member_add_stats(&store->members[i], cut, out);
    }
    out->keys = sum_or_zero(out->keys);
    out->keys_with_expiry = sum_or_zero(out->keys_with_expiry);
    out->record_bytes = sum_or_zero(out->record_bytes);
    out->ghost_bytes = sum_or_zero(out->ghost_bytes);
    out->index_bytes = sum_or_zero(out->index_bytes);
    out->ghosts = sum_or_zero(out->ghosts);
    out->stalled_member = load_relaxed(&store->stalled_member);
    out->stalled_ms = load_relaxed(&store->stalled_ms);
    memory_stats(store->memory, &out->memory);
    out->fixed_bytes = store_fixed_bytes(store);
    out->memory.limit_bytes += out->fixed_bytes;
    out->overhead_bytes = out->fixed_bytes - store->index.fixed_bytes + out->memory.meta_bytes;
    uint64_t known =
        out->record_bytes + out->ghost_bytes + out->index_bytes - store->index.fixed_bytes + out->limbo_bytes;
    out->other_bytes = sum_or_zero(out->memory.used_bytes - known);
    out->total_bytes = out->memory.populated_bytes + out->memory.meta_bytes + out->fixed_bytes;
}

static uint64_t
monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Sparse pages are emptied in rounds: some are marked, members walk the index and move what lies in them, limbo passes,
 * what became free is taken. Pages with blocks that cannot be moved (sessions', and what members keep) are let go. */
static void
store_empty_pages(struct store *store, uint64_t now_ms)
{
    uint64_t rows = index_rows(&store->index), walked = load_relaxed(&store->sweep_next);
    if (!load_relaxed(&store->sweep_move)) {
        store->move_marked = now_ms < store->move_not_before_ms ? 0 : memory_empty_begin(store->memory);
        if (store->move_marked != 0) {
            store->move_since_ms = store->move_walked_ms = now_ms;
            store->move_until = walked + 2 * rows; /* what members have begun may lie behind them */
            store_relaxed(&store->sweep_move, true);
        }
        return;
    }
    uint32_t left = memory_empty_step(store->memory);
    store->move_walked_ms = walked < store->move_until ? now_ms : store->move_walked_ms;
    if (left != 0 && now_ms - store->move_walked_ms < MOVE_LINGER_MS && now_ms - store->move_since_ms < MOVE_MOST_MS) {
        return;
    }
    store_relaxed(&store->sweep_move, false);
    store->move_futile = left * 2 > store->move_marked ? MIN(store->move_futile + 1, MOVE_FUTILE_MOST) : 0;
    memory_empty_end(store->memory, store->move_futile != 0);
    store->move_not_before_ms = now_ms + (store->move_futile == 0 ? 0 : MOVE_REST_MS << store->move_futile);
}

void
store_set_policy(struct store *store, enum store_policy policy)
{
    store_relaxed(&store->evict.policy, (uint8_t)policy);
}

bool
store_manage(struct store *store)
{
    uint64_t now_ms = monotonic_ms();
    struct store_stats stats;
    bool evicts = load_relaxed(&store->evict.policy) != STORE_NOEVICTION;
    bool look = now_ms - store->stats_at_ms >= STATS_MS;
    if (evicts || look) {
        store_stats(store, &stats);
        evict_manage(store, &stats, now_ms);
    }
    memory_manage(store->memory);
    if (now_ms - store->epoch_at_ms >= EPOCH_MS) {
        store->epoch_at_ms = now_ms;
        (void)qsbr_advance(&store->qsbr);
    }
    uint64_t stalled_ms;
    int32_t stalled = qsbr_watch(&store->qsbr, now_ms, STORE_STALL_MS, &stalled_ms);
    store_relaxed(&store->stalled_member, stalled);
    store_relaxed(&store->stalled_ms, stalled_ms);
    if (look) {
        store->stats_at_ms = now_ms;
        sweep_manage(store, &stats, now_ms);
        store_empty_pages(store, now_ms);
    }
    return memory_moves(store->memory) || load_relaxed(&store->sweep_move);
}
