"""arm64.py - the cross build for Graviton, and every suite of test/suites.tsv that qemu-user can run with it.

    test/external/arm64.py             all of them
    test/external/arm64.py SUITE...    these

It shows that the code compiles with -mcpu=neoverse-v1, that its atomics are single instructions, and that the suites hold
with arm64's instructions, clock, alignment and unsigned char. It shows nothing about weak memory ordering: qemu on x86 has
none; test/sched has."""

import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import server

ROOT, SKIPPED = server.ROOT, server.SKIPPED
SYSROOT, BUILD = "build/sysroot-arm64", "build/arm64"
EMULATED = f"{BUILD}/emulated"  # as BUILD, of programs that start themselves in the emulator
QEMU = f"{shutil.which('qemu-aarch64')} -L {ROOT / SYSROOT}"  # some suites change the PATH
AT_ONCE = 2
SUITE_S = 200  # most that one may take
TAIL_LINES = 30


class Suite(NamedTuple):
    budget_s: int
    command: str


# Suites that do not run here, and why; any other does, so that no new one is forgotten.
ELSEWHERE = {name: why for why, names in {
    "measures, and an emulator's figures say nothing":
        "bench-open evict-hit-ratio goals-quick instructions matrix-rows open-loop packed-bench peers redis-benchmark resp-bench sbe-bench "
        "scenarios store-bench sweep",
    "counts page faults, system calls or resident memory, and the emulator's own are among them":
        "empty ethernet-calls lcore-calls page-faults page-faults-sluiced",
    "compiles for this machine, or runs nothing compiled":
        "arm64 models package package-facts race_linear-update-lost sbe-generator sched-plants session-self",
    "sees the emulator's threads, command line and terminal in the program's place": "appliance live-settings screens",
    "has leases, periods or patience that an emulator outlasts": "dataplane-full-memory fabric-resume operate starved",
    "asks for a program that is not there: qemu-user's posix_spawn() says that it ended": "report-page",
    "takes a minute or more, and shows what others show of the same code":
        "auth-storm fabric-attach fabric-kill full-memory memory-live sched-deep session-unix-bytes shutdown tools-run "
        "value-sizes",
    "asks for a sandbox: qemu-user has neither seccomp nor Landlock": "sandbox sandbox-serve sandbox-trace",
    "net_af_packet's sockets have options that qemu-user does not know (net_tap works)":
        "ethernet ethernet-churn ethernet-hostile ethernet-relay",
}.items() for name in names.split()}
# Lints, deploy samples, and what other compilers or sanitizers are built into.
OTHER_BUILD = re.compile(r"build/(asan|tsan|fuzz)\b|tools/lint/|test/(lint|deploy)/")
# Only a ThreadSanitizer build has a suite of its own.
ALSO = {"race_mail": Suite(5, "build/test/dataplane/race_mail")}

# With less of it the same is shown here: schedules are the scheduler's on whatever machine, and every 8th allocation fails.
CHANGED = (
    (re.compile(r"-n \d+ -x \d+"), "-n 30 -x 150"),
    (re.compile(r"/test_alloc_fail$"), r"\g<0> 8"),
    # how long it takes is not asked
    (re.compile(r"ethernet\.py --tap$"), r"\g<0> Neighbours Clients Many Limit"),
    # The emulator keeps a word for each small page of what half the memory would be, which each settings file asks for.
    (re.compile(r"^build/test/mgmt/test_settings\b"), r"ulimit -v 3000000; \g<0>"),
)

# One locked instruction each (Arm's LSE), and what a compiler uses where it may not assume them.
SINGLE = re.compile(r"\t(?:ld(?:add|clr|eor|set|s?max|u?min)|st(?:add|clr|eor|set)|cas|swp)[albh]*\t")
PIECES = re.compile(r"\t(?:ld(?:a)?xr|st(?:l)?xr)[bh]?\t|__aarch64_")
# With the zero register as its result such an instruction acquires nothing, whatever its name says.
NO_ACQUIRE = re.compile(r"\t(?:ld(?:add|clr|eor|set|s?max|u?min)|swp)al?[bh]?\t[wx]\d+, [wx]zr,")
ATOMIC_FILES = {"memory", "qsbr", "rebuild", "store", "sweep"}  # of store/: each must have some


def run(*command, **more):
    print("$", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, **more)


# ---- which ----

def suites():
    """{name: Suite} of all that could run here."""
    rows = (line.split("\t") for line in (ROOT / "test/suites.tsv").read_text().splitlines() if not line.startswith("#"))
    return {row[0]: Suite(int(row[1]), row[3]) for row in rows if len(row) == 4 and row[2] != "soak"
            and not OTHER_BUILD.search(row[3])} | ALSO


def emulated(command):
    for pattern, by in CHANGED:
        command = pattern.sub(by, command)
    return re.sub(r"\bbuild/(?=test/)", f"{EMULATED}/", command)


# ---- the build ----

def build():
    """False: it does not compile."""
    if not (ROOT / BUILD / "build.ninja").exists():
        setup = run("meson", "setup", "--cross-file", f"{SYSROOT}.cross", "--cross-file", "tools/arm64.cross",
                    "-Dtests=true", BUILD)
        if setup.returncode != 0:
            return False
    return run("ninja", "-C", BUILD).returncode == 0


def is_program(path):
    with open(path, "rb") as file:
        return os.access(path, os.X_OK) and file.read(4) == b"\x7fELF"


def wrap():
    """Fill EMULATED: for drivers that boot a server ($SLUICE_BUILD) and suites that are a program."""
    for path in (path for folder in ("", "test/**/") for path in (ROOT / BUILD).glob(f"{folder}*")):
        if path.is_file() and is_program(path):
            at = ROOT / EMULATED / path.relative_to(ROOT / BUILD)
            at.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".so":
                at.unlink(missing_ok=True)
                at.symlink_to(path)
            else:
                # It would warn that this kernel, the emulator's, has no seccomp, where tests look at what is logged first.
                words = "--set sandbox.mode=off " if path.name.startswith("sluiced") else ""
                at.write_text(f'#!/bin/sh\nexec {QEMU} {path} {words}"$@"\n')
                at.chmod(0o755)


# ---- the machine code ----

def atomics_wrong():
    """What is wrong with the atomics of the store and the data plane."""
    wrong, single = [], 0
    for path in sorted((ROOT / BUILD).glob("store/libstore.a.p/*.o")) + \
            sorted((ROOT / BUILD).glob("dataplane/lib*.a.p/*.o")):
        code = subprocess.run(["aarch64-linux-gnu-objdump", "-dr", "--no-show-raw-insn", str(path)], check=True,
                              capture_output=True, text=True).stdout
        found = len(SINGLE.findall(code))
        single += found
        if pieces := PIECES.search(code):
            wrong.append(f"{path.name}: {pieces.group().strip()}: an atomic operation in pieces or by a call")
        if weaker := NO_ACQUIRE.search(code):
            wrong.append(f"{path.name}: {weaker.group().strip()}: acquires nothing")
        if path.parent.parent.name == "store" and path.name.removesuffix(".c.o") in ATOMIC_FILES and found == 0:
            wrong.append(f"{path.name}: no atomic instruction was found")
    print(f"{single} single-instruction atomics in store/ and dataplane/")
    return wrong


def old_cpus_wrong():
    """A CPU without what -mcpu names is told so, by each program."""
    wrong = []
    for program in ("sluiced", "sluicectl", "sluice-cli", "sluice-bench"):
        for cpu, lacks in (("cortex-a53", "atomics"), ("neoverse-n1", "sve")):
            done = subprocess.run([*QEMU.split(), "-cpu", cpu, ROOT / BUILD / program, "--version"], capture_output=True,
                                  text=True)
            if done.returncode != 1 or not re.match(rf"{program}: this CPU lacks [a-z0-9 ]*{lacks}\b", done.stderr):
                wrong.append(f"{program} on {cpu}: exit code {done.returncode}, {done.stdout + done.stderr!r}")
    return wrong


# ---- running ----

class Running:
    def __init__(self, name, command, env):
        self.name, self.begun = name, time.monotonic()
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["bash", "-c", command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, start_new_session=True)

    def ended(self):
        """Sets .code, None if it was stopped, and .cpu_s, of it and what it waited for."""
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0 and time.monotonic() - self.begun < SUITE_S:
            return False
        self.seconds = time.monotonic() - self.begun
        self.code = None
        if pid != 0:
            self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s = used.ru_utime + used.ru_stime
        self.kill()
        return True

    def kill(self):
        """And whatever it left behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.returncode is None:
            _, _, used = os.wait4(self.process.pid, 0)
            self.process.returncode, self.cpu_s = -signal.SIGKILL, used.ru_utime + used.ru_stime

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")


class Tally:
    """One line a suite, and the sums of the last line."""

    def __init__(self):
        self.sums, self.wrong = collections.Counter(), []

    def add(self, run):
        """Whether it holds, or was skipped."""
        output = run.output()
        counted = {word: sum(map(int, re.findall(rf"^ *{word} +\d+ +(\d+)", output, re.M))) for word in ("tests", "asserts")}
        self.sums.update(counted, suites=run.code == 0, seconds=run.seconds, cpu_s=run.cpu_s)
        outcome = {0: "holds", SKIPPED: "skipped: " + (output.splitlines() or ["no reason given"])[-1]}.get(run.code, "FAILS")
        if counted["tests"]:
            outcome += f"  {counted['tests']} tests, {counted['asserts']} asserts"
        print(f"{run.name:<28} {run.seconds:7.1f} s, {run.cpu_s:6.1f} s of CPU  {outcome}", flush=True)
        if outcome.startswith("FAILS"):
            print("\n".join("    " + line for line in output.splitlines()[-TAIL_LINES:]), flush=True)
        return not outcome.startswith("FAILS")

    def fail(self, run):
        self.wrong.append(f"{run.name}: " + (f"no end after {SUITE_S} s" if run.code is None else f"exit code {run.code}"))


def run_all(chosen, env):
    """Long ones first, so that the end is not one of them alone. A driver that fails is run once more, alone: some ask for
    times, which two emulators take from each other. A program that fails has failed."""
    tally, running, again = Tally(), [], []
    waiting = collections.deque(sorted(chosen, key=lambda name: -chosen[name].budget_s))
    at_once = AT_ONCE
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name = waiting.popleft()
                running.append(Running(name, emulated(chosen[name].command), env))
            time.sleep(0.02)
            for run in [run for run in running if run.ended()]:
                running.remove(run)
                if not tally.add(run):
                    once_more = at_once > 1 and chosen[run.name].command.startswith("/usr/bin/python3")
                    again.append(run.name) if once_more else tally.fail(run)
            if not waiting and not running and at_once > 1:
                waiting, at_once = collections.deque(again), 1
    finally:
        for run in running:
            run.kill()
    return tally


def end(number, frame):
    sys.exit(128 + number)


def main():
    for number in (signal.SIGINT, signal.SIGTERM):  # what runs is ended too; and no suite inherits that they are ignored
        signal.signal(number, end)
    known = suites()
    if stale := sorted(ELSEWHERE.keys() - known.keys()):
        sys.exit(f"in ELSEWHERE and not in test/suites.tsv: {', '.join(stale)}")
    chosen = {name: suite for name, suite in known.items() if name in sys.argv[1:]} if sys.argv[1:] else \
        {name: suite for name, suite in known.items() if name not in ELSEWHERE}
    if missing := set(sys.argv[1:]) - chosen.keys():
        sys.exit(f"no suite for this machine: {', '.join(sorted(missing))}")
    begun = time.monotonic()
    if run("tools/sysroot").returncode != 0:
        print("no arm64 sysroot: tools/sysroot needs Debian's mirror once")
        sys.exit(SKIPPED)
    if not build():
        sys.exit("the cross build fails")
    wrap()
    built = time.monotonic()
    wrong = atomics_wrong() + old_cpus_wrong()
    tally = run_all(chosen, dict(os.environ, SLUICE_BUILD=EMULATED))
    print(f"sysroot and build {built - begun:.0f} s, suites {time.monotonic() - built:.0f} s, {AT_ONCE} at once; one after the other "
          f"{tally.sums['seconds']:.0f} s, {tally.sums['cpu_s']:.0f} s of CPU")
    if wrong := wrong + tally.wrong:
        sys.exit("\n".join(wrong))
    print(f"{tally.sums['suites']} suites hold on arm64, of them in CUnit {tally.sums['tests']} tests with {tally.sums['asserts']} "
          f"asserts; {len(ELSEWHERE)} run elsewhere only")


if __name__ == "__main__":
    main()
