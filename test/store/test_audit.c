#include "store/memory_poison.h"
#include "store_fixture.h"
#include <CUnit/Basic.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* The audit must find each damage of a sound store, and builds that poison must find a use of free memory. */

static struct store *store;
static struct store_member *member;
static char texts[3][24]; /* keys of one segment, which has one bucket */
static struct slice keys[3];

static void
open_store(void)
{
    store = fixture_open(1, 64 * MIB, 0);
    member = fixture_join(store, 0);
    uint32_t found = 0, segment = 0;
    for (uint32_t n = 0; found < 3; n++) {
        snprintf(texts[found], sizeof(texts[found]), "key:%u", n);
        uint32_t of = index_segment_of(&store->index, store_hash(store, slice_text(texts[found])));
        segment = found == 0 ? of : segment;
        if (of == segment) {
            keys[found] = slice_text(texts[found]);
            found++;
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(fixture_set_until(member, keys[i], keys[i], i == 2 ? 2000000 : RECORD_NO_EXPIRY), STORE_OK);
    }
}

static void
close_store(void)
{
    store_leave(member);
    store_close(store);
}

/* Its complaints are expected here. */
static bool
passes(uint64_t other_bytes)
{
    fflush(stderr);
    int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    CHECK(kept >= 0 && nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
    bool good = audit_passes(member, other_bytes);
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    close(nowhere);
    return good;
}

static _Atomic uint64_t *
slot_of(uint32_t key)
{
    struct index_place place;
    index_look(&store->index, keys[key], store_hash(store, keys[key]), &place);
    CHECK(place.slot != NULL && slot_has_key(place.word));
    return place.slot;
}

/* ---- damages: each is undone afterwards, so that the store can be closed ---- */

enum damage_kind { DAMAGE_DUPLICATE, DAMAGE_MISPLACED, DAMAGE_MISLABELLED, DAMAGE_UNFINISHED, DAMAGE_COUNT };

static const struct damage {
    const char *name;
    enum damage_kind kind;
    uint32_t slot; /* from the first key's on */
    uint64_t change;
} damages[] = {
    { "a frozen slot is left", DAMAGE_UNFINISHED, 0, SLOT_FROZEN },
    { "a slot under construction is left", DAMAGE_UNFINISHED, 3, SLOT_INIT },
    { "a record has another's tag", DAMAGE_MISLABELLED, 1, 1ull << INDEX_TAG_SHIFT },
    { "a record that expires is not marked", DAMAGE_MISLABELLED, 2, SLOT_TTL ^ SLOT_RECORD },
    { "a record is taken for a ghost", DAMAGE_MISLABELLED, 0, SLOT_RECORD ^ SLOT_GHOST },
    { "a slot behind an EMPTY one is used", DAMAGE_MISPLACED, 5, SLOT_TOMB },
};

static uint64_t
found_of(enum damage_kind kind)
{
    struct audit audit = audit_store(store);
    const uint64_t found[DAMAGE_COUNT] = {
        [DAMAGE_DUPLICATE] = audit.duplicates,
        [DAMAGE_MISPLACED] = audit.misplaced,
        [DAMAGE_MISLABELLED] = audit.mislabelled,
        [DAMAGE_UNFINISHED] = audit.unfinished,
    };
    return found[kind];
}

static void
a_damaged_word_is_found(void)
{
    open_store();
    CU_ASSERT_TRUE(passes(0));
    for (uint32_t i = 0; i < ARRAY_COUNT(damages); i++) {
        _Atomic uint64_t *slot = slot_of(0) + damages[i].slot;
        uint64_t before = load_relaxed(slot);
        store_relaxed(slot, before ^ damages[i].change);
        if (found_of(damages[i].kind) == 0 || passes(0)) {
            printf("\n  not found: %s\n", damages[i].name);
            CU_FAIL("a damage was not found");
        }
        store_relaxed(slot, before);
    }
    CU_ASSERT_TRUE(passes(0));
    close_store();
}

static void
a_key_that_is_there_twice_is_found(void)
{
    open_store();
    store_relaxed(slot_of(0) + 3, load_relaxed(slot_of(1)));
    CU_ASSERT_EQUAL(found_of(DAMAGE_DUPLICATE), 1);
    CU_ASSERT_FALSE(passes(0));
    store_relaxed(slot_of(0) + 3, 0);
    CU_ASSERT_TRUE(passes(0));
    close_store();
}

static void
a_key_in_a_wrong_segment_is_found(void)
{
    open_store();
    uint32_t here = index_segment_of(&store->index, store_hash(store, keys[0])), there = here ^ INDEX_ROW_SEGMENTS;
    uint64_t table = load_relaxed(&store->index.directory[here]);
    store_relaxed(&store->index.directory[here], 0);
    store_relaxed(&store->index.directory[there], table);
    CU_ASSERT(found_of(DAMAGE_MISPLACED) >= 3);
    CU_ASSERT(found_of(DAMAGE_UNFINISHED) >= 2); /* the rows' counts say otherwise */
    store_relaxed(&store->index.directory[there], 0);
    store_relaxed(&store->index.directory[here], table);
    CU_ASSERT_TRUE(passes(0));
    close_store();
}

static void
books_that_are_one_off_are_found(void)
{
    open_store();
    _Atomic uint64_t *const books[] = {
        &member->counters.keys,         &member->counters.keys_with_expiry, &member->counters.ghosts,
        &member->counters.record_bytes, &member->counters.ghost_bytes,      &member->counters.index_bytes,
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(books); i++) {
        store_relaxed(books[i], load_relaxed(books[i]) + 1);
        CU_ASSERT_FALSE(passes(0));
        store_relaxed(books[i], load_relaxed(books[i]) - 1);
    }
    void *lost = memory_take(store_memory(member), 100);
    CU_ASSERT_PTR_NOT_NULL(lost);
    CU_ASSERT_FALSE(passes(0));
    CU_ASSERT_TRUE(passes(memory_class_bytes(100)));
    memory_give(store_memory(member), lost, 100);
    CU_ASSERT_TRUE(passes(0));
    close_store();
}

/* ---- poison ---- */

static int
status_of_child(void (*run)(uint8_t *block), uint8_t *block)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        (void)dup2(nowhere, STDERR_FILENO);
        run(block);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void
write_and_take_again(uint8_t *block)
{
    block[20] = 1;
    for (uint32_t i = 0; i < 1000; i++) {
        (void)memory_take(store_memory(member), 100);
    }
}

static void
only_take_again(uint8_t *block)
{
    for (uint32_t i = 0; i < 1000; i++) {
        (void)memory_take(store_memory(member), 100);
    }
}

static void
free_memory_that_is_written_is_found_in_builds_that_poison(void)
{
    open_store();
    uint8_t *block = memory_take(store_memory(member), 100);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    memset(block, 7, 100);
    CU_ASSERT_FALSE(memory_is_free(block));
    memory_give(store_memory(member), block, 100);
    CU_ASSERT_EQUAL(status_of_child(only_take_again, block), 0);
    CU_ASSERT_EQUAL(status_of_child(write_and_take_again, block) != 0, MEMORY_POISONS);
    close_store();
}

int
main(void)
{
    CU_initialize_registry();
    CU_pSuite suite = CU_add_suite("audit", NULL, NULL);
    CU_ADD_TEST(suite, a_damaged_word_is_found);
    CU_ADD_TEST(suite, a_key_that_is_there_twice_is_found);
    CU_ADD_TEST(suite, a_key_in_a_wrong_segment_is_found);
    CU_ADD_TEST(suite, books_that_are_one_off_are_found);
    CU_ADD_TEST(suite, free_memory_that_is_written_is_found_in_builds_that_poison);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    return CU_get_number_of_failures() != 0;
}
