#!/usr/bin/env python3
"""Plant one bug at a time in a copy of the sources: the deterministic scheduler must find each, and find it again by
the number that it printed.

usage: plants.py [NAME...]     run from anywhere; all by default
"""
import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import planted

FLAGS = "-std=gnu11 -D_GNU_SOURCE -O1 -w -I.".split()
SEEN = ["-DSYNC_SCHED", "-fsanitize=thread", "-ffunction-sections"]  # what is under test
MACHINE = "aarch64" if os.uname().machine == "aarch64" else "x86_64"
SEARCH = ["-n", "4000", "-x", "30000"]


@dataclasses.dataclass
class Plant:
    name: str
    file: str
    edits: list[tuple[str, str]]  # text that is in the file once, and what takes its place
    scenes: str = ""  # of the program; all when empty


# A reader that takes the table from the directory, and does not ask whether its bucket has moved.
OLD_TABLE = ("    index_look(&member->store->index, key, hash, &place);\n    if (slot_is_record(place.word)) {\n", """
    const struct index *index = &member->store->index;
    index_look(index, key, hash, &place);
    struct index_bucket *old = link_bucket(load_acquire(&index->directory[index_segment_of(index, hash)]));
    for (uint32_t i = 0; old != NULL && i < INDEX_BUCKET_SLOTS; i++) {
        uint64_t word = load_acquire(&old->slots[i]);
        place.word = slot_is_record(word) && key_equal(slot_record(word), key) ? word : place.word;
    }
    if (slot_is_record(place.word)) {
""")
FENCE = "    fence_seq_cst();"
PLANTS = [
    # what an acquire is for
    Plant("slot-load-relaxed", "store/index.h",
          [("word = load_acquire(&bucket->slots[i]); /* pairs with the CAS that published the record */",
            "word = load_relaxed(&bucket->slots[i]);")], "insert-insert overwrite-loose"),
    Plant("directory-relaxed", "store/index.h",
          [("load_acquire(&index->directory[index_segment_of(index, hash)]);\n    place->table",
            "load_relaxed(&index->directory[index_segment_of(index, hash)]);\n    place->table")], "first-table"),
    Plant("forwarded-mark-relaxed", "store/index.h",
          [("load_acquire(&bucket->link); /* pairs with the CAS in rebuild_forward()",
            "load_relaxed(&bucket->link); /*")], "rebuild-read rebuild-loose"),
    Plant("chain-link-relaxed", "store/index.h",
          [("load_acquire(&bucket->link); /* pairs with the CAS in change_append() and rebuild_next() */",
            "load_relaxed(&bucket->link);")], "chain-append-long"),
    Plant("mail-tail-relaxed", "dataplane/mail.c", [("load_acquire(&ring->tail)", "load_relaxed(&ring->tail)")]),
    Plant("mail-head-relaxed", "dataplane/mail.c", [("load_acquire(&ring->head)", "load_relaxed(&ring->head)")]),
    Plant("mail-post-relaxed", "dataplane/mail.c", [("store_release(&ring->tail", "store_relaxed(&ring->tail")]),
    # what a fence is for; qsbr_advance() and qsbr_scan() have one each, and one of them is enough
    Plant("retire-without-fence", "store/qsbr.c",
          [(f"{FENCE}\n    return add_acq_rel", "    return add_acq_rel"),
           (f"{FENCE}                              /* partner", "    /*")], "retire-sealed"),
    Plant("online-without-fence", "store/qsbr.c", [(f"unlinked before its fence */\n{FENCE}", "*/")], "retire-read"),
    Plant("wake-without-fence", "dataplane/wake.c", [(f"{FENCE}\n    if (UNLIKELY", "    if (UNLIKELY")]),
    Plant("sleep-without-fence", "dataplane/wake.c", [(f"{FENCE} /* pairs with the fence in mail_wake()", "    /*")]),
    Plant("cut-without-fence", "store/cut.c", [(f"{FENCE}\n        for", "        for")], "flush-incr-cycles"),
    Plant("absent-without-fence", "store/index.h",
          [("#define index_absent_fence() fence_acquire()", "#define index_absent_fence() ((void)0)")],
          "mget-ghost-sweep"),
    # reclamation
    Plant("limbo-does-not-wait", "store/qsbr.c",
          [("if (load_acquire(&limbo->qsbr->safe) < batch->epoch) {", "if (false) {")], "retire-read"),
    Plant("report-relaxed", "store/qsbr.c",
          [("store_release(&limbo->qsbr->seats[limbo->seat].seen, epoch);",
            "store_relaxed(&limbo->qsbr->seats[limbo->seat].seen, epoch);")], "retire-quiesce"),
    Plant("report-read-relaxed", "store/qsbr.c",
          [("load_acquire(&qsbr->seats[i].seen)", "load_relaxed(&qsbr->seats[i].seen)")], "retire-quiesce"),
    Plant("online-without-a-word", "store/qsbr.c",
          [("    store_relaxed(&limbo->qsbr->seats[limbo->seat].seen, limbo->reported);\n", "")], "retire-read"),
    # the index
    Plant("hole-reused", "store/sweep.c",
          [("if (!cas_acq_rel(slot, &word, slot_of_tomb(stamp))) {", "if (!cas_acq_rel(slot, &word, SLOT_EMPTY)) {")],
          "swept-neighbour expired-sweep"),
    Plant("publish-without-cas", "store/store.c",
          [("!cas_acq_rel(place->slot, &expected, word)",
            "(store_release(place->slot, word), expected = 0, false)")], "insert-insert"),
    Plant("ghost-leaked", "store/store.c",
          [("    if (place->slot != NULL && slot_has_key(place->word)) {\n        change_retire",
            "    if (place->slot != NULL && slot_is_record(place->word)) {\n        change_retire")], "ghost-reuse"),
    # rebuilds
    Plant("empty-slot-not-frozen", "store/rebuild.c",
          [("while ((word & SLOT_FROZEN) == 0 && slot_kind(word) != SLOT_TOMB) {",
            "while ((word & SLOT_FROZEN) == 0 && slot_kind(word) != SLOT_TOMB && slot_kind(word) != SLOT_EMPTY) {")],
          "rebuild-write rebuild-helpers"),
    Plant("null-link-not-frozen", "store/rebuild.c",
          [("while (link == 0 && !cas_acq_rel(&bucket->link, &link, LINK_FROZEN)) {", "while (false) {")],
          "rebuild-append"),
    Plant("old-table-looked-in", "store/store.c", [OLD_TABLE], "rebuild-write rebuild-read"),
    Plant("destination-looks-empty", "store/index.h", [("SLOT_INIT = 5 << 1,", "SLOT_INIT = SLOT_EMPTY,")],
          "rebuild-helpers rebuild-write rebuild-grow"),
    Plant("frozen-slot-written", "store/store.c",
          [("if (UNLIKELY((place->word & SLOT_FROZEN) != 0)) {", "if (false) {")], "rebuild-write"),
    Plant("copy-without-cas", "store/rebuild.c",
          [("    uint64_t init = SLOT_INIT;\n"
            "    (void)cas_acq_rel(&target->bucket->slots[target->slot], &init, word & ~SLOT_FROZEN);",
            "    uint64_t init = load_acquire(&target->bucket->slots[target->slot]);\n"
            "    if (init == SLOT_INIT)\n"
            "        store_release(&target->bucket->slots[target->slot], word & ~SLOT_FROZEN);")], "rebuild-helpers"),
    Plant("help-without-a-second-look", "store/rebuild.c",
          [("    if (load_acquire(&index->directory[segment]) != table) {", "    if (false) {")],
          "rebuild-helpers rebuild-write close-write"),
    Plant("closed-without-cas", "store/rebuild.c",
          [("if (!cas_acq_rel(&index->segments[segment].next, &closing,",
            "if (store_release(&index->segments[segment].next,"),
           ("| REBUILD_CLOSED)) {", "| REBUILD_CLOSED), false) {")],
          "close-write close-helpers"),
    Plant("closed-without-help", "store/rebuild.c",
          [("        (void)closed_leave(index, segment, table);\n", "")],
          "close-write close-helpers"),
    Plant("closed-ghost-leaked", "store/rebuild.c",
          [("        (void)chain_leftovers(member, head, load_acquire(&head->link), true);\n", "")],
          "close-write close-read"),
    Plant("bucket-leaked", "store/rebuild.c", [("                index_blocks_retire(member, bucket, 1);\n", "")],
          "rebuild-grow"),
    Plant("scan-without-forwarding", "store/scan.c",
          [("while (UNLIKELY((link & LINK_FORWARDED) != 0)) {", "while (false) {")], "scan-clear scan-grow scan-grown"),
    # sweeps for a flush
    Plant("flush-row-not-asked", "store/sweep.c",
          [("hand->flush = number < load_acquire(&store->flush_until);", "hand->flush = false;")], "flush-sweeps"),
    Plant("flush-round-not-checked", "store/sweep.c",
          [("if (load_relaxed(&store->sweep_next) == from) {", "if (true) {")], "flush-sweeps"),
    # moves
    Plant("move-without-cas", "store/sweep.c",
          [("    if (!cas_acq_rel(slot, &word, there)) {\n        memory_give_home(member->cache, copy, bytes);\n"
            "        return;\n    }\n", "    store_release(slot, there);\n")], "move-incr"),
    Plant("moved-and-given-at-once", "store/sweep.c",
          [("    limbo_retire(&member->limbo, (void *)(uintptr_t)record, bytes);",
            "    memory_give_home(member->cache, (void *)(uintptr_t)record, bytes);")], "move-read"),
    # rows, which a walk passes over when they count no table
    Plant("row-counted-late", "store/index.c",
          [("    add_relaxed(row_tables, 1);\n    uint64_t none", "    uint64_t none"),
           ("        sub_relaxed(row_tables, 1); /* somebody else was faster */\n", ""),
           ("        index_blocks_give(member, first, 1u << index->first_log2);\n    }\n    return true;",
            "        index_blocks_give(member, first, 1u << index->first_log2);\n        return true;\n    }\n"
            "    add_relaxed(row_tables, 1);\n    return true;")], "scan-opened"),
    # memory
    Plant("count-before-the-bit", "store/memory.c",
          [("    while (!cas_acq_rel(&page->free[index / 64], &bits, bits | 1ull << index % 64)) {\n    }\n", ""),
           ("(word + 1) | SPAN_LISTED)) {\n    }\n",
            "(word + 1) | SPAN_LISTED)) {\n    }\n"
            "    while (!cas_acq_rel(&page->free[index / 64], &bits, bits | 1ull << index % 64)) {\n    }\n")],
          "pages-given"),
    Plant("bit-not-set", "store/memory.c",
          [("    while (!cas_acq_rel(&page->free[index / 64], &bits, bits | 1ull << index % 64)) {\n    }\n", "")],
          "pages-unlist"),
    Plant("page-claim-relaxed", "store/memory.c",
          [("if (cas_acq_rel(&page->free[i], &bits, bits & ~(1ull << bit))) {",
            "if (cas_relaxed(&page->free[i], &bits, bits & ~(1ull << bit))) {")], "pages-claim"),
    Plant("depot-relaxed", "store/memory.c",
          [("exchange_acq_rel(at, (uintptr_t)0)", "and_relaxed(at, (uintptr_t)0)")], "depot-pass depot"),
    Plant("page-not-listed-again", "store/memory.c",
          [("            return; /* the next to give a block lists it again */\n        }\n    }\n"
            "    memory_stack_push(&class->stack, index);",
            "            return;\n        }\n    }")], "pages-unlist"),
    Plant("page-class-not-checked", "store/memory.c", [("!span_in_class(word, class_index) || ", "")],
          "sweep-lent-on"),
    Plant("stack-without-a-tag", "store/memory_layout.h",
          [("(((head >> 32) + 1) << 32) | next;", "((head >> 32) << 32) | next;")],
          "slabs-again"),
    # cuts
    Plant("cut-read-before-the-stamp", "store/store.c",
          [("    change->stamp = stamp_take(&store->clock, member->seat, MAX(above, change->cut));\n"
            "    change->cut = cut_read_after(&store->cut, change->stamp);",
            "    uint64_t early = load_acquire(&store->cut.word);\n"
            "    change->stamp = stamp_take(&store->clock, member->seat, MAX(above, change->cut));\n"
            "    change->cut = early;")], "flush-incr flush-incr-cycles"),
    Plant("cut-without-pending", "store/cut.c",
          [("!cas_acq_rel(&cut->word, &word, pending)",
            "!cas_acq_rel(&cut->word, &word, stamp_clock_read(clock) | STAMP_MEMBER_MASK)")],
          "flush-incr flush-incr-cycles"),
]


class Tree(planted.Tree):
    """The programs of the scheduler."""

    def __init__(self, tree: pathlib.Path):
        store = [f"store/{path.name}" for path in sorted((planted.ROOT / "store").glob("*.c"))]
        sched = [f"test/sched/{path.name}" for path in sorted((planted.ROOT / "test/sched").glob("sched*.c"))]
        memory = [source for source in store if source.startswith("store/memory")]
        seen = {
            "store": [source for source in store if source not in memory] +
                     [f"test/sched/{name}.c" for name in ("scene_store", "scenes_store", "sched_memory")] +
                     ["test/store/audit.c"],
            "memory": memory + ["test/sched/scenes_memory.c"],
            "mail": ["dataplane/mail.c", "dataplane/wake.c", "test/sched/scenes_mail.c"],
        }
        plain = [source for source in sched if source != "test/sched/sched_memory.c"]
        plain += ["test/sched/scene_calls.c", f"test/sched/switch_{MACHINE}.S"]
        linear = ["test/store/linear.c", "test/store/linear_keys.c"]
        flags = {source: FLAGS + SEEN for sources in seen.values() for source in sources}
        flags.update({source: [*FLAGS, "-DSYNC_SCHED"] for source in plain})
        flags.update({source: FLAGS for source in linear})
        super().__init__(tree, ["config", "store", "dataplane", "test/store", "test/sched"], flags)
        self.programs = {name: sources + plain + (linear if name == "store" else []) for name, sources in seen.items()}

    def with_plant(self, plant: Plant) -> pathlib.Path:
        self.plant(plant.name, plant.file, plant.edits)
        name = ("mail" if plant.file.startswith("dataplane") else
                "memory" if plant.file.startswith("store/memory") else "store")
        return self.link(f"sched_{name}", self.programs[name], f"@{self.tree}/test/sched/wrap.args", "-lm")


def run(program: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, check=False)


def found(program: pathlib.Path, plant: Plant) -> str:
    """What the scheduler said; empty when it found nothing, or could not find it again."""
    tried = run(program, *SEARCH, *plant.scenes.split())
    again = re.search(r"^(.*)\n  again: -r (\S+) -v (\S+)$", tried.stdout, re.M)
    if tried.returncode == 0 or again is None:
        return ""
    replayed = run(program, "-r", again[2], "-v", again[3])
    return again[1] if replayed.returncode == 1 and f"\n{again[1]}\n" in replayed.stdout else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    wanted = parser.parse_args().names or [plant.name for plant in PLANTS]
    unknown = set(wanted) - {plant.name for plant in PLANTS}
    if unknown:
        parser.error(f"no such plant: {', '.join(sorted(unknown))}")
    missed = []
    with tempfile.TemporaryDirectory() as directory:
        tree = Tree(pathlib.Path(directory))
        for plant in PLANTS:
            if plant.name not in wanted:
                continue
            how = found(tree.with_plant(plant), plant)
            print(f"{plant.name}: {how or 'NOT FOUND'}", flush=True)
            if not how:
                missed.append(plant.name)
    print(f"{len(missed)} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
