"""page_faults.py - an lcore of a running sluiced takes no page fault while it serves: minflt and majflt of its thread, under
writes of many sizes, after a warm-up. That boot is seen to fault shows that the reading works; a planted fault is seen
in test/store/test_page_faults.c."""

import json
import pathlib
import subprocess
import sys
import time
import unittest

import server

WARM_S, WATCH_S = 3, 2
LOADS = (("set:1,get:3", "64"), ("set:1", "3000"), ("incr:1,hset:1,zadd:1", "64"))


def faults_of(served, tid):
    """Minor and major faults of a thread since it began."""
    fields = pathlib.Path(f"/proc/{served.process.pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7]) + int(fields[9])


class PageFaults(unittest.TestCase):
    def load(self, served, mix, value_bytes):
        return subprocess.Popen(
            [str(server.BUILD / "sluice-bench"), "throughput", "-p", str(served.port), "-r", "50000", "-c", "4", "-P", "16",
             "--seconds", str(WARM_S + WATCH_S + 20), "--mix", mix, "-d", value_bytes],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def test_lcores_take_none_in_steady_state(self):
        with server.Server("lcores.cpus=0,1", "memory.ahead=64MiB") as served:
            tids = [lcore["tid"] for lcore in json.loads(served.sluicectl("-j", "lcores"))["lcores"]]
            self.assertEqual(len(tids), 2)
            self.assertTrue(all(faults_of(served, tid) > 0 for tid in tids), "an lcore that never faulted, not at boot")
            loads = [self.load(served, mix, value_bytes) for mix, value_bytes in LOADS]
            try:
                time.sleep(WARM_S)
                before, requests = [faults_of(served, tid) for tid in tids], served.counters()["requests"]
                time.sleep(WATCH_S)
                taken = [faults_of(served, tid) - was for tid, was in zip(tids, before)]
                requests = served.counters()["requests"] - requests
                self.assertTrue(all(load.poll() is None for load in loads), "a load ended early")
            finally:
                for load in loads:
                    load.terminate()
                    load.communicate(timeout=30)
            print(f"{requests} requests, faults of the lcores: {taken}", file=sys.stderr)
            self.assertGreater(requests, 10000)
            self.assertEqual(taken, [0, 0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
