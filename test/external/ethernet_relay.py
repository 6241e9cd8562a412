"""ethernet_relay.py - a bad network between client and ethernet port: frames are lost, late, out of order, doubled, damaged and cut,
and every reply is right. The harm is drawn from a seed (test/dataplane/relay.c).

    ethernet_relay.py [--requests N] [--seed N]"""

import argparse
import collections
import random
import selectors
import socket
import subprocess
import sys
import time
import unittest

import fabric
import netns
import server

HARM = {"loss": 0.01, "duplicate": 0.02, "reorder": 0.03, "delay": 0.01, "corrupt": 0.01, "truncate": 0.005}
CONNECTIONS = 200
BATCH = 50  # requests of one connection in flight
SECONDS_MOST = 600
ETHERTYPE = b"\x88\xb5"  # IEEE 802: for experiments on a link of one's own

requests_wanted, seed = 1000000, 1


class Conversation:
    """One connection: batches of requests whose answers are known to the byte."""

    def __init__(self, number, batches):
        self.random = random.Random(f"{seed}/{number}")
        self.number, self.batches = number, batches
        self.count, self.values = 0, {}
        self.unsent = self.wanted = b""
        self.next()

    def next(self):
        """False: there are no more."""
        if self.batches == 0:
            return False
        self.batches -= 1
        send, expect = [], []
        for _ in range(BATCH):
            key = f"k:{self.number}:{self.random.randrange(10)}"
            kind = self.random.randrange(4)
            if kind == 0:
                self.count += 1
                send.append(fabric.resp_request("INCR", f"count:{self.number}"))
                expect.append(b":%d\r\n" % self.count)
            elif kind == 1:
                value = self.values[key] = self.random.randbytes(self.random.choice((1, 20, 20, 300)))
                send.append(fabric.resp_request("SET", key, value))
                expect.append(b"+OK\r\n")
            else:
                value = self.values.get(key)
                send.append(fabric.resp_request("GET", key))
                expect.append(b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value))
        self.unsent, self.wanted = b"".join(send), b"".join(expect)
        return True

    def received(self, data):
        assert self.wanted.startswith(data), f"connection {self.number}: expected {self.wanted[:200]!r}, got {data[:200]!r}"
        self.wanted = self.wanted[len(data):]


def converse(served, requests):
    """Every answer of so many requests is checked; returns the seconds it took."""
    batches = requests // (CONNECTIONS * BATCH)
    begun, selector = time.monotonic(), selectors.DefaultSelector()
    for number in range(CONNECTIONS):
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex((served.host, served.port))
        selector.register(connection, selectors.EVENT_WRITE, Conversation(number, batches))
    done = []
    while selector.get_map():
        if time.monotonic() > begun + SECONDS_MOST:
            raise AssertionError(f"{len(selector.get_map())} connections are not through after {SECONDS_MOST} s")
        for key, _ in selector.select(1):
            conversation, connection = key.data, key.fileobj
            if conversation.unsent:
                conversation.unsent = conversation.unsent[connection.send(conversation.unsent):]
            else:
                data = connection.recv(1 << 16)
                assert data, f"connection {conversation.number} was closed"
                conversation.received(data)
            if not conversation.wanted and not conversation.unsent and not conversation.next():
                selector.unregister(connection)
                connection.close()
                done.append(conversation)
                continue
            selector.modify(connection, selectors.EVENT_WRITE if conversation.unsent else selectors.EVENT_READ, conversation)
    with served.connect("unix") as check:
        for conversation in done:
            count = fabric.resp_call(check, "GET", f"count:{conversation.number}")
            assert count == b"%d" % conversation.count, f"count of {conversation.number}: {count}, expected {conversation.count}"
    return time.monotonic() - begun


class Relay(unittest.TestCase):
    def decisions(self, seed_of, count=20000):
        words = [server.BUILD / "test" / "dataplane" / "relay", str(seed_of), "decisions", str(count), "loss=0.1", "corrupt=0.02"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    def test_a_seed_decides_and_another_decides_otherwise(self):
        first = self.decisions(7)
        self.assertEqual(first, self.decisions(7))
        self.assertNotEqual(first, self.decisions(8))
        found = collections.Counter(word for line in first for word in line.split()[1:-1])
        self.assertAlmostEqual(found["loss"] / len(first), 0.1, delta=0.01)
        self.assertAlmostEqual(found["corrupt"] / len(first), 0.02, delta=0.005)
        self.assertEqual(set(found), {"loss", "corrupt"})

    def passed(self, frames):
        """What of these frames comes out at the other end, and what the relay says it did."""
        with netns.Relayed(seed, loss=0.1, duplicate=0.1, reorder=0.1, truncate=0.1, hold=500) as wire:
            ends = []
            for side, link in ((wire.server, "wire0"), (wire.client, "wire1")):
                side.enter()
                ends.append(self.enterContext(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(int.from_bytes(ETHERTYPE, "big")))))
                ends[-1].bind((link, int.from_bytes(ETHERTYPE, "big")))
                ends[-1].settimeout(0.5)
                ends[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
            there, here = ends
            for frame in frames:
                here.send(frame)
            got = []
            try:
                while True:
                    got.append(there.recv(2048))
            except TimeoutError:
                return got, wire.relay_end()

    def test_the_same_frames_suffer_the_same_again(self):
        frames = [b"\xff" * 6 + b"\x02\0\0\0\0\1" + ETHERTYPE + number.to_bytes(4, "big") * 20 for number in range(500)]
        first, did = self.passed(frames)
        self.assertGreater(did["loss"], 20)
        self.assertGreater(did["truncate"], 20)
        self.assertEqual(did["overrun"], 0)
        whole = [frame for frame in first if frame in frames]
        self.assertNotEqual(whole, sorted(whole), "nothing was reordered")
        self.assertLess(len(set(whole)), len(whole), "nothing was doubled")
        again, did_again = self.passed(frames)
        self.assertEqual((sorted(again), did_again), (sorted(first), did))


class BadNetwork(unittest.TestCase):
    def test_every_reply_is_right(self):
        with netns.Relayed(seed, **HARM) as wire, netns.EthernetServer(wire) as served:
            before = served.counters()
            seconds = converse(served, requests_wanted)
            counters = served.counters()
            did = wire.relay_end()
            print(f"{requests_wanted} requests in {seconds:.1f} s, seed {seed}; the relay: {did}", flush=True)
            self.assertGreaterEqual(counters["requests"] - before["requests"], requests_wanted)
            for kind in HARM:
                self.assertGreater(did[kind], 0, kind)
            if netns.STACK == "port":
                for name in ("ethernet_checksum_errors", "ethernet_retransmits"):
                    self.assertGreater(counters[name], before[name], name)


def main():
    global requests_wanted, seed
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=requests_wanted)
    parser.add_argument("--seed", type=int, default=seed)
    options, rest = parser.parse_known_args()
    requests_wanted, seed = options.requests, options.seed
    netns.skip_unless_possible()
    unittest.main(argv=[sys.argv[0], "-v", *rest])


if __name__ == "__main__":
    main()
