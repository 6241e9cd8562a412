/* fuzz_resp_reply.c - any bytes as RESP replies: nothing outside is read, pieces give what the whole gives, the tree
 * holds together, and sluice-bench's scanner counts what the client's decoder reads.
 *
 * The first byte says how many bytes come at a time. */
#include "tools/bench/scanner.h"
#include "tools/client/resp_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The reply at the front of `wire`, `step` bytes at a time, each time at another place in memory. */
static enum resp_reply_status
decode(struct slice wire, size_t step, struct value_list *list, size_t *taken, uint8_t **copy)
{
    struct resp_reply_state state = { 0 };
    list->count = 0;
    *copy = NULL;
    for (size_t have = MIN(step, wire.bytes);; have = MIN(have + step, wire.bytes)) {
        free(*copy);
        *copy = malloc(have + 1); /* the byte more makes room for none at all */
        CHECK(*copy != NULL);
        memcpy(*copy, wire.data, have);
        enum resp_reply_status status = resp_reply_decode(&state, slice_of(*copy, have), list, taken);
        if (status == RESP_REPLY_SHORT) {
            CHECK(state.wanted > have || have == 0);
        }
        if (status != RESP_REPLY_SHORT || have == wire.bytes) {
            CHECK(status == RESP_REPLY_OK || status == RESP_REPLY_SHORT || state.why != NULL);
            return status;
        }
    }
}

/* Aggregates hold exactly what they announce. */
static void
tree_check(const struct value_list *list)
{
    uint64_t sum = 0;
    CHECK(list->count > 0 && list->values[0].after == list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct value *value = &list->values[i];
        CHECK(value->after > i && value->after <= list->count);
        uint32_t child = i + 1;
        for (uint32_t j = 0; value_is_aggregate(value) && j < value->count; j++) {
            CHECK(child < value->after);
            child = list->values[child].after;
        }
        CHECK(child == value->after);
        for (size_t at = 0; value->bytes.data != NULL && at < value->bytes.bytes; at++) {
            sum += value->bytes.data[at]; /* ASan looks */
        }
    }
    CHECK(sum < UINT64_MAX);
}

static void
same_values(const struct value_list *a, const struct value_list *b)
{
    CHECK(a->count == b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        const struct value *left = &a->values[i], *right = &b->values[i];
        CHECK(left->kind == right->kind && left->count == right->count && left->after == right->after);
        CHECK(value_is_aggregate(left) || left->kind == VALUE_NIL || slice_equal(left->bytes, right->bytes));
    }
}

/* What the decoder reads, the scanner counts. */
static void
scanner_check(struct slice wire, uint64_t replies, size_t reply_bytes)
{
    struct scanner scanner;
    scanner_init(&scanner, CLIENT_RESP2, 4);
    scanner_expect(&scanner, EXPECT_ANY);
    size_t taken = scanner_scan(&scanner, slice_of(wire.data, reply_bytes));
    CHECK(taken == reply_bytes && scanner.replies == replies);
    scanner_scan(&scanner, wire);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    size_t step = data[0] % 16 + 1, at = 0;
    struct slice wire = slice_of(data + 1, bytes - 1);
    struct value_list whole = { 0 }, pieces = { 0 };
    uint64_t replies = 0;
    for (;;) {
        uint8_t *whole_copy, *pieces_copy;
        size_t whole_taken = 0, pieces_taken = 0;
        struct slice rest = slice_of(wire.data + at, wire.bytes - at);
        enum resp_reply_status status = decode(rest, rest.bytes, &whole, &whole_taken, &whole_copy);
        CHECK(decode(rest, step, &pieces, &pieces_taken, &pieces_copy) == status);
        if (status == RESP_REPLY_OK) {
            CHECK(whole_taken > 0 && whole_taken == pieces_taken && whole_taken <= rest.bytes);
            tree_check(&whole);
            same_values(&whole, &pieces);
            replies++;
            at += whole_taken;
        }
        free(whole_copy);
        free(pieces_copy);
        if (status != RESP_REPLY_OK) {
            break;
        }
    }
    scanner_check(wire, replies, at);
    value_list_fini(&whole);
    value_list_fini(&pieces);
    return 0;
}
