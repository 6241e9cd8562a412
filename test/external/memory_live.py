"""memory_live.py - memory.limit and memory.policy change while the appliance serves: what it says of its memory adds up, a
lowered limit holds for resident memory, keys go by the policy, and Redis' names do the same."""

import json
import re
import time
import unittest

import server

MIB = 1 << 20
SUM = ("record_bytes", "ghost_bytes", "index_bytes", "limbo_bytes", "session_bytes", "slack_bytes", "free_page_bytes",
       "overhead_bytes")


def request(*words):
    words = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Client:
    def __init__(self, served):
        self.connection = served.connect(timeout_s=30)
        self.file = self.connection.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.connection.close()

    def reply(self):
        line = self.file.readline()
        if line[:1] == b"$" and line != b"$-1\r\n":
            return self.file.read(int(line[1:]) + 2)[:-2]
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        return line.rstrip()

    def ask(self, *words):
        self.connection.sendall(request(*words))
        return self.reply()

    def set_many(self, prefix, first, count, value):
        """What was not OK."""
        refused = []
        for base in range(first, first + count, 100):
            self.connection.sendall(b"".join(request("SET", f"{prefix}:{base + i}", value) for i in range(100)))
            refused += [reply for reply in (self.reply() for _ in range(100)) if reply != b"+OK"]
        return refused


def memory(served):
    return json.loads(served.sluicectl("-j", "memory"))


def resident(served):
    with open(f"/proc/{served.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


class MemoryLive(unittest.TestCase):
    def wait_until(self, condition, what, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, what() if callable(what) else what)
            time.sleep(0.1)

    def test_what_it_says_adds_up(self):
        with server.Server("memory.reserve=256MiB", "memory.limit=128MiB") as served, Client(served) as client:
            self.assertEqual(client.set_many("k", 0, 30000, b"x" * 1000), [])
            for i in range(0, 30000, 3):
                client.ask("DEL", f"k:{i}") if i % 300 == 0 else None
            time.sleep(0.2)
            got = memory(served)
            self.assertEqual(sum(got[name] for name in SUM), got["total_bytes"])
            self.assertLessEqual(got["total_bytes"], got["limit_bytes"])
            self.assertGreater(got["session_bytes"], 0)
            self.assertEqual(got["record_bytes"], 29900 * 1024)
            self.assertGreater(got["ghost_bytes"], 0)
            self.assertLessEqual(got["ghost_bytes"], 100 * 32)
            info = dict(re.findall(r"(\w+):(.*)\r", client.ask("INFO", "memory").decode()))
            self.assertEqual(info["maxmemory_policy"], "noeviction")
            self.assertEqual(int(info["maxmemory"]), 128 * MIB)
            parts = ("records", "ghosts", "index", "limbo", "sessions", "slack", "free", "overhead")
            self.assertEqual(sum(int(info[f"memory_{part}"]) for part in parts), int(info["memory_total"]))
            self.assertIn("total_bytes", served.sluicectl("memory"))

    def test_a_lowered_limit_holds_for_resident_memory(self):
        with server.Server("memory.reserve=512MiB", "memory.limit=512MiB", "memory.policy=allkeys-lru") as served, \
                Client(served) as client:
            empty = resident(served)
            self.assertEqual(client.set_many("k", 0, 250000, b"x" * 1000), [])
            self.assertGreater(resident(served) - empty, 200 * MIB)
            self.assertEqual(memory(served)["evicted_keys"], 0)
            served.sluicectl("config", "set", "memory.limit", "128MiB")
            self.wait_until(lambda: memory(served)["total_bytes"] <= 128 * MIB, lambda: f"not below the limit: {memory(served)}")
            self.wait_until(lambda: resident(served) - empty <= 128 * MIB, "resident memory is not below the new limit")
            got = memory(served)
            self.assertGreater(got["evicted_keys"], 100000)
            self.assertGreater(got["keys"], 50000, "more went than was needed")
            self.assertEqual(client.set_many("again", 0, 100000, b"y" * 1000), [], "a cache refuses nothing")
            self.assertLessEqual(memory(served)["total_bytes"], 128 * MIB)
            self.assertEqual(client.ask("GET", "again:99999"), b"y" * 1000)

    def test_without_a_policy_writes_are_refused_until_commands_removed_enough(self):
        with server.Server("memory.reserve=256MiB", "memory.limit=256MiB") as served, Client(served) as client:
            self.assertEqual(client.set_many("k", 0, 100000, b"x" * 1000), [])
            self.assertEqual(client.ask("CONFIG", "SET", "maxmemory", "64mb"), b"+OK")
            self.assertEqual(client.ask("CONFIG", "GET", "maxmemory"), [b"maxmemory", b"%d" % (64 * MIB)])
            self.wait_until(lambda: client.ask("SET", "new", b"x" * 1000).startswith(b"-OOM"), "a write was not refused")
            self.assertEqual(client.ask("DBSIZE")[:1], b":")
            self.assertEqual(client.ask("GET", "k:99999"), b"x" * 1000, "nothing goes without a policy")
            for base in range(0, 80000, 100):
                client.connection.sendall(b"".join(request("DEL", f"k:{base + i}") for i in range(100)))
                for _ in range(100):
                    self.assertEqual(client.reply(), b":1")
            self.wait_until(lambda: client.ask("SET", "new", b"x" * 1000) == b"+OK", "no room after DEL")
            self.wait_until(lambda: memory(served)["total_bytes"] <= 64 * MIB, "memory does not come back")
            self.assertEqual(client.ask("GET", "k:99999"), b"x" * 1000)

    def test_names_and_errors(self):
        with server.Server("memory.reserve=256MiB", "memory.limit=128MiB") as served, Client(served) as client:
            self.assertEqual(client.ask("CONFIG", "GET", "maxmemory-policy"), [b"maxmemory-policy", b"noeviction"])
            for policy in (b"allkeys-lru", b"allkeys-lfu", b"allkeys-random", b"volatile-lru", b"volatile-lfu",
                           b"volatile-random", b"volatile-ttl", b"noeviction"):
                self.assertEqual(client.ask("CONFIG", "SET", "maxmemory-policy", policy), b"+OK")
                self.assertEqual(client.ask("CONFIG", "GET", "memory.policy"), [b"memory.policy", policy])
                self.assertEqual(memory(served)["policy"], policy.decode())
            before = client.ask("CONFIG", "GET", "maxmemory")
            for words in (("maxmemory", "1"), ("maxmemory", "300mb"), ("maxmemory", "x"), ("maxmemory-policy", "lru"),
                          ("memory.policy", "allkeys-lru", "maxmemory", "1"), ("memory.reserve", "1GiB")):
                self.assertTrue(client.ask("CONFIG", "SET", *words).startswith(b"-ERR"), words)
            self.assertEqual(client.ask("CONFIG", "GET", "maxmemory"), before)
            self.assertEqual(client.ask("CONFIG", "GET", "memory.policy"), [b"memory.policy", b"noeviction"])
            self.assertEqual(client.ask("CONFIG", "SET", "maxmemory", "0"), b"+OK")
            self.assertEqual(client.ask("CONFIG", "GET", "maxmemory"), [b"maxmemory", b"%d" % (256 * MIB)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
