"""arm64.py - the cross build for Graviton, and the suites that qemu-user can run with it.

It shows that the code compiles with -mcpu=neoverse-v1, that its atomics are single instructions, and that the suites hold
with arm64's instructions, clock and alignment. It shows nothing about weak memory ordering: qemu on x86 has none."""

import os
import pathlib
import re
import subprocess
import sys

import server

ROOT, SKIPPED = server.ROOT, server.SKIPPED
SYSROOT, BUILD = "build/sysroot-arm64", "build/arm64"
QEMU = f"qemu-aarch64 -L {SYSROOT}"
PROGRAMS = ("sluiced", "sluicectl", "sluice-cli", "sluice_fabric.so")
SCHEDULES = "-n 30 -x 150"  # of the scheduler: the order is its own, whatever the machine, so a few tell
SUITE_S = 120  # most that one may take: the emulator is 3 to 20 times slower

# Rows of test/suites.tsv. Not here: what takes minutes (number, alloc-fail), what measures (benchmarks), what counts page faults or
# system calls (the emulator's own are counted too), what needs libfabric's providers.
SUITES = (
    "memory", "stamp", "qsbr", "store", "rebuild", "packed-hash", "packed-zset",
    "audit", "scan", "linear", "race_linear", "sched",
    "race_store", "race_store-perturbed", "race_flush", "race_flush-perturbed", "race_memory", "race_memory-perturbed",
    "envelope", "frame_stream", "command", "reply", "resp", "sbe", "sbe-reply", "sbe-evolve",
    "mail", "histogram", "dataplane-session", "exec-hash", "exec-key", "exec-string", "exec-zset", "race-exec",
    "race_lcores", "session", "redis-cli",
)

# One locked instruction each (Arm's LSE), and what a compiler uses where it may not assume them.
SINGLE = re.compile(r"\t(?:ld(?:add|clr|eor|set|s?max|u?min)|st(?:add|clr|eor|set)|cas|swp)[albh]*\t")
PIECES = re.compile(r"\t(?:ld(?:a)?xr|st(?:l)?xr)[bh]?\t|__aarch64_")
ATOMIC_FILES = {"memory", "qsbr", "rebuild", "store", "sweep"}  # of store/: each must have some


def run(*command, **more):
    print("$", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, **more)


def commands():
    """{suite: its command}, as tools/check has it."""
    rows = (line.split("\t") for line in (ROOT / "test/suites.tsv").read_text().splitlines())
    return {row[0]: row[3] for row in rows if len(row) == 4}


def wrappers():
    """Programs that start themselves in the emulator, for drivers that boot a server: $SLUICE_BUILD."""
    folder = ROOT / BUILD / "emulated"
    folder.mkdir(exist_ok=True)
    for name in PROGRAMS:
        if not name.endswith(".so"):
            path = folder / name
            path.write_text(f'#!/bin/sh\nexec qemu-aarch64 -L {ROOT / SYSROOT} {ROOT / BUILD / name} "$@"\n')
            path.chmod(0o755)
    return folder


def atomics_wrong():
    """What is wrong with the machine code of the store and the data plane."""
    wrong, single = [], 0
    for path in sorted((ROOT / BUILD).glob("store/libstore.a.p/*.o")) + \
            sorted((ROOT / BUILD).glob("dataplane/lib*.a.p/*.o")):
        code = subprocess.run(["aarch64-linux-gnu-objdump", "-dr", "--no-show-raw-insn", str(path)], check=True,
                              capture_output=True, text=True).stdout
        found = len(SINGLE.findall(code))
        single += found
        if pieces := PIECES.search(code):
            wrong.append(f"{path.name}: {pieces.group().strip()}: an atomic operation in pieces or by a call")
        if path.parent.parent.name == "store" and path.name.removesuffix(".c.o") in ATOMIC_FILES and found == 0:
            wrong.append(f"{path.name}: no atomic instruction was found")
    print(f"{single} single-instruction atomics in store/ and dataplane/")
    return wrong


def build(known):
    """False: it does not compile."""
    targets = {target for name in SUITES for target in re.findall(r"\bbuild/(test/\S+)", known[name])}
    if not (ROOT / BUILD / "build.ninja").exists():
        setup = run("meson", "setup", "--cross-file", f"{SYSROOT}.cross", "--cross-file", "tools/arm64.cross",
                    "-Dtests=true", "-Ddpdk=disabled", BUILD)
        if setup.returncode != 0:
            return False
    return run("ninja", "-C", BUILD, *PROGRAMS, *sorted(targets)).returncode == 0


def main():
    known = commands()
    if missing := [name for name in SUITES if name not in known]:
        sys.exit(f"not in test/suites.tsv: {', '.join(missing)}")
    made = run("tools/sysroot")
    if made.returncode != 0:
        print("no arm64 sysroot: tools/sysroot needs Debian's mirror once")
        sys.exit(SKIPPED)
    if not build(known):
        sys.exit("the cross build fails")
    wrong = atomics_wrong()
    env = dict(os.environ, SLUICE_BUILD=str(wrappers()))
    for name in SUITES:
        command = re.sub(r"\bbuild/(?=test/)", f"{QEMU} {BUILD}/", known[name])
        command = re.sub(r"-n \d+ -x \d+", SCHEDULES, command)
        try:
            code = run("bash", "-c", command, env=env, timeout=SUITE_S).returncode
        except subprocess.TimeoutExpired:
            code = f"none after {SUITE_S} s"
        if code != 0:
            wrong.append(f"{name}: exit code {code}")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(SUITES)} suites hold on arm64")


if __name__ == "__main__":
    main()
