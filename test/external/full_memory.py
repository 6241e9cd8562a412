"""full_memory.py - the store is filled to memory.limit: every request is answered, reads and what shrinks work, the lcore is
not busy with requests that cannot run, expired keys go and make room."""

import json
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
                # emptied pages may have made room meanwhile
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
            # larger than what is kept for sessions: an answer, whichever
            self.assertRegex(ask(served, "GET", f"fill:{MIB - 64}:0"), rb"^(\$|-OOM)")

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
