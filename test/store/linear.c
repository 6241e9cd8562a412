#include "test/store/linear.h"

/* Operations taken, and the state that this led to. */
struct configuration {
    uint64_t round; /* of linear_check(): older ones are empty places */
    uint64_t taken;
    uint8_t state[LINEAR_STATE_BYTES];
};

struct linear {
    uint64_t round;
    uint32_t places, used; /* a power of two; of this round */
    struct configuration *memory;
};

/* One linear_check(). */
struct search {
    struct linear *linear;
    const struct linear_specification *specification;
    const struct linear_operation *operations;
    uint32_t count;
    uint32_t now[LINEAR_OPERATIONS]; /* the order under trial */
    uint32_t *order, *explained;
    bool full;
};

struct linear *
linear_open(uint32_t configurations)
{
    struct linear *linear = calloc(1, sizeof(*linear));
    CHECK(linear != NULL);
    for (linear->places = 2; linear->places < 2 * configurations; linear->places *= 2) {
    }
    linear->memory = calloc(linear->places, sizeof(linear->memory[0]));
    CHECK(linear->memory != NULL);
    return linear;
}

void
linear_close(struct linear *linear)
{
    free(linear->memory);
    free(linear);
}

static uint64_t
configuration_hash(uint64_t taken, const uint8_t *state)
{
    uint64_t hash = taken;
    for (uint32_t at = 0; at < LINEAR_STATE_BYTES; at += sizeof(hash)) {
        uint64_t word;
        memcpy(&word, state + at, sizeof(word));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

/* False: it was met before, or there is no room to remember it. */
static bool
configuration_is_new(struct search *search, uint64_t taken, const uint8_t *state)
{
    struct linear *linear = search->linear;
    uint32_t mask = linear->places - 1;
    for (uint32_t at = (uint32_t)configuration_hash(taken, state) & mask;; at = (at + 1) & mask) {
        struct configuration *place = &linear->memory[at];
        if (place->round != linear->round) {
            if (linear->used == linear->places / 2) {
                search->full = true;
                return false;
            }
            linear->used++;
            place->round = linear->round;
            place->taken = taken;
            memcpy(place->state, state, LINEAR_STATE_BYTES);
            return true;
        }
        if (place->taken == taken && memcmp(place->state, state, LINEAR_STATE_BYTES) == 0) {
            return false;
        }
    }
}

/* None that is left may have ended before the next one began. */
static uint64_t
earliest_end(const struct search *search, uint64_t taken)
{
    uint64_t earliest = UINT64_MAX;
    for (uint32_t i = 0; i < search->count; i++) {
        if ((taken >> i & 1) == 0) {
            earliest = MIN(earliest, search->operations[i].end);
        }
    }
    return earliest;
}

static bool
search_on(struct search *search, uint64_t taken, uint32_t depth, const uint8_t *state)
{
    if (depth > *search->explained || depth == search->count) {
        *search->explained = depth;
        memcpy(search->order, search->now, depth * sizeof(search->now[0]));
    }
    if (depth == search->count) {
        return true;
    }
    if (!configuration_is_new(search, taken, state)) {
        return false;
    }
    uint64_t earliest = earliest_end(search, taken);
    for (uint32_t i = 0; i < search->count; i++) {
        if ((taken >> i & 1) != 0 || search->operations[i].begin > earliest) {
            continue;
        }
        uint8_t next[LINEAR_STATE_BYTES];
        memcpy(next, state, sizeof(next));
        search->now[depth] = i;
        if (search->specification->step(search->operations[i].what, next) &&
            search_on(search, taken | 1ull << i, depth + 1, next)) {
            return true;
        }
    }
    return false;
}

enum linear_verdict
linear_check(struct linear *linear, const struct linear_specification *specification, const void *initial,
             const struct linear_operation *operations, uint32_t count, uint32_t *order, uint32_t *explained)
{
    CHECK(count <= LINEAR_OPERATIONS && specification->state_bytes <= LINEAR_STATE_BYTES);
    struct search search = {
        .linear = linear,
        .specification = specification,
        .operations = operations,
        .count = count,
        .order = order,
        .explained = explained,
    };
    uint8_t state[LINEAR_STATE_BYTES] = { 0 };
    memcpy(state, initial, specification->state_bytes);
    linear->round++;
    linear->used = 0;
    *explained = 0;
    if (search_on(&search, 0, 0, state)) {
        return LINEAR_YES;
    }
    return search.full ? LINEAR_UNDECIDED : LINEAR_NO;
}
