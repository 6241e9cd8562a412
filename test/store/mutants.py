#!/usr/bin/env python3
"""Plant one bug at a time in a copy of the store: a test of the store must find each of them. What a race would meet by
luck only is planted under the scheduler (test/sched/plants.py).

Each test runs as it is first. A bug is found when the test fails with it and passes without it; a test that does not
end in time tells nothing.

usage: mutants.py [NAME...]     run from anywhere; all by default, some minutes
"""
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import planted

RACE_S = 6  # of each try; three tries with different seeds before a mutant counts as not found
SEEDS = ("1", "2", "3")
TRY_MOST_S = 60
FLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -g -pthread -w -DMEMORY_FILLED -include test/store/perturb.h -I.".split()
HELPERS = [f"test/store/{name}.c" for name in ("audit", "perturb", "linear", "linear_keys", "refuse_memory")]
LINK = [*(f"-Wl,--wrap=memory_take{how}" for how in ("", "_larger", "_move", "_reserve")), "-pthread", "-lcunit", "-lm"]


@dataclasses.dataclass
class Mutant:
    name: str
    file: str
    before: str
    after: str
    test: str


MUTANTS = [
    Mutant("cut-read-before-the-stamp", "store.c",
           "    change->stamp = stamp_take(&store->clock, member->seat, MAX(above, change->cut));\n"
           "    change->cut = cut_read_after(&store->cut, change->stamp);",
           "    uint64_t early = load_acquire(&store->cut.word);\n"
           "    change->stamp = stamp_take(&store->clock, member->seat, MAX(above, change->cut));\n"
           "    change->cut = early;", "race_flush"),
    Mutant("cut-without-pending", "cut.c",
           "!cas_acq_rel(&cut->word, &word, pending)",
           "!cas_acq_rel(&cut->word, &word, stamp_clock_read(clock) | STAMP_MEMBER_MASK)", "race_flush"),
    Mutant("stamp-below-the-cut-goes-on", "store.c",
           "if (UNLIKELY(change->stamp <= change->cut))",
           "if (UNLIKELY(cut_is_pending(change->cut)))", "race_flush"),
    Mutant("limbo-does-not-wait", "qsbr.c",
           "if (load_acquire(&limbo->qsbr->safe) < batch->epoch) {", "if (false) {", "race_store"),
    Mutant("online-without-a-word", "qsbr.c",
           "    store_relaxed(&limbo->qsbr->seats[limbo->seat].seen, limbo->reported);\n", "", "race_store"),
    Mutant("null-link-not-frozen", "rebuild.c",
           "while (link == 0 && !cas_acq_rel(&bucket->link, &link, LINK_FROZEN)) {", "while (false) {", "race_store"),
    Mutant("empty-slot-not-frozen", "rebuild.c",
           "while ((word & SLOT_FROZEN) == 0 && slot_kind(word) != SLOT_TOMB) {",
           "while ((word & SLOT_FROZEN) == 0 && slot_kind(word) != SLOT_TOMB && slot_kind(word) != SLOT_EMPTY) {",
           "race_store"),
    Mutant("frozen-slot-written", "store.c", "if (UNLIKELY((place->word & SLOT_FROZEN) != 0)) {", "if (false) {",
           "race_store"),
    Mutant("forwarding-not-followed", "index.h", "while (UNLIKELY((link & LINK_FORWARDED) != 0)) {",
           "while (false) {", "race_store"),
    Mutant("help-without-a-second-look", "rebuild.c",
           "    if (load_acquire(&index->directory[segment]) != table) {\n        return REBUILD_DONE;\n    }\n    assert",
           "    assert", "race_store"),
    Mutant("bucket-leaked", "rebuild.c", "                index_blocks_retire(member, bucket, 1);\n", "", "race_store"),
    Mutant("publish-without-cas", "store.c", "!cas_acq_rel(place->slot, &expected, word)",
           "(store_release(place->slot, word), expected = 0, false)", "race_store"),
    Mutant("update-lost", "store.c", "!cas_acq_rel(place->slot, &expected, word)",
           "(store_release(place->slot, word), expected = 0, false)", "race_linear"),
    Mutant("move-without-cas", "sweep.c", "    if (!cas_acq_rel(slot, &word, there)) {",
           "    store_release(slot, there);\n    if (false) {", "race_linear"),
    Mutant("ghost-leaked", "store.c", "    if (place->slot != NULL && slot_has_key(place->word)) {\n        change_retire",
           "    if (place->slot != NULL && slot_is_record(place->word)) {\n        change_retire", "race_store"),
    Mutant("change-not-published", "store.c", "    member_published(member, change->key, change->stamp, fresh);\n", "",
           "race_published"),
    Mutant("removal-not-published", "store.c", "    member_published(member, change->key, change->stamp, NULL);\n", "",
           "race_published"),
    Mutant("flush-not-published", "store.c", "    member_published(member, (struct slice){ NULL, 0 }, cut, NULL);\n", "",
           "race_published"),
    Mutant("eviction-not-published", "sweep.c", "        member_published(member, record_key(record), stamp, NULL);\n", "",
           "race_published"),
    Mutant("stamp-not-above-the-old", "store.c",
           "stamp_take(&store->clock, member->seat, MAX(above, change->cut));",
           "stamp_take(&store->clock, member->seat, change->cut);", "test_stamp"),
    Mutant("scan-does-not-follow", "scan.c", "while (UNLIKELY((link & LINK_FORWARDED) != 0)) {", "while (false) {",
           "race_scan"),
    Mutant("scan-order-of-buckets", "scan.c", "return table_bucket(table, place_reverse(place));",
           "return table_bucket(table, place);", "race_scan"),
    Mutant("scan-reads-the-link-last", "scan.c",
           "        bucket = link_bucket(link);\n        if (ended", "        bucket = link_bucket(load_acquire(&bucket->link));\n        if (ended",
           "race_scan"),
    Mutant("moved-and-given-at-once", "sweep.c",
           "    limbo_retire(&member->limbo, (void *)(uintptr_t)record, bytes);",
           "    memory_give_home(member->cache, (void *)(uintptr_t)record, bytes);", "test_sweep"),
    Mutant("evicted-and-given-at-once", "sweep.c",
           "    member_retire_record(member, record);\n    return counted ? SWEEP_REMOVED : SWEEP_FLUSHED;",
           "    counter_move(&member->counters.record_bytes, -(int64_t)memory_class_bytes(record_bytes(record)));\n"
           "    memory_give(member->cache, (void *)(uintptr_t)record, record_bytes(record));\n"
           "    return counted ? SWEEP_REMOVED : SWEEP_FLUSHED;", "test_sweep"),
    Mutant("larger-block-given-by-its-size", "memory_home.c",
           "load_relaxed(&memory->larger_blocks) == 0 ? asked : block_class(memory, block)", "asked", "race_memory"),
    Mutant("held-span-released-twice", "memory_empty_boot.c",
           "    memory->held[page] = 0;\n    memory->page_held[page] = false;\n}\n\n/* ---- emptied",
           "}\n\n/* ---- emptied", "race_memory"),
    Mutant("table-in-a-page-that-is-emptied", "index.c",
           "if (LIKELY(!memory_is_emptying(member->store->memory, first))) {", "if (true) {", "test_index"),
]


@dataclasses.dataclass
class Try:
    seconds: float
    ended: bool
    said: str  # empty: it passed


def try_once(program: pathlib.Path, seed: str) -> Try:
    arguments = [str(RACE_S), "3", seed] if program.name.startswith("race_") else []
    began = time.monotonic()
    try:
        run = subprocess.run([program, *arguments], capture_output=True, text=True, errors="replace",
                             timeout=TRY_MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return Try(TRY_MOST_S, False, f"no end after {TRY_MOST_S} s")
    said = ""
    if run.returncode != 0:
        lines = [line for line in (run.stderr + run.stdout).splitlines() if program.name in line]
        last = run.stderr.strip().rpartition("\n")[2]
        said = (lines[0].strip() if lines else f"exit {run.returncode}: {last}")[:120]
    return Try(time.monotonic() - began, True, said)


def found(mutant: Mutant, program: pathlib.Path, control: Try) -> tuple[bool, str]:
    """Whether, and what was seen."""
    if control.said:
        return False, f"cannot be told: {mutant.test} as it is: {control.said}"
    seen = "passes"
    for seed in SEEDS if mutant.test.startswith("race_") else SEEDS[:1]:
        tried = try_once(program, seed)
        if tried.said:
            seen = tried.said
        if tried.ended and tried.said:
            return True, seen
    return False, seen


class Tree(planted.Tree):
    """The store perturbed (perturb.h), and its tests."""

    def __init__(self, tree: pathlib.Path, tests: list[str]):
        store = [f"store/{path.name}" for path in sorted((planted.ROOT / "store").glob("*.c"))]
        self.shared = store + HELPERS
        sources = self.shared + [f"test/store/{test}.c" for test in tests]
        super().__init__(tree, ["store", "config", "test/store"], {source: FLAGS for source in sources})

    def link_test(self, test: str) -> pathlib.Path:
        return self.link(test, [*self.shared, f"test/store/{test}.c"], *LINK)


def main() -> int:
    wanted = sys.argv[1:] or [mutant.name for mutant in MUTANTS]
    unknown = set(wanted) - {mutant.name for mutant in MUTANTS}
    if unknown:
        sys.exit(f"mutants: no such mutant: {', '.join(sorted(unknown))}")
    mutants = [mutant for mutant in MUTANTS if mutant.name in wanted]
    tests = sorted({mutant.test for mutant in mutants})
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        tree = Tree(pathlib.Path(directory), tests)
        controls = {test: try_once(tree.link_test(test), SEEDS[0]) for test in tests}
        for test, control in controls.items():
            print(f"{test} as it is: {control.said or 'passes'}, {control.seconds:.1f} s", flush=True)
        for mutant in mutants:
            tree.plant(mutant.name, f"store/{mutant.file}", [(mutant.before, mutant.after)])
            is_found, seen = found(mutant, tree.link_test(mutant.test), controls[mutant.test])
            print(f"{mutant.name}: {'' if is_found else 'NOT FOUND: '}{seen}", flush=True)
            missed += not is_found
    print(f"{missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
