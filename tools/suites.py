"""suites.py - builds what the chosen suites need and runs them in the order of test/suites.tsv. Started by tools/check."""

import argparse
import contextlib
import difflib
import fcntl
import fnmatch
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITES = ROOT / "test" / "suites.tsv"
LOGS = ROOT / "build" / "check"
TOTAL_BUDGET_S = 45 * 60
BUDGETS_SUM_S = 105 * 60  # a budget leaves room for a noisy machine; what a run takes is held to TOTAL_BUDGET_S
FAST_BUDGET_S = 5 * 60
SKIPPED = 77  # exit code of a suite that cannot run here; its last line of output says why
STUCK, LEFT = "stuck, ended", "left processes behind, ended"
TAIL_LINES = 40
ENDING_S = 5  # what is ending by itself may: a sanitizer's symbolizer outlives its program by a second

# What a run-time checker finds must fail its suite at once. A suite's own setting wins.
SANITIZER_DEFAULTS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


class Suite(NamedTuple):
    name: str
    budget_s: int
    when: str  # yes: also in fast; no: in a full run; soak: only when asked for
    command: str


class Build(NamedTuple):
    name: str
    budget_s: int
    options: dict
    env: dict


# Options are compared with what a build folder has, so that an unchanged one is not configured again.
BUILDS = {
    "build": Build("build", 200, {"tests": "true"}, {}),
    "build/asan": Build(
        "build-asan", 300, {"tests": "true", "buildtype": "debugoptimized", "b_sanitize": "address,undefined",
                            "b_lundef": "false"}, {}),
    "build/tsan": Build(
        "build-tsan", 300, {"tests": "true", "buildtype": "debugoptimized", "b_sanitize": "thread",
                            "b_lundef": "false"}, {}),
    "build/fuzz": Build(
        "build-fuzz", 250, {"fuzz": "true", "buildtype": "debugoptimized", "b_sanitize": "address,undefined",
                            "b_lundef": "false", "c_args": "-fsanitize=fuzzer-no-link"}, {"CC": "clang"}),
}


def die(text):
    print(f"tools/check: {text}", file=sys.stderr)
    sys.exit(2)


def suites_read(path=SUITES):
    suites = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        where = f"{path.name}:{number}"
        if len(fields) != 4:
            die(f"{where}: {len(fields)} fields, expected name, budget in seconds, yes|no|soak, command")
        name, budget, when, command = (field.strip() for field in fields)
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
            die(f"{where}: bad name '{name}'")
        if name in [suite.name for suite in suites]:
            die(f"{where}: '{name}' is there twice")
        if not budget.isdigit() or int(budget) == 0:
            die(f"{where}: bad budget '{budget}'")
        if when not in ("yes", "no", "soak"):
            die(f"{where}: '{when}', expected yes, no or soak")
        suites.append(Suite(name, int(budget), when, command))
    return suites


def budgets_sum(suites):
    return sum(suite.budget_s for suite in suites) + sum(BUILDS[dir].budget_s for dir in builds_needed(suites))


def budgets_check(suites):
    """A suite that would push a run over its time is refused when it is added, not noticed when it is slow."""
    total_s = budgets_sum([suite for suite in suites if suite.when != "soak"])
    if total_s > BUDGETS_SUM_S:
        die(f"the budgets of a full run add up to {total_s} s, more than {BUDGETS_SUM_S} s: {SUITES.name} has no room")


def builds_needed(suites):
    """build/ always; the others when a suite's command names something in them."""
    text = " ".join(suite.command for suite in suites)
    return [dir for dir in BUILDS if dir == "build" or re.search(rf"\b{dir}\b", text)]


def suites_choose(suites, words):
    if not words:
        return [suite for suite in suites if suite.when != "soak"]
    if words == ["fast"]:
        return [suite for suite in suites if suite.when == "yes"]
    if words == ["soak"]:
        return [suite for suite in suites if suite.when == "soak"]
    names = [suite.name for suite in suites]
    for word in words:
        if not fnmatch.filter(names, word):
            near = difflib.get_close_matches(word, names + ["fast", "soak"], 1)
            die(f"no suite '{word}'" + (f", did you mean '{near[0]}'?" if near else "; --list shows them"))
    return [suite for suite in suites if any(fnmatch.fnmatch(suite.name, word) for word in words)]


class Interrupted(Exception):
    pass


def group_alive(process):
    """Whether anything of the suite's process group still runs. The dead that PID 1 has not collected yet do not."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(group) == process.pid and state != "Z":
                return True
    return False


def group_kill(process):
    """The suite's own process group and nothing else; servers that it started are in it."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            process.poll()
            if not group_alive(process):
                return
            time.sleep(0.05)


def command_run(command, log_path, timeout_s, env):
    """Returns (exit code, seconds). Exit code STUCK: ended after timeout_s; LEFT: ended well, its children did not."""
    begun = time.monotonic()
    with open(log_path, "ab") as log:
        process = subprocess.Popen(
            command, shell=isinstance(command, str), executable="/bin/bash" if isinstance(command, str) else None,
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = STUCK
        finally:
            seconds = time.monotonic() - begun
            if process.returncode == 0 and group_alive(process):
                deadline = time.monotonic() + ENDING_S
                while group_alive(process) and time.monotonic() < deadline:
                    time.sleep(0.05)
                code = LEFT if group_alive(process) else code
            group_kill(process)
    return code, seconds


class Report:
    """One line a suite, and the counts of the closing line."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, 0

    def add(self, name, seconds, budget_s, outcome, why=""):
        setattr(self, outcome, getattr(self, outcome) + 1)
        print(f"{name:<28} {seconds:7.1f} / {budget_s:4d}  {outcome}{': ' + why if why else ''}", flush=True)

    def close(self):
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        print(f"\n{self.passed} passed, {self.failed} failed{skipped}", flush=True)


def log_tail(path):
    print(f"--- the end of {path.relative_to(ROOT)}")
    for line in path.read_text(errors="replace").splitlines()[-TAIL_LINES:]:
        print(f"    {line}")
    print("---", flush=True)


def step_run(report, name, budget_s, commands, env):
    """Run commands as one suite. Returns whether they passed or were skipped."""
    log_path = LOGS / f"{name}.log"
    log_path.write_bytes(b"")
    seconds, code = 0.0, 0
    for command in commands:
        # Past its budget a suite has failed; the grace shows whether it is slow or stuck.
        code, took_s = command_run(command, log_path, budget_s + max(30, budget_s // 2) - seconds, env)
        seconds += took_s
        if code != 0:
            break
    lines = log_path.read_text(errors="replace").strip().splitlines()
    if code == SKIPPED:
        report.add(name, seconds, budget_s, "skipped", lines[-1] if lines else "no reason given")
        return True
    if code in (STUCK, LEFT):
        why = code
    elif code != 0:
        why = f"exit code {code}" if code > 0 else f"signal {-code}"
    elif seconds > budget_s:
        why = "above its budget"
    else:
        report.add(name, seconds, budget_s, "passed")
        return True
    report.add(name, seconds, budget_s, "failed", why)
    log_tail(log_path)
    return False


def option_text(value):
    """As a meson option is written on a command line."""
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def build_commands(dir, build):
    commands = []
    if not (ROOT / dir / "build.ninja").exists():
        commands.append(["meson", "setup", dir] + [f"-D{name}={value}" for name, value in build.options.items()])
    else:
        described = json.loads((ROOT / dir / "meson-info" / "intro-buildoptions.json").read_text())
        have = {option["name"]: option["value"] for option in described}
        changed = [f"-D{name}={value}" for name, value in build.options.items() if option_text(have.get(name)) != value]
        if changed:
            commands.append(["meson", "configure", dir] + changed)
    commands.append(["ninja", "-C", dir])
    return commands


def run(suites, most_s):
    """Build and run; most_s bounds all of it together, None: nothing does."""
    report, begun = Report(), time.monotonic()
    print(f"{'suite':<28} {'seconds':>7} / budget", flush=True)
    env = dict(os.environ)
    for name, value in SANITIZER_DEFAULTS.items():
        env.setdefault(name, value)
    broken = []
    for dir in builds_needed(suites):
        build = BUILDS[dir]
        if not step_run(report, build.name, build.budget_s, build_commands(dir, build), env | build.env):
            broken.append(dir)
    for suite in suites:
        # Lints look at sources, and are wanted most when these do not compile.
        if "lint/" not in suite.command and (missing := [dir for dir in builds_needed([suite]) if dir in broken]):
            report.add(suite.name, 0, suite.budget_s, "failed", f"{missing[-1]} did not build")
            continue
        step_run(report, suite.name, suite.budget_s, [suite.command], env)
    if most_s is not None:
        seconds = time.monotonic() - begun
        report.add("all of it", seconds, most_s, "passed" if seconds <= most_s else "failed")
    report.close()
    return report.failed != 0


def interrupt(number, frame):
    raise Interrupted(signal.Signals(number).name)


def main():
    parser = argparse.ArgumentParser(prog="tools/check", description="Build Sluice and run its test suites.")
    parser.add_argument("--list", action="store_true", help="print names, budgets and commands")
    parser.add_argument("suite", nargs="*", help="fast, soak, or names and patterns of suites; none: all but soak")
    options = parser.parse_args()

    suites = suites_read()
    budgets_check(suites)
    chosen = suites_choose(suites, options.suite)
    if options.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # its reader may have seen enough
        for suite in chosen:
            print(f"{suite.name:<28} {suite.budget_s:5d} s  {suite.when:<5} {suite.command}")
        print(f"{'with the builds':<28} {budgets_sum(chosen):5d} s")
        return 0
    if not chosen:
        die("no suite to run")

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the log says what crashed; nothing is left in the tree
    LOGS.mkdir(parents=True, exist_ok=True)
    lock = open(LOGS / ".lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        die("another tools/check is running in this folder")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        return run(chosen, {(): TOTAL_BUDGET_S, ("fast",): FAST_BUDGET_S}.get(tuple(options.suite)))
    except Interrupted as cause:
        print(f"\ntools/check: {cause}: the running suite was ended", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
