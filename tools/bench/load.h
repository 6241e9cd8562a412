/* load.h - what a load consists of: requests encoded once, and where key digits and values are patched in. */
#pragma once
#include "tools/bench/scanner.h"
#include "tools/bench/zipf.h"
#include "tools/client/client.h"

#define LOAD_WORDS_MAX   16
#define LOAD_OPS_MAX     64
#define LOAD_PATCHES_MAX 8

/* Words may hold
 *   __key__       12 decimal digits of a key number in [0, keys); `key:__key__` has 16 bytes
 *   __score__     6 random decimal digits (on SBE, where a score is a number, they stay as they are)
 *   __small__     1 random decimal digit
 *   __data__      value_bytes random letters */
struct load_op {
    char name[24];
    const char *words[LOAD_WORDS_MAX];
    uint32_t word_count;
    enum expected_kind expected;
    uint32_t weight;      /* of a mix */
    uint32_t value_bytes; /* of __data__, and of the value that EXPECT_VALUE awaits */
};

/* By redis-benchmark's names, case ignored. NULL: unknown. `fill` is true for the operation that creates the objects
 * which `name` reads: NULL then also means that it needs none. */
const struct load_op *load_op_find(const char *name, bool fill);
/* "ping set get ..." for usage texts. */
void load_op_names(char *text, size_t text_bytes);

enum load_patch_kind { PATCH_KEY, PATCH_SCORE, PATCH_SMALL, PATCH_DATA, PATCH_KIND_COUNT };

struct load_patch {
    enum load_patch_kind kind;
    uint32_t offset, bytes;
};

/* One operation in its wire form. */
struct load_template {
    uint8_t *bytes;
    uint32_t count; /* bytes of it */
    uint32_t patch_count;
    struct load_patch patches[LOAD_PATCHES_MAX];
    bool only_key; /* one key number of at most 8 digits is all that changes */
};

/* Encode on the wire of `client`. False with a sentence in `why`. */
bool load_template_make(struct load_template *template, const struct load_op *op, struct client *client, char *why,
                        size_t why_bytes);
void load_template_fini(struct load_template *template);

/* The order in which a mix sends its operations: spread by weight, at most SCANNER_SCHEDULE_MAX entries. */
uint32_t load_schedule(const struct load_op *ops, uint32_t op_count, uint8_t schedule[SCANNER_SCHEDULE_MAX]);

/* ---- a load ---- */

struct load_plan {
    const struct load_op *ops; /* at most LOAD_OPS_MAX */
    uint32_t op_count;
    uint64_t keys;           /* key numbers are below this, at most LOAD_KEYS_MAX */
    const struct zipf *zipf; /* of as many keys; NULL: all keys are alike */
    bool in_order;           /* key numbers 0, 1, 2 ... instead of random ones: to create objects */
    uint64_t seed;
};

#define LOAD_KEYS_MAX   ZIPF_KEYS_MAX
#define LOAD_POOL_BYTES 65536

/* What all connections share. Read-only while they run. */
struct load {
    struct load_plan plan;
    struct load_template templates[LOAD_OPS_MAX];
    uint8_t schedule[SCANNER_SCHEDULE_MAX];
    uint32_t schedule_count;
    bool wide;                            /* key numbers may have more than 8 digits that are not 0 */
    uint8_t letters[2 * LOAD_POOL_BYTES]; /* to copy values from */
};

/* Encode for the wire of `client`. NULL with a sentence in `why`. */
struct load *load_open(const struct load_plan *plan, struct client *client, char *why, size_t why_bytes);
void load_close(struct load *load); /* NULL is accepted */

/* What one connection draws from. */
struct load_state {
    struct load_random random;
    uint64_t key; /* in order: the next one */
};

/* Patch one request of operation `op` in place. Values longer than the pool keep their letters. */
void load_patch(const struct load *load, struct load_state *state, uint32_t op, uint8_t *request);

/* Exactly 12 decimal digits. */
void load_digits(uint8_t out[12], uint64_t number);
