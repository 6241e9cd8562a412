"""ethernet_calls.py - the lcore that polls an ethernet port on net_af_packet makes one system call for each burst that it sends, and
no other; a port that sends nothing costs none. A planted call (a sleeping idle policy) must be seen, so that the test can fail."""

import os
import subprocess
import sys
import time
import unittest

import lcore_calls
import netns
import server

SEND = "sendto"
DEPTHS = (1, 64)
BURST_LEAST = 8  # requests of 64 in flight that an lcore finds together, on average


class EthernetCalls(unittest.TestCase):
    def serve(self, *settings, **options):
        wire = self.enterContext(netns.Wire())
        return self.enterContext(netns.EthernetServer(wire, "lcores.cpus=0", *settings, **options))

    def load(self, depth):
        return subprocess.Popen(
            [str(server.BUILD / "sluice-bench"), "throughput", "-h", netns.THERE, "-p", str(netns.PORT), "-c", "1", "-P", str(depth),
             "--refill", str(depth), "-t", "set,get", "-r", "1000", "--seconds", "600", "--cpu", "1", "-q"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def watched(self, served, depth):
        """Calls of the lcore under load; requests and frames sent meanwhile."""
        load = self.load(depth)
        try:
            start = served.counters()["requests"]
            served.counter_wait("requests", start + 2000, timeout_s=30)
            before = served.counters()
            calls = lcore_calls.calls_of(served.lcore_thread(), lcore_calls.WATCH_S)
            after = served.counters()
            self.assertIsNone(load.poll(), "the load ended early")
            return calls, after["requests"] - before["requests"], after["ethernet_tx_packets"] - before["ethernet_tx_packets"]
        finally:
            load.terminate()
            load.communicate(timeout=30)

    def test_one_send_a_burst_and_nothing_else(self):
        served = self.serve("lcores.idle=spin")
        for depth in DEPTHS:
            calls, requests, frames = self.watched(served, depth)
            self.assertGreater(requests, 100, "the load did not run under strace")
            self.assertEqual(set(calls), {SEND}, f"depth {depth}: {calls}")
            # Counters are read before and after strace: they can only have counted more.
            self.assertLessEqual(calls[SEND], frames, f"depth {depth}: more sends than frames")
            self.assertLessEqual(calls[SEND], requests / min(depth, BURST_LEAST) + 100, f"depth {depth}: bursts are not sent together")
            print(f"depth {depth}: {requests} requests, {frames} frames, {calls[SEND]} sends, no other call", flush=True)

    def test_silence_costs_nothing(self):
        served = self.serve("lcores.idle=spin")
        served.mac()  # one ping: the neighbour is known, the port was used
        time.sleep(0.5)
        self.assertEqual(lcore_calls.calls_of(served.lcore_thread(), lcore_calls.WATCH_S), {})

    def test_a_call_would_be_seen(self):
        served = self.serve("lcores.idle=adaptive")
        self.assertGreater(sum(lcore_calls.calls_of(served.lcore_thread(), lcore_calls.WATCH_S).values()), 0)


def main():
    netns.skip_unless_possible()
    if os.geteuid() != 0 and subprocess.run(["strace", "true"], capture_output=True).returncode != 0:
        server.skip("strace may not trace here")
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
