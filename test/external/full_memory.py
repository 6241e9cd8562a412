"""full_memory.py - the store is filled to memory.limit: every request is answered, reads and what shrinks work, the lcore is
not busy with requests that cannot run, expired keys go and make room; on a machine with too little CPU too, and beside
clients that do not read."""

import json
import os
import socket
import subprocess
import sys
import time
import unittest

import server

MIB = 1 << 20


def request(*words):
    words = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def line_of(connection):
    data = b""
    while not data.endswith(b"\r\n"):
        got = connection.recv(1)
        if not got:
            raise AssertionError(f"closed after {data!r}")
        data += got
    return data[:-2]


def ask(served, *words, pieces=1):
    """First line of the reply on a connection of its own; the request in so many pieces."""
    data = request(*words)
    with served.connect(timeout_s=20) as connection:
        size = -(-len(data) // pieces)
        for at in range(0, len(data), size):
            connection.sendall(data[at:at + size])
            if pieces > 1:
                time.sleep(0.02)
        return line_of(connection)


class FullMemory(unittest.TestCase):
    def fill(self, served):
        with served.connect(timeout_s=20) as connection:
            for bytes_count in (MIB - 64, 4000, 100):
                for i in range(100000):
                    connection.sendall(request("SET", f"fill:{bytes_count}:{i}", b"x" * bytes_count))
                    if line_of(connection).startswith(b"-OOM"):
                        break
                else:
                    self.fail("the limit was never reached")

    def test_every_request_is_answered(self):
        with server.Server("memory.reserve=64MiB", "memory.limit=64MiB") as served:
            self.fill(served)
            rows = (
                (("GET", "fill:4000:0"), b"$4000"), (("GET", "absent"), b"$-1"), (("STRLEN", "fill:4000:0"), b":4000"),
                # +OK is right: "full" is what a SET of 100 bytes was told. One of another size finds a free block in a page
                # of its own class, and pages that were emptied meanwhile serve any. What was accepted is read back below.
                (("SET", "new", b"x" * 30000), (b"-OOM", b"+OK")), (("SET", "new", b"x" * 300000), (b"-OOM", b"+OK")),
                (("INCR", "small"), (b"-OOM", b":")), (("HSET", "h", "f", "v"), (b"-OOM", b":")), (("DEL", "absent"), b":0"),
                (("EXPIRE", "absent", "5"), b":0"), (("PERSIST", "absent"), b":0"), (("HDEL", "absent", "f"), b":0"),
                (("ZREM", "absent", "m"), b":0"), (("EXPIRE", "fill:4000:0", "100"), b":1"),
                (("DEL", "fill:4000:1"), b":1"), (("PING",), b"+PONG"), (("INFO", "memory"), b"$"), (("DBSIZE",), b":"),
            )
            for words, expected in rows:
                for pieces in (1, 2):
                    if words[:2] == ("DEL", "fill:4000:1") and pieces == 2:
                        continue
                    line = ask(served, *words, pieces=pieces)
                    name = f"{words[0]} {words[1] if len(words) > 1 else ''} in {pieces}: {line[:80]!r}"
                    self.assertTrue(line.startswith(expected), name)
            self.assertIn(ask(served, "STRLEN", "new"), (b":0", b":30000", b":300000"))
            for _ in range(3):  # larger than all that is free
                self.assertEqual(ask(served, "GET", f"fill:{MIB - 64}:0"), b"$%d" % (MIB - 64))

            before = json.loads(served.sluicectl("-j", "lcores"))["lcores"][0]
            time.sleep(1)
            after = json.loads(served.sluicectl("-j", "lcores"))["lcores"][0]
            self.assertLess(after["turns"] - before["turns"], 200000, "spins on requests that cannot run")

            for i in range(20):
                self.assertIn(ask(served, "DEL", f"fill:{MIB - 64}:{i}"), (b":1", b":0"))
            deadline = time.monotonic() + 20
            while ask(served, "SET", "new", b"x" * 300000) != b"+OK":
                self.assertLess(time.monotonic(), deadline, "no room although 20 MiB were deleted")

    def test_looking_for_absent_keys_takes_no_memory(self):
        with server.Server() as served, served.connect() as connection:
            def index_bytes():
                return int(json.loads(served.sluicectl("-j", "memory"))["index_bytes"])

            before = index_bytes()
            for base in range(0, 50000, 1000):
                connection.sendall(b"".join(request("DEL", f"absent:{base + i}") for i in range(1000)))
                for _ in range(1000):
                    self.assertEqual(line_of(connection), b":0")
            self.assertLessEqual(index_bytes(), before)

    def test_expired_keys_go_although_nobody_asks(self):
        with server.Server() as served, served.connect() as connection:
            for base in range(0, 100000, 1000):
                connection.sendall(b"".join(request("SET", f"short:{base + i}", "v", "PX", "50") for i in range(1000)))
                for _ in range(1000):
                    self.assertEqual(line_of(connection), b"+OK")
            deadline = time.monotonic() + 30
            while (left := int(ask(served, "DBSIZE")[1:])) > 0:
                self.assertLess(time.monotonic(), deadline, f"{left} expired keys are still there")
                time.sleep(0.2)


class Client:
    def __init__(self, served):
        self.connection = served.connect(timeout_s=60)
        self.file = self.connection.makefile("rb")

    def close(self):
        self.file.close()
        self.connection.close()

    def reply(self):
        line = self.file.readline()
        if not line:
            raise AssertionError("closed")
        if line[:1] == b"$" and line != b"$-1\r\n":
            return self.file.read(int(line[1:]) + 2)[:-2]
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        return line.rstrip()

    def ask(self, *words):
        self.connection.sendall(request(*words))
        return self.reply()

    def pipeline(self, requests):
        self.connection.sendall(b"".join(request(*words) for words in requests))
        return [self.reply() for _ in requests]


class TooLittleCpu(unittest.TestCase):
    """The management core comes late: what is full is seen late, and pages come late."""
    VALUE = b"x" * 1000
    LARGE = b"y" * (MIB - 100)
    FIELDS = 300
    HASHES = 10

    def load_begin(self):
        for _ in range(3 * len(os.sched_getaffinity(0))):
            process = subprocess.Popen(["nice", "-n", "5", sys.executable, "-c", "while True: pass"])
            self.addCleanup(lambda process=process: (process.kill(), process.wait()))

    def prepare(self, client):
        for base in range(0, 100000, 1000):
            client.pipeline([("SET", f"small:{base + i}", "v") for i in range(1000)])
        self.assertEqual(client.ask("FLUSHALL"), b"+OK")
        self.assertEqual(client.ask("CONFIG", "SET", "maxmemory", "64mb"), b"+OK")
        for i in range(self.HASHES):
            pairs = [word for k in range(self.FIELDS) for word in (f"f{k}", "x" * 100)]
            self.assertEqual(client.ask("HSET", f"hash:{i}", *pairs), b":%d" % self.FIELDS)
        for i in range(3):
            self.assertEqual(client.ask("SET", f"large:{i}", self.LARGE), b"+OK")

    def fill(self, client, most):
        """In pipelines of 200, until one is refused."""
        for base in range(0, most, 200):
            replies = client.pipeline([("SET", f"k:{base + i}", self.VALUE) for i in range(200)])
            refused = [reply for reply in replies if reply != b"+OK"]
            self.assertTrue(all(reply.startswith(b"-OOM") for reply in refused), refused[:1])
            if refused:
                return base
        return most

    def test_without_a_policy_what_reads_and_shrinks_works(self):
        with server.Server("memory.reserve=64MiB", "memory.limit=64MiB") as served:
            client = Client(served)
            self.addCleanup(client.close)
            self.prepare(client)
            self.load_begin()
            count = self.fill(client, 200000)
            self.assertTrue(10000 < count < 200000, count)
            for i in range(self.HASHES):
                other = Client(served)
                self.assertEqual(other.ask("HDEL", f"hash:{i}", "f1", "f2"), b":2")
                self.assertEqual(len(other.ask("HGETALL", f"hash:{i}")), 2 * (self.FIELDS - 2))
                self.assertEqual(other.ask("GET", "large:0"), self.LARGE)
                self.assertEqual(other.ask("MGET", "large:0", "large:1", "large:2"), [self.LARGE] * 3)
                self.assertEqual(other.ask("EXPIRE", f"k:{i + 100}", "1000"), b":1")
                self.assertEqual(other.ask("DEL", *(f"k:{i}:{'long' * 250}" for i in range(900))), b":0")
                self.assertEqual(other.ask("DEL", f"k:{i}"), b":1")
                self.fill(client, 200)
                other.close()
            counters = served.counters()
            for name in ("closed_no_memory", "closed_hindering", "closed_output_limit"):
                self.assertEqual(counters[name], 0, name)

    def test_a_cache_refuses_nothing(self):
        with server.Server("memory.reserve=64MiB", "memory.limit=64MiB", "memory.policy=allkeys-lru") as served:
            client = Client(served)
            self.addCleanup(client.close)
            self.prepare(client)
            self.load_begin()
            self.assertEqual(self.fill(client, 45000), 45000)
            self.assertEqual(client.ask("SET", "large:0", self.LARGE), b"+OK")
            self.assertEqual(client.ask("GET", "large:0"), self.LARGE)
            self.assertEqual(client.ask("HSET", "hash:0", "f", "v"), b":1")
            self.assertEqual(client.ask("HDEL", "hash:0", "f"), b":1")


class NeverRead(unittest.TestCase):
    def deaf(self, served, requests):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((served.host, served.port))
        connection.sendall(requests)
        self.addCleanup(connection.close)
        return connection

    def test_who_does_not_read_does_not_keep_others_from_reading(self):
        with server.Server("memory.reserve=64MiB", "memory.limit=64MiB") as served:
            client = Client(served)
            self.addCleanup(client.close)
            large = b"y" * (MIB - 100)
            for i in range(4):
                self.assertEqual(client.ask("SET", f"large:{i}", large), b"+OK")
            self.assertEqual(client.ask("SET", "short", "value"), b"+OK")
            for size in (100000, 10000, 1000):
                for base in range(0, 200000, 100):
                    if any(line != b"+OK" for line in client.pipeline([("SET", f"k:{size}:{base + i}", b"x" * size)
                                                                       for i in range(100)])):
                        break
            for _ in range(4):  # more than the kernel's buffers hold
                self.deaf(served, request("MGET", *(f"large:{i % 4}" for i in range(3))) * 8)
            time.sleep(0.2)
            begun = time.monotonic()
            self.assertEqual(client.ask("GET", "short"), b"value")
            self.assertLess(time.monotonic() - begun, 2)
            for _ in range(5):
                begun = time.monotonic()
                self.assertEqual(client.ask("GET", "large:0"), large)
                self.assertLess(time.monotonic() - begun, 15)


if __name__ == "__main__":
    unittest.main(verbosity=2)
