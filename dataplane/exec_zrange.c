/* exec_zrange.c - ZRANGE: by rank, by score, by member bytes; forwards and backwards. */
#include "codec/number.h"
#include "dataplane/exec_common.h"
#include "store/packed_zset.h"

enum zrange_by { ZRANGE_BY_RANK, ZRANGE_BY_SCORE, ZRANGE_BY_LEX };

/* One end of a range. */
struct zrange_bound {
    int64_t rank;
    double score;
    struct slice member;
    int infinite; /* members: -1 before all, 1 after all */
    bool is_exclusive;
};

struct zrange {
    enum zrange_by by;
    bool is_reverse, with_scores;
    int64_t offset, limit; /* limit below 0: all */
    struct zrange_bound low, high;
};

/* False: the error is answered. The order of checks is Redis': options, their conflicts, the bounds, the key. */
static bool
options_read(struct exec *exec, struct zrange *range)
{
    uint32_t count = exec->request->args_count;
    bool is_by_given = false;
    *range = (struct zrange){ .limit = -1 };
    for (uint32_t i = 3; i < count; i++) {
        if (exec_arg_is(exec, i, "withscores")) {
            range->with_scores = true;
        } else if (exec_arg_is(exec, i, "limit") && count - i > 2) {
            if (!exec_take_int64(exec, i + 1, &range->offset) || !exec_take_int64(exec, i + 2, &range->limit)) {
                return false;
            }
            i += 2;
        } else if (exec_arg_is(exec, i, "rev") && !range->is_reverse) {
            range->is_reverse = true;
        } else if (exec_arg_is(exec, i, "bylex") && !is_by_given) {
            range->by = ZRANGE_BY_LEX;
            is_by_given = true;
        } else if (exec_arg_is(exec, i, "byscore") && !is_by_given) {
            range->by = ZRANGE_BY_SCORE;
            is_by_given = true;
        } else {
            reply_error(exec->reply, ERROR_SYNTAX);
            return false;
        }
    }
    if (range->limit != -1 && range->by == ZRANGE_BY_RANK) {
        reply_error(exec->reply,
                    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
        return false;
    }
    if (range->with_scores && range->by == ZRANGE_BY_LEX) {
        reply_error(exec->reply, "ERR syntax error, WITHSCORES not supported in combination with BYLEX");
        return false;
    }
    return true;
}

/* "1.5", "(1.5", "-inf"; typed wires send the number itself. */
static bool
score_read(const struct arg *arg, struct zrange_bound *bound)
{
    if (arg->kind == ARG_BYTES && arg->bytes.bytes > 0 && arg->bytes.data[0] == '(') {
        bound->is_exclusive = true;
        return number_parse_double(slice_of(arg->bytes.data + 1, arg->bytes.bytes - 1), &bound->score);
    }
    return arg_double(arg, &bound->score) && bound->score == bound->score;
}

/* "[member", "(member", "-", "+". */
static bool
member_read(const struct arg *arg, struct zrange_bound *bound)
{
    if (arg->kind != ARG_BYTES || arg->bytes.bytes == 0) {
        return false;
    }
    uint8_t first = arg->bytes.data[0];
    bound->member = slice_of(arg->bytes.data + 1, arg->bytes.bytes - 1);
    bound->is_exclusive = first == '(';
    if (first == '-' || first == '+') {
        bound->infinite = first == '-' ? -1 : 1;
        return bound->member.bytes == 0;
    }
    return first == '(' || first == '[';
}

/* False: the error is answered. */
static bool
bounds_read(struct exec *exec, struct zrange *range)
{
    /* backwards, the higher end of scores and members comes first; ranks are counted from the end instead */
    bool is_swapped = range->is_reverse && range->by != ZRANGE_BY_RANK;
    uint32_t low = is_swapped ? 2 : 1, high = is_swapped ? 1 : 2;
    const struct arg *args = exec->request->args;
    if (range->by == ZRANGE_BY_RANK) {
        return exec_take_int64(exec, low, &range->low.rank) && exec_take_int64(exec, high, &range->high.rank);
    }
    if (range->by == ZRANGE_BY_SCORE) {
        if (score_read(&args[low], &range->low) && score_read(&args[high], &range->high)) {
            return true;
        }
        reply_error(exec->reply, "ERR min or max is not a float");
        return false;
    }
    if (member_read(&args[low], &range->low) && member_read(&args[high], &range->high)) {
        return true;
    }
    reply_error(exec->reply, "ERR min or max not valid string range item");
    return false;
}

/* The run of ranks that a range selects; when backwards, of ranks counted from the end. */
struct run {
    int64_t from, count;
};

static struct run
run_of_ranks(const struct zrange *range, int64_t count)
{
    int64_t first = range->low.rank, last = range->high.rank;
    first = first < 0 ? MAX(first + count, 0) : first;
    last = last < 0 ? last + count : MIN(last, count - 1);
    return (struct run){ .from = first, .count = first > last ? 0 : last - first + 1 };
}

static uint32_t
bound_of_member(const struct packed *zset, const struct zrange_bound *bound, bool above)
{
    if (bound->infinite != 0) {
        return bound->infinite < 0 ? 0 : zset->count;
    }
    return packed_zset_member_bound(zset, 0, bound->member, above);
}

static struct run
run_of_bounds(const struct zrange *range, const struct packed *zset)
{
    uint32_t from, end;
    if (range->by == ZRANGE_BY_SCORE) {
        from = packed_zset_score_bound(zset, 0, range->low.score, range->low.is_exclusive);
        end = packed_zset_score_bound(zset, 0, range->high.score, !range->high.is_exclusive);
    } else {
        from = bound_of_member(zset, &range->low, range->low.is_exclusive);
        end = bound_of_member(zset, &range->high, !range->high.is_exclusive);
    }
    int64_t count = end > from ? end - from : 0;
    struct run run = { .from = range->is_reverse ? (int64_t)zset->count - end : from, .count = count };
    if (range->offset < 0 || range->offset >= count) {
        run.count = 0;
        return run;
    }
    run.from += range->offset;
    run.count -= range->offset;
    if (range->limit >= 0) {
        run.count = MIN(run.count, range->limit);
    }
    return run;
}

static void
answer(struct exec *exec, const struct zrange *range, const struct packed *zset, struct run run)
{
    struct reply *reply = exec->reply;
    bool is_nested = range->with_scores && reply->wire != WIRE_RESP2; /* RESP2 has pairs side by side */
    reply_array(reply, (uint32_t)(range->with_scores && !is_nested ? 2 * run.count : run.count));
    for (int64_t i = run.from; i < run.from + run.count; i++) {
        uint32_t rank = (uint32_t)(range->is_reverse ? zset->count - 1 - i : i);
        if (is_nested) {
            reply_array(reply, 2);
        }
        reply_bulk(reply, packed_zset_member(zset, rank));
        if (range->with_scores) {
            reply_double(reply, packed_zset_score(zset, rank));
        }
    }
}

enum exec_result
exec_zrange(struct exec *exec)
{
    struct zrange range;
    const struct record *record;
    if (!options_read(exec, &range) || !bounds_read(exec, &range) || !exec_find(exec, RECORD_ZSET, &record)) {
        return EXEC_DONE;
    }
    struct packed zset = packed_zset_open(record != NULL ? record_value(record) : slice_of(NULL, 0));
    struct run run = range.by == ZRANGE_BY_RANK ? run_of_ranks(&range, zset.count) : run_of_bounds(&range, &zset);
    answer(exec, &range, &zset, run);
    return EXEC_DONE;
}
