"""lcore_calls.py - an lcore that serves from a bypass port makes no system call: strace of its thread over shm, under
load, values of 64 B to 4 KiB. A planted call (a sleeping idle policy) must be seen, so that the test can fail."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import server

WATCH_S = 1.0
VALUE_BYTES = (64, 512, 4096)


def calls_of(tid, seconds):
    """System calls of one thread in so many seconds, by name."""
    with tempfile.NamedTemporaryFile("r") as summary:
        strace = subprocess.Popen(["strace", "-qq", "-c", "-o", summary.name, "-p", str(tid)], stderr=subprocess.PIPE)
        time.sleep(seconds)
        strace.terminate()
        strace.communicate(timeout=20)
        calls = {}
        for line in summary.read().splitlines():
            found = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)$", line)
            if found and found.group(2) != "total":
                calls[found.group(2)] = int(found.group(1))
        return calls


class LcoreCalls(unittest.TestCase):
    def lcore_of(self, served):
        lcores = json.loads(served.sluicectl("-j", "lcores"))["lcores"]
        return lcores[0]["tid"]

    def load(self, served, value_bytes):
        return subprocess.Popen(
            [str(server.BUILD / "sluice-bench"), "latency", "--provider", "shm", "-p", str(served.port), "-d",
             str(value_bytes), "--only", "SET,GET", "--samples", "100000000", "--warmup", "1000", "--csv"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def watched(self, served, value_bytes):
        """Calls of the lcore while the load runs, and the requests that it served meanwhile."""
        load = self.load(served, value_bytes)
        try:
            start = served.counters()["requests"]
            deadline = time.monotonic() + 30
            while served.counters()["requests"] < start + 2000:
                self.assertIsNone(load.poll(), "the load ended early")
                self.assertLess(time.monotonic(), deadline, "no load within 30 s")
                time.sleep(0.05)
            before = served.counters()["requests"]
            calls = calls_of(self.lcore_of(served), WATCH_S)
            return calls, served.counters()["requests"] - before
        finally:
            load.terminate()
            load.communicate(timeout=30)

    def test_no_call_from_64_bytes_to_4_kib(self):
        ports = 'ports=({type="fabric";provider="shm";})'
        with server.Server("lcores.cpus=0", "lcores.idle=spin", ports) as served:
            for value_bytes in VALUE_BYTES:
                calls, requests = self.watched(served, value_bytes)
                self.assertGreater(requests, 100, f"{value_bytes} B: the load did not run under strace")
                self.assertEqual(calls, {}, f"{value_bytes} B, {requests} requests")
                print(f"{value_bytes} B: {requests} requests, no system call of the lcore")

    def test_a_call_would_be_seen(self):
        with server.Server("lcores.cpus=0", "lcores.idle=adaptive") as served:
            calls = calls_of(self.lcore_of(served), WATCH_S)
            self.assertGreater(sum(calls.values()), 0)


if __name__ == "__main__":
    if os.geteuid() != 0 and subprocess.run(["strace", "true"], capture_output=True).returncode != 0:
        print("strace may not trace here")
        sys.exit(server.SKIPPED)
    unittest.main(verbosity=2)
