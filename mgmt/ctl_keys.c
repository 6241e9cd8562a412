/* ctl_keys.c - what takes time: the slow log of every lcore, and the keys that are asked for most. */
#include "config/cycles.h"
#include "dataplane/hot_keys.h"
#include "dataplane/slowlog.h"
#include "mgmt/big_keys.h"
#include "mgmt/ctl.h"

/* ---- slowlog ---- */

/* Bytes as text for people: what does not print is \xNN. */
static json_t *
text_json(const uint8_t *bytes, size_t count, size_t whole)
{
    char text[4 * HOT_KEYS_BYTES + 16];
    size_t used = 0;

    for (size_t i = 0; i < count && used + 8 < sizeof(text); i++) {
        bool plain = bytes[i] >= 0x20 && bytes[i] < 0x7f && bytes[i] != '\\';
        used += (size_t)snprintf(text + used, sizeof(text) - used, plain ? "%c" : "\\x%02x", bytes[i]);
    }
    if (whole > count) {
        snprintf(text + used, sizeof(text) - used, "...");
    }
    return json_string(text);
}
static_assert(SLOWLOG_ARG_BYTES <= HOT_KEYS_BYTES, "text_json() has room for both");

static json_t *
args_json(const struct slow_record *record)
{
    json_t *args = json_array();

    for (size_t at = 0; at + 1 <= record->text_bytes; at += 1 + (size_t)record->text[at]) {
        size_t bytes = MIN((size_t)record->text[at], record->text_bytes - at - 1);
        json_array_append_new(args, text_json(record->text + at + 1, bytes, bytes));
    }
    return args;
}

static json_t *
record_json(const struct slow_record *record, uint32_t lcore)
{
    const char *command = record->command < COMMAND_COUNT ? command_table[record->command].name : "";

    return json_pack("{s:I,s:i,s:I,s:s,s:i,s:f,s:f,s:I,s:i,s:o}", "unix_ms", (json_int_t)record->unix_ms, "lcore",
                     (int)lcore, "number", (json_int_t)record->number, "command", command, "neighbours",
                     (int)record->neighbours, "queue_us", (double)record->queue_ns / 1000, "service_us",
                     (double)record->service_ns / 1000, "session", (json_int_t)record->session_id, "args_count",
                     (int)record->args_count, "args", args_json(record));
}

static int
later_first(const void *left, const void *right)
{
    json_int_t a = json_integer_value(json_object_get(*(json_t *const *)left, "unix_ms"));
    json_int_t b = json_integer_value(json_object_get(*(json_t *const *)right, "unix_ms"));
    json_int_t c = json_integer_value(json_object_get(*(json_t *const *)left, "number"));
    json_int_t d = json_integer_value(json_object_get(*(json_t *const *)right, "number"));

    return a != b ? (a < b) - (a > b) : (c < d) - (c > d);
}

enum ctl_result
ctl_slowlog(struct ctl_request *request)
{
    const struct dataplane *dataplane = request->mgmt->dataplane;
    size_t count = 0, room = (size_t)dataplane->lcore_count * SLOWLOG_KEPT;
    uint64_t limit = 32, written = 0;

    if (!ctl_arg_uint(request, "limit", LIMIT_LCORES * SLOWLOG_KEPT, &limit)) {
        return CTL_DONE;
    }
    json_t **rows = calloc(room, sizeof(*rows)), *list = json_array();
    CHECK(rows != NULL);
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        const struct slowlog *log = dataplane->lcores[i]->slowlog;
        uint64_t newest = load_acquire(&log->count); /* pairs with the release in slowlog_write() */
        written += newest;
        for (uint64_t number = newest > SLOWLOG_KEPT ? newest - SLOWLOG_KEPT + 1 : 1; number <= newest; number++) {
            struct slow_record record;
            if (slowlog_read(log, number, &record)) {
                rows[count++] = record_json(&record, i);
            }
        }
    }
    qsort(rows, count, sizeof(*rows), later_first);
    for (size_t i = 0; i < count; i++) {
        if (i < limit) {
            json_array_append_new(list, rows[i]);
        } else {
            json_decref(rows[i]);
        }
    }
    free(rows);
    request->result =
        json_pack("{s:I,s:I,s:o}", "threshold_us", (json_int_t)request->mgmt->settings->slowlog_threshold_us, "written",
                  (json_int_t)written, "records", list);
    return CTL_DONE;
}

/* ---- keys hot ---- */

#define HOT_SECONDS_MOST 60
#define HOT_KEYS_MOST    512

/* A management client that waits for every lcore's sketch. */
struct hot_job {
    struct ctl_request request;
    uint64_t limit;
    uint32_t waiting;
    bool busy;
    uint64_t requests;
    struct hot_key *keys; /* of all lcores together */
    size_t key_count;
};

static int
by_hash(const void *left, const void *right)
{
    const struct hot_key *a = left, *b = right;
    return (a->hash > b->hash) - (a->hash < b->hash);
}

/* What several lcores counted of one key becomes one. */
static void
job_merge_keys(struct hot_job *job)
{
    size_t kept = 0;

    qsort(job->keys, job->key_count, sizeof(*job->keys), by_hash);
    for (size_t i = 0; i < job->key_count; i++) {
        if (kept > 0 && job->keys[kept - 1].hash == job->keys[i].hash) {
            job->keys[kept - 1].count += job->keys[i].count;
            job->keys[kept - 1].error += job->keys[i].error;
        } else {
            job->keys[kept++] = job->keys[i];
        }
    }
    job->key_count = kept;
}

static int
hotter_first(const void *left, const void *right)
{
    const struct hot_key *a = left, *b = right;
    return (a->count < b->count) - (a->count > b->count);
}

static void
job_answer(struct hot_job *job)
{
    struct mgmt *mgmt = job->request.mgmt;
    uint64_t client_id = job->request.client_id;
    struct text out = { 0 };
    json_t *rows = json_array();

    job_merge_keys(job);
    qsort(job->keys, job->key_count, sizeof(*job->keys), hotter_first);
    for (size_t i = 0; i < job->key_count && i < job->limit; i++) {
        const struct hot_key *key = &job->keys[i];
        json_array_append_new(
            rows, json_pack("{s:o,s:I,s:I,s:f}", "key",
                            text_json(key->key, MIN(key->key_bytes, (uint32_t)HOT_KEYS_BYTES), key->key_bytes), "count",
                            (json_int_t)key->count, "error", (json_int_t)key->error, "share",
                            (double)key->count / (double)job->requests));
    }
    if (job->busy) {
        json_decref(rows);
        ctl_fail(&job->request, "somebody else counts at this moment, try again");
    } else {
        job->request.result = json_pack("{s:I,s:o}", "requests", (json_int_t)job->requests, "keys", rows);
    }
    ctl_finish(&job->request, &out);
    free(job->keys);
    free(job);
    ctl_server_answer(&mgmt->ctl, client_id, out.bytes, out.used);
    text_fini(&out);
}

static void
hot_done(struct hot_keys *hot)
{
    struct hot_job *job = hot->asker;

    job->busy = job->busy || hot->busy;
    job->requests += hot->requests;
    for (uint32_t set = 0; set < HOT_KEYS_SETS; set++) {
        for (uint32_t way = 0; way < HOT_KEYS_WAYS; way++) {
            if (hot->keys[set][way].count > 0) {
                job->keys[job->key_count++] = hot->keys[set][way]; /* there is room for every lcore's */
            }
        }
    }
    free(hot);
    if (--job->waiting == 0) {
        job_answer(job);
    }
}

enum ctl_result
ctl_keys_hot(struct ctl_request *request)
{
    struct dataplane *dataplane = request->mgmt->dataplane;
    uint64_t seconds = 2, limit = 20;

    if (!ctl_arg_uint(request, "seconds", HOT_SECONDS_MOST, &seconds) ||
        !ctl_arg_uint(request, "limit", HOT_KEYS_MOST, &limit)) {
        return CTL_DONE;
    }
    if (!mgmt_serves(request->mgmt)) {
        return ctl_fail(request, "the appliance is %s", mgmt_state_text(request->mgmt));
    }
    struct hot_job *job = calloc(1, sizeof(*job));
    CHECK(job != NULL);
    job->request = *request;
    job->limit = limit;
    job->keys = calloc((size_t)dataplane->lcore_count * HOT_KEYS_SETS * HOT_KEYS_WAYS, sizeof(*job->keys));
    CHECK(job->keys != NULL);
    job->waiting = 1; /* this function, so that no answer ends the job too soon */
    for (uint32_t i = 0; i < dataplane->lcore_count; i++) {
        struct hot_keys *hot = calloc(1, sizeof(*hot));
        CHECK(hot != NULL);
        hot->lcore = i;
        hot->for_ms = (uint32_t)seconds * 1000;
        hot->asker = job;
        hot->done = hot_done;
        struct mail mail = { .kind = MAIL_HOT_KEYS, .p = hot };
        if (dataplane_post(dataplane, i, &mail)) {
            job->waiting++;
        } else {
            free(hot);
            job->busy = true;
        }
    }
    if (--job->waiting == 0) { /* no ring had room */
        free(job->keys);
        free(job);
        return ctl_fail(request, "the lcores do not answer");
    }
    return CTL_LATER;
}

/* ---- keys big ---- */

/* The walk at hand; one at a time, because it is the management core's own time. */
static struct big_job {
    bool walks;
    struct ctl_request request;
    struct big_keys walk;
    int64_t begun_ms;
} big;

static json_t *
big_key_json(const struct big_key *key, int64_t now_ms)
{
    json_t *ttl = key->expires_at_ms == RECORD_NO_EXPIRY
                      ? json_null()
                      : json_real((double)MAX(key->expires_at_ms - now_ms, 0) / 1000);

    return json_pack("{s:o,s:I,s:I,s:o}", "key",
                     text_json(key->key, MIN(key->key_bytes, (uint32_t)HOT_KEYS_BYTES), key->key_bytes), "bytes",
                     (json_int_t)key->bytes, "value_bytes", (json_int_t)key->value_bytes, "ttl_s", ttl);
}

static void
big_answer(int64_t now_ms)
{
    struct mgmt *mgmt = big.request.mgmt;
    uint64_t client_id = big.request.client_id;
    struct text out = { 0 };
    json_t *list = json_array();

    for (uint32_t i = 0; i < BIG_KEYS_TYPES; i++) {
        const struct big_keys_type *type = &big.walk.types[i];
        json_t *top = json_array();
        for (uint32_t at = 0; at < type->top_count; at++) {
            json_array_append_new(top, big_key_json(&type->top[at], now_ms));
        }
        json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:o}", "type", big_keys_type_text(i), "keys",
                                              (json_int_t)type->keys, "bytes", (json_int_t)type->bytes, "top", top));
    }
    big.request.result =
        json_pack("{s:f,s:o}", "seconds", (double)(loop_now_ms() - big.begun_ms) / 1000, "types", list);
    ctl_finish(&big.request, &out);
    big.walks = false;
    ctl_server_answer(&mgmt->ctl, client_id, out.bytes, out.used);
    text_fini(&out);
}

/* The management core's own place in the store, taken when it is first needed. */
static bool
join_store(struct mgmt *mgmt)
{
    if (mgmt->store_member == NULL) {
        mgmt->store_member =
            store_join(mgmt->dataplane->store, mgmt->dataplane->lcore_count + LIMIT_HELPERS, "management");
        if (mgmt->store_member != NULL) {
            store_offline(mgmt->store_member);
        }
    }
    return mgmt->store_member != NULL;
}

enum ctl_result
ctl_keys_big(struct ctl_request *request)
{
    uint64_t limit = 5;

    if (!ctl_arg_uint(request, "limit", BIG_KEYS_MOST, &limit)) {
        return CTL_DONE;
    }
    if (!mgmt_serves(request->mgmt)) {
        return ctl_fail(request, "the appliance is %s", mgmt_state_text(request->mgmt));
    }
    if (big.walks) {
        return ctl_fail(request, "somebody else walks over the keys at this moment, try again");
    }
    if (!join_store(request->mgmt)) {
        return ctl_fail(request, "no memory for a walk");
    }
    big.walks = true;
    big.request = *request;
    big.begun_ms = loop_now_ms();
    big_keys_begin(&big.walk, request->mgmt->store_member, (uint32_t)limit);
    return CTL_LATER;
}

bool
ctl_keys_walk(struct mgmt *mgmt)
{
    if (big.walks) {
        int64_t now_ms = clock_unix_ns(&mgmt->dataplane->clock, cycles_now()) / 1000000;
        if (big_keys_step(&big.walk, now_ms)) {
            big_answer(now_ms);
        }
    }
    return big.walks;
}
