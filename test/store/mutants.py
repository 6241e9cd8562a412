#!/usr/bin/env python3
"""Plant one bug at a time in a copy of the store: a race test must find each of them.

usage: mutants.py [NAME...]     run from anywhere; all by default, some minutes
"""
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 6  # of each try; three tries with different seeds before a mutant counts as not found
FLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -g -pthread -w -DMEMORY_FILLED -include test/store/perturb.h -I.".split()
HELPERS = [f"test/store/{name}.c" for name in ("audit", "perturb", "linear", "linear_keys", "refuse_memory")]
LINK = [*(f"-Wl,--wrap=memory_take{how}" for how in ("", "_move", "_reserve")), "-lm", "-o", "race"]


@dataclasses.dataclass
class Mutant:
    name: str
    file: str
    before: str
    after: str
    race: str


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
    Mutant("copy-without-cas", "rebuild.c",
           "    uint64_t init = SLOT_INIT;\n"
           "    (void)cas_acq_rel(&target->bucket->slots[target->slot], &init, word & ~SLOT_FROZEN);",
           "    uint64_t init = load_acquire(&target->bucket->slots[target->slot]);\n"
           "    if (init == SLOT_INIT)\n"
           "        store_release(&target->bucket->slots[target->slot], word & ~SLOT_FROZEN);", "race_store"),
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
           "stamp_take(&store->clock, member->seat, MAX(above, change->cut));", "stamp_take(&store->clock, member->seat, change->cut) - 4096;",
           "race_published"),
    Mutant("scan-does-not-follow", "scan.c", "while (UNLIKELY((link & LINK_FORWARDED) != 0)) {", "while (false) {",
           "race_scan"),
    Mutant("scan-order-of-buckets", "scan.c", "return table_bucket(table, place_reverse(place));",
           "return table_bucket(table, place);", "race_scan"),
    Mutant("scan-reads-the-link-last", "scan.c",
           "        bucket = link_bucket(link);\n        if (ended", "        bucket = link_bucket(load_acquire(&bucket->link));\n        if (ended",
           "race_scan"),
    Mutant("page-class-not-checked", "memory.c", "!span_in_class(word, class_index) || ", "", "race_memory"),
    Mutant("count-before-the-bit", "memory.c",
           "    while (!cas_acq_rel(&page->free[index / 64], &bits, bits | 1ull << index % 64)) {\n    }\n", "",
           "race_memory"),
    Mutant("stack-without-a-tag", "memory_layout.h", "(((head >> 32) + 1) << 32) | next;", "((head >> 32) << 32) | next;",
           "race_memory"),
    Mutant("page-not-listed-again", "memory.c",
           "            return; /* the next to give a block lists it again */\n        }\n    }\n"
           "    memory_stack_push(&class->stack, index);",
           "            return;\n        }\n    }", "race_memory"),
    Mutant("move-without-cas", "sweep.c",
           "    if (!cas_acq_rel(slot, &word, there)) {\n        memory_give(member->cache, copy, bytes);\n        return;\n    }\n",
           "    store_release(slot, there);\n", "race_evict"),
    Mutant("moved-and-given-at-once", "sweep.c",
           "    limbo_retire(&member->limbo, (void *)(uintptr_t)record, bytes);",
           "    memory_give_home(member->cache, (void *)(uintptr_t)record, bytes);", "race_evict"),
    Mutant("evicted-and-given-at-once", "sweep.c",
           "    member_retire_record(member, record);\n    return counted ? SWEEP_REMOVED : SWEEP_FLUSHED;",
           "    counter_move(&member->counters.record_bytes, -(int64_t)memory_class_bytes(record_bytes(record)));\n"
           "    memory_give(member->cache, (void *)(uintptr_t)record, record_bytes(record));\n"
           "    return counted ? SWEEP_REMOVED : SWEEP_FLUSHED;", "race_evict"),
    Mutant("held-span-released-twice", "memory_empty_boot.c",
           "    memory->held[page] = 0;\n    memory->page_held[page] = false;\n}\n\n/* ---- emptied",
           "}\n\n/* ---- emptied", "race_memory"),
]


def plant(mutant: Mutant, tree: pathlib.Path) -> None:
    for part in ("store", "config", "test/store"):
        shutil.copytree(ROOT / part, tree / part)
    path = tree / "store" / mutant.file
    text = path.read_text()
    if text.count(mutant.before) != 1:
        sys.exit(f"mutants: {mutant.name}: its text is {text.count(mutant.before)} times in {mutant.file}, expected once")
    path.write_text(text.replace(mutant.before, mutant.after))


def build(mutant: Mutant, tree: pathlib.Path) -> None:
    sources = [f"store/{path.name}" for path in sorted((tree / "store").glob("*.c"))]
    command = ["gcc", *FLAGS, *sources, *HELPERS, f"test/store/{mutant.race}.c", *LINK]
    subprocess.run(command, cwd=tree, check=True)


def found(mutant: Mutant, tree: pathlib.Path) -> str:
    for seed in ("1", "2", "3"):
        try:
            run = subprocess.run(["./race", str(SECONDS), "3", seed], cwd=tree, capture_output=True, text=True,
                                 timeout=SECONDS * 5, check=False)
        except subprocess.TimeoutExpired:
            return "it hangs"
        if run.returncode != 0:
            lines = [line for line in run.stderr.splitlines() if "race_" in line]
            return lines[0][-90:] if lines else f"exit {run.returncode}"
    return ""


def main() -> int:
    wanted = sys.argv[1:]
    missed = []
    for mutant in MUTANTS:
        if wanted and mutant.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as directory:
            tree = pathlib.Path(directory)
            plant(mutant, tree)
            build(mutant, tree)
            how = found(mutant, tree)
        print(f"{mutant.name}: {how or 'NOT FOUND'}", flush=True)
        if not how:
            missed.append(mutant.name)
    print(f"{len(missed)} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
