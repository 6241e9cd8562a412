"""redis_benchmark.py - redis-benchmark runs to its end without an error, over TCP and Unix, at depth 1 and 16."""

import argparse
import csv
import io
import subprocess
import sys

import server

TESTS = "ping,set,get,incr,hset,zadd"
ROWS = {"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "HSET", "ZADD"}


def benchmark(where, requests, depth):
    """Rows of requests a second; raises on an error, a warning or a test that did not run."""
    result = subprocess.run(
        ["redis-benchmark", *where, "-t", TESTS, "-n", str(requests), "-P", str(depth), "--csv"],
        capture_output=True, text=True, timeout=600)
    trouble = [line for line in (result.stdout + result.stderr).splitlines() if "rror" in line or "WARN" in line]
    if result.returncode != 0 or trouble:
        raise AssertionError(f"redis-benchmark: exit code {result.returncode}: {trouble or result.stderr}")
    rows = {row["test"].split(" ")[0]: float(row["rps"]) for row in csv.DictReader(io.StringIO(result.stdout))}
    if set(rows) != ROWS or min(rows.values()) <= 0:
        raise AssertionError(f"redis-benchmark did not run every test: {rows}")
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=200000, help="requests a test")
    options = parser.parse_args()
    with server.Server() as booted:
        for name, where in (("tcp", ["-p", str(booted.port)]), ("unix", ["-s", booted.unix])):
            for depth in (1, 16):
                rows = benchmark(where, options.n, depth)
                print(f"{name} -P {depth}: " + ", ".join(f"{test} {rate / 1000:.0f} k/s" for test, rate in rows.items()),
                      flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
