#include "test/sched/scene_store.h"
#include "store/evict.h"
#include "store/rebuild.h"
#include "store/scan.h"
#include "store/store_layout.h"
#include "store/sweep.h"
#include "test/sched/scene_calls.h"
#include "test/store/audit.h"
#include "test/store/linear_keys.h"

#define KEYS               26      /* a .. z */
#define SCENE_MS           1000000 /* the time of all threads */
#define CONFIGURATIONS     4096
#define SETTLE_TURNS       40
#define REBUILD_STEPS      8 /* more than a small segment needs */
#define SWEEP_BUCKETS_ONCE 3 /* of the two that the segment may have */
#define VIEW_TRIES         100
#define RECLAIMS           4 /* every fourth looks at all seats */

enum call_kind {
    CALL_GET,
    CALL_SET,
    CALL_ADD,
    CALL_DEL,
    CALL_INCR,
    CALL_EXPIRING,
    CALL_MGET,
    CALL_FLUSH,
    CALL_COMMANDS, /* kinds below are commands */
    CALL_TURN = CALL_COMMANDS,
    CALL_NAP,
    CALL_SEAL,
    CALL_RECLAIM,
    CALL_REBUILD,
    CALL_SWEEP,
    CALL_MOVE,
    CALL_SCAN,
    CALL_EVICT,
    CALL_KINDS,
};

static const char *const call_words[CALL_KINDS] = { "get",     "set",   "add",  "del",  "incr", "expiring",
                                                    "mget",    "flush", "turn", "nap",  "seal", "reclaim",
                                                    "rebuild", "sweep", "move", "scan", "evict" };
static const enum keys_kind command_kinds[CALL_COMMANDS] = { KEYS_GET,  KEYS_SET, KEYS_SETNX, KEYS_DEL,
                                                             KEYS_INCR, KEYS_SET, KEYS_MGET,  KEYS_FLUSH };

static struct {
    const struct scene_plan *plan;
    struct sched_scene scene;
    struct store *store;
    struct store_member *members[SCHED_THREADS_MAX];
    struct scene_calls before, threads[SCHED_THREADS_MAX];
    char key_texts[KEYS][16];
    struct slice keys[KEYS];
    uint32_t segment;
    bool moves;
    /* keys, a bit each: */
    uint32_t spared;                 /* no thread removes them */
    uint32_t staying;                /* are there from before the threads to their end */
    uint32_t set[SCHED_THREADS_MAX]; /* by each thread so far */
    struct linear *linear;
    struct keys_state initial;
    struct keys_operation history[SCHED_THREADS_MAX * SCENE_CALLS];
    uint32_t history_count;
} scene;

/* ---- commands ---- */

static struct keys_value
value_of(const struct record *record)
{
    struct keys_value value = { 0 };
    if (record != NULL) {
        int64_t until_ms = record_expires_at_ms(record);
        memcpy(&value.number, record_value(record).data, sizeof(value.number));
        value.present = 1;
        value.until_ms = until_ms == RECORD_NO_EXPIRY ? KEYS_NEVER : until_ms;
    }
    return value;
}

struct command {
    struct keys_operation operation;
    uint32_t key; /* of all: the operation's is one that is judged */
};

static enum store_change
command_change(void *context, struct store_member *member, const struct record *old, struct record **fresh)
{
    struct command *command = context;
    struct keys_value found = value_of(old), value;
    command->operation.found[command->operation.key] = found;
    if (!keys_change(&command->operation, &found, &value)) {
        return STORE_KEEP;
    }
    if (!value.present) {
        return STORE_REMOVE;
    }
    if (*fresh == NULL) {
        int64_t until_ms = value.until_ms == KEYS_NEVER ? RECORD_NO_EXPIRY : value.until_ms;
        *fresh = store_record(member, RECORD_STRING, scene.keys[command->key], sizeof(value.number), until_ms);
        if (*fresh == NULL) {
            return STORE_NO_MEMORY;
        }
    }
    memcpy(record_value_room(*fresh), &value.number, sizeof(value.number));
    return STORE_PUBLISH;
}

/* As MGET does: two equal collects are one moment. */
static bool
command_mget(struct store_member *member, struct keys_operation *operation)
{
    uint64_t versions[KEYS_MAX] = { 0 };
    for (uint32_t try = 0; try < VIEW_TRIES; try++) {
        bool same = try > 0;
        for (uint32_t i = 0; i < KEYS_MAX; i++) {
            struct store_view view = store_view(member, scene.keys[i], store_hash(scene.store, scene.keys[i]));
            same = same && view.version == versions[i];
            versions[i] = view.version;
            operation->found[i] = value_of(view.record);
        }
        if (same) {
            return true;
        }
    }
    return false;
}

/* False: it did not happen. */
static bool
command_run(struct store_member *member, struct command *command)
{
    struct keys_operation *operation = &command->operation;
    struct slice key = scene.keys[command->key];
    uint64_t hash = store_hash(scene.store, key);
    switch (operation->kind) {
    case KEYS_GET:
        operation->found[operation->key] = value_of(store_find(member, key, hash));
        return true;
    case KEYS_MGET:
        return command_mget(member, operation);
    case KEYS_FLUSH:
        return store_flush(member) == STORE_OK;
    default:
        return store_update(member, key, hash, command_change, command) == STORE_OK;
    }
}

static void
command_call(struct store_member *member, const struct scene_call *call, uint64_t argument)
{
    struct command command = { .key = call->letter };
    command.operation = (struct keys_operation){
        .kind = command_kinds[call->word],
        .member = member->seat,
        .key = call->letter % KEYS_MAX,
        .argument = argument,
        .until_ms = call->word == CALL_EXPIRING ? SCENE_MS - 1 : KEYS_NEVER,
        .now_ms = member->now_ms,
        .latest_ms = member->now_ms,
    };
    command.operation.begin = sched_moment();
    if (scene.plan->mode != LOOSE) {
        fence_seq_cst(); /* a request comes after what its client was told */
    }
    bool happened = command_run(member, &command);
    if (scene.plan->mode != LOOSE) {
        fence_seq_cst(); /* before the reply */
    }
    command.operation.end = sched_moment();
    SCHED_EXPECT(happened, "%s of key %c is refused", call_words[call->word], 'a' + (int)call->letter);
    scene.set[member->seat] |= call->word == CALL_SET ? 1u << call->letter : 0;
    if (sched_running() && call->letter < KEYS_MAX) {
        scene.history[scene.history_count++] = command.operation;
    }
}

/* ---- the rest of a turn ---- */

static void
call_reclaim(struct store_member *member)
{
    for (uint32_t i = 0; i < RECLAIMS; i++) {
        (void)limbo_reclaim(&member->limbo, LIMBO_BLOCKS);
    }
}

static void
call_rebuild(struct store_member *member)
{
    struct member_rebuild *rebuild = &member->rebuild;
    rebuild_wish(member, scene.segment);
    for (uint32_t i = 0;
         i < REBUILD_STEPS && (rebuild->state != REBUILD_IDLE || rebuild->wish_head != rebuild->wish_tail); i++) {
        rebuild_step(member);
    }
}

static void
call_sweep(struct store_member *member, bool move)
{
    store_relaxed(&scene.store->sweep_move, move);
    store_relaxed(&scene.store->sweep_expired, true);
    store_relaxed(&scene.store->sweep_ghosts, true);
    member->sweep.budget_ms = member->now_ms;
    member->sweep.budget = SWEEP_BUCKETS_ONCE;
    sweep_step(member);
    store_relaxed(&scene.store->sweep_expired, false);
    store_relaxed(&scene.store->sweep_ghosts, false);
    store_relaxed(&scene.store->sweep_move, false);
}

/* A bit for each key met. */
static uint32_t
records_keys(const struct record **records, uint32_t count)
{
    uint32_t met = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t key = 0; key < KEYS; key++) {
            met |= (uint32_t)slice_equal(record_key(records[i]), scene.keys[key]) << key;
        }
    }
    return met;
}

static void
call_scan(struct store_member *member)
{
    const struct record *records[SCAN_ROOM_LEAST];
    struct scan_step step = { .next = (uint64_t)(scene.segment - 1) << SCAN_PLACE_BITS }; /* the row before is empty */
    uint32_t met = 0, staying = scene.staying | (scene.set[member->seat] & scene.spared);
    do {
        step = scan_next(member, step.next, records, SCAN_ROOM_LEAST);
        met |= records_keys(records, step.count);
        store_quiesce(member);
    } while (step.next != 0);
    SCHED_EXPECT((staying & ~met) == 0, "a scan met keys %#x, those that stayed are %#x", met, staying);
}

static void
call_run(struct store_member *member, const struct scene_call *call, uint64_t argument)
{
    sched_trace("%s %c", call_words[call->word], 'a' + (int)call->letter);
    switch ((enum call_kind)call->word) {
    case CALL_TURN:
        store_quiesce(member);
        store_housekeep(member);
        break;
    case CALL_NAP:
        store_offline(member);
        store_online(member);
        break;
    case CALL_SEAL:
        member->limbo.turns = LIMBO_SEAL_TURNS;
        store_quiesce(member);
        break;
    case CALL_RECLAIM:
        call_reclaim(member);
        break;
    case CALL_REBUILD:
        call_rebuild(member);
        break;
    case CALL_SWEEP:
    case CALL_MOVE:
        call_sweep(member, call->word == CALL_MOVE);
        break;
    case CALL_SCAN:
        call_scan(member);
        break;
    case CALL_EVICT:
        store_relaxed(&scene.store->evict.policy, STORE_ALLKEYS_RANDOM);
        store_relaxed(&scene.store->evict.wanted, 1);
        evict_step(member);
        break;
    default:
        command_call(member, call, argument);
    }
}

static void
calls_run(struct store_member *member, const struct scene_calls *calls, uint64_t arguments_from)
{
    for (uint32_t i = 0; i < calls->count; i++) {
        call_run(member, &calls->calls[i], arguments_from + i);
    }
}

static struct scene_calls
calls_parse(const char *text)
{
    return scene_calls_parse(text, call_words, CALL_KINDS);
}

static bool
calls_have(const struct scene_calls *calls, enum call_kind kind)
{
    for (uint32_t i = 0; i < calls->count; i++) {
        if (calls->calls[i].word == kind) {
            return true;
        }
    }
    return false;
}

/* What of `keys` is still there when the calls are done; those that they add are not counted. */
static uint32_t
calls_spare(const struct scene_calls *calls, uint32_t keys)
{
    for (uint32_t i = 0; i < calls->count; i++) {
        enum call_kind kind = (enum call_kind)calls->calls[i].word;
        keys = kind == CALL_FLUSH || kind == CALL_EVICT ? 0 : keys;
        keys &= kind == CALL_DEL || kind == CALL_EXPIRING ? ~(1u << calls->calls[i].letter) : ~0u;
    }
    return keys;
}

static uint32_t
calls_leave(const struct scene_calls *calls)
{
    uint32_t keys = 0;
    for (uint32_t i = 0; i < calls->count; i++) {
        keys |= calls->calls[i].word == CALL_SET ? 1u << calls->calls[i].letter : 0;
        keys = calls_spare(&(struct scene_calls){ { calls->calls[i] }, 1 }, keys);
    }
    return keys;
}

/* ---- the scene ---- */

/* Keys of one segment, the first of the index's second row: a walk comes to it from another row. */
static void
choose_keys(void)
{
    uint32_t found = 0;
    CHECK(index_rows(&scene.store->index) > 1);
    scene.segment = INDEX_ROW_SEGMENTS;
    for (uint32_t i = 0; found < KEYS; i++) {
        snprintf(scene.key_texts[found], sizeof(scene.key_texts[0]), "key %u", i);
        struct slice key = slice_text(scene.key_texts[found]);
        if (index_segment_of(&scene.store->index, store_hash(scene.store, key)) == scene.segment) {
            scene.keys[found++] = key;
        }
    }
}

static void
set_time(int64_t now_ms)
{
    for (uint32_t i = 0; i < scene.scene.thread_count; i++) {
        store_set_time(scene.members[i], now_ms);
    }
}

static void
scene_setup(void)
{
    struct store_config config = {
        .memory = { .reserve_bytes = 16 * MIB, .limit_bytes = 16 * MIB, .ahead_bytes = 8 * MIB }, /* two rows */
        .members = scene.scene.thread_count,
        .trust_cycle_counter = scene.plan->mode == CYCLES,
    };
    CHECK(store_open(&config, &scene.store) == 0);
    sched_quiet(&scene.store->sweep_expired, sizeof(scene.store->sweep_expired));
    sched_quiet(&scene.store->sweep_ghosts, sizeof(scene.store->sweep_ghosts));
    sched_quiet(&scene.store->sweep_tables, sizeof(scene.store->sweep_tables));
    sched_quiet(&scene.store->sweep_move, sizeof(scene.store->sweep_move));
    for (uint32_t i = 0; i < scene.scene.thread_count; i++) {
        scene.members[i] = store_join(scene.store, i, "scene");
        CHECK(scene.members[i] != NULL);
        sched_quiet(&scene.members[i]->counters, sizeof(scene.members[i]->counters));
        sched_quiet(&scene.members[i]->limbo.bytes, sizeof(scene.members[i]->limbo.bytes));
    }
    choose_keys();
    set_time(SCENE_MS - 10);
    calls_run(scene.members[0], &scene.before, 1);
    for (uint32_t key = 0; key < KEYS_MAX; key++) {
        uint64_t hash = store_hash(scene.store, scene.keys[key]);
        scene.initial.keys[key] = value_of(store_find(scene.members[0], scene.keys[key], hash));
    }
    set_time(SCENE_MS);
    if (scene.moves) {
        (void)memory_empty_begin(scene.store->memory);
    }
}

static void
scene_begin(void)
{
    scene.history_count = 0;
    memset(scene.set, 0, sizeof(scene.set));
}

static void
scene_thread(uint32_t index)
{
    calls_run(scene.members[index], &scene.threads[index], (index + 1) * 100);
}

/* What is not done yet, or NULL. */
static const char *
left_over(void)
{
    for (uint32_t i = 0; i < scene.scene.thread_count; i++) {
        const struct store_member *member = scene.members[i];
        if (member->limbo.head != member->limbo.tail) {
            return "a block that was unlinked is not given back";
        }
        if (member->rebuild.state != REBUILD_IDLE || member->rebuild.wish_head != member->rebuild.wish_tail) {
            return "a member does not end its rebuild";
        }
        if (member->sweep.flush) {
            return "a member does not end its sweep for a flush";
        }
    }
    if (load_relaxed(&scene.store->flush_epoch) != 0) {
        return "a flush does not begin to be swept";
    }
    return load_relaxed(&scene.store->index.segments[scene.segment].next) != 0 ? "a rebuild does not end" : NULL;
}

static void
scene_check(void)
{
    if (scene.plan->mode != LOOSE) {
        enum linear_verdict verdict =
            keys_check(scene.linear, &scene.initial, scene.history, scene.history_count, stdout);
        SCHED_EXPECT(verdict != LINEAR_NO, "no order explains the history");
    }
    struct scene_calls settling = calls_parse("nap, turn, reclaim");
    for (uint32_t turn = 0; turn < SETTLE_TURNS && left_over() != NULL; turn++) {
        for (uint32_t i = 0; i < scene.scene.thread_count; i++) {
            calls_run(scene.members[i], &settling, 0);
        }
    }
    const char *left = left_over();
    SCHED_EXPECT(left == NULL, "%s", left);
    struct audit audit = audit_store(scene.store);
    SCHED_EXPECT(audit.duplicates == 0, "a key is in the index twice");
    SCHED_EXPECT(audit.misplaced == 0, "a key is in a wrong place, or a slot is used behind an EMPTY one");
    SCHED_EXPECT(audit.mislabelled == 0, "a slot is not of its record's kind");
    SCHED_EXPECT(audit.flushed == 0, "a flushed record that nobody swept");
    SCHED_EXPECT(audit.unfinished == 0, "a word of a rebuild that did not end");
    SCHED_EXPECT(audit.bytes == sched_lent_bytes(), "%zu bytes are lent, %zu are in the index", sched_lent_bytes(),
                 (size_t)audit.bytes);
    SCHED_EXPECT(audit.records == store_keys(scene.store), "the count of keys is wrong");
}

const struct sched_scene *
scene_of_plan(const struct scene_plan *plan)
{
    uint32_t threads = 0;
    while (threads < SCHED_THREADS_MAX && plan->threads[threads] != NULL) {
        scene.threads[threads] = calls_parse(plan->threads[threads]);
        threads++;
    }
    scene.before = calls_parse(plan->before);
    scene.spared = ~0u;
    scene.moves = false;
    for (uint32_t i = 0; i < threads; i++) {
        scene.moves = scene.moves || calls_have(&scene.threads[i], CALL_MOVE);
        scene.spared = calls_spare(&scene.threads[i], scene.spared);
    }
    scene.staying = calls_leave(&scene.before) & scene.spared;
    if (scene.linear == NULL) {
        scene.linear = linear_open(CONFIGURATIONS);
    }
    scene.plan = plan;
    scene.scene = (struct sched_scene){
        .name = plan->name,
        .thread_count = threads,
        .setup = scene_setup,
        .begin = scene_begin,
        .thread = scene_thread,
        .check = scene_check,
        .preemptions = plan->preemptions,
        .stale_loads = plan->stale_loads,
    };
    return &scene.scene;
}
