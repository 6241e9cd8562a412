"""instructions.py - the regression gate: user instructions of one request, decode to encode, counted by callgrind.

The count repeats whatever else the machine does, so a ceiling holds where a timed test would not. A change that lowers a
figure lowers its ceiling with it."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / os.environ.get("SLUICE_BUILD", "build")
REQUESTS, KEYS, BURST = 32000, 10000, 16

WHOLE = ("bench_turns", "test/dataplane/bench_request {operation} {keys} {burst} {requests}")
STORE = ("bench_bursts", "test/store/store-bench --operations {operation} --keys {keys} --burst {burst} --ops {requests} "
                         "--distribution uniform --csv")

# Instructions a request, in bursts of 16 on 10,000 keys, 32-byte values and objects of one entry: 2% above what was
# measured when it was set.
CEILINGS = (
    ("ping", WHOLE, "ping", 378),
    ("get", WHOLE, "get", 618),
    ("set", WHOLE, "set", 1283),
    ("incr", WHOLE, "incr", 1371),
    ("hget", WHOLE, "hget", 823),
    ("hset", WHOLE, "hset", 1768),
    ("zscore", WHOLE, "zscore", 937),
    ("zadd", WHOLE, "zadd", 1521),
    ("get, the store's part", STORE, "get", 308),
    ("set, the store's part", STORE, "set", 870),
)


def instructions(program, operation):
    function, command = program
    command = command.format(operation=operation, keys=KEYS, burst=BURST, requests=REQUESTS)
    with tempfile.TemporaryDirectory(prefix="sluice-callgrind-") as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--toggle-collect={function}", f"--callgrind-out-file={folder}/out",
             *f"{BUILD}/{command}".split()], capture_output=True, text=True, timeout=300)
    found = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or not found:
        sys.exit(f"valgrind: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return int(found.group(1)) / REQUESTS


def watched_as_unwatched():
    """The lcore executes the same instructions, to 1%, while another thread reads all that it counts."""
    function, command = WHOLE
    alone, watched = (instructions((function, command + more), "get") for more in ("", " watched"))
    print(f"{'get, watched':22} {watched:7.1f} instructions a request, unwatched {alone:.1f}")
    if abs(watched - alone) > alone / 100:
        sys.exit("watching costs the lcore instructions")


def main():
    above = []
    watched_as_unwatched()
    for name, program, operation, ceiling in CEILINGS:
        count = instructions(program, operation)
        print(f"{name:22} {count:7.1f} instructions a request, ceiling {ceiling}")
        if count > ceiling:
            above.append(name)
        if count < 100:
            sys.exit(f"{name}: {count} is no plausible count: was {program[0]}() inlined?")
    if above:
        sys.exit(f"above the ceiling: {', '.join(above)}")


if __name__ == "__main__":
    main()
