"""redis_cli.py - redis-cli as a person uses it: one command at a time, typed, from a pipe, over TCP and a Unix socket."""

import os
import pty
import select
import subprocess
import time
import unittest

import server


class RedisCli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = server.Server()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.assertEqual(self.cli("FLUSHALL"), "OK\n")

    def cli(self, *words, stdin="", flags=()):
        result = subprocess.run(["redis-cli", "-p", str(self.server.port), *flags, *words], input=stdin, text=True,
                                capture_output=True, timeout=30)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def test_one_shot_over_tcp_and_unix(self):
        self.assertEqual(self.cli("SET", "a", "1"), "OK\n")
        self.assertEqual(self.cli("GET", "a"), "1\n")
        over_unix = subprocess.run(["redis-cli", "-s", self.server.unix, "GET", "a"], capture_output=True, text=True)
        self.assertEqual(over_unix.stdout, "1\n")

    def test_scan(self):
        self.assertEqual(self.cli("--scan"), "")
        keys = {f"key:{number}" for number in range(500)}
        self.cli(stdin="".join(f"SET {key} v\n" for key in keys))
        self.assertEqual(sorted(self.cli("--scan").split()), sorted(keys))
        self.assertEqual(set(self.cli("--scan", "--pattern", "*7").split()), {key for key in keys if key.endswith("7")})

    def test_values_from_standard_input(self):
        self.assertEqual(self.cli("SET", "a", stdin="line one\nline two", flags=["-x"]), "OK\n")
        self.assertEqual(self.cli("--raw", "GET", "a"), "line one\nline two\n")

    def test_resp3(self):
        self.cli("HSET", "h", "f", "v")
        self.assertEqual(self.cli("HGETALL", "h", flags=["-3", "--no-raw"]), '1# "f" => "v"\n')
        self.assertEqual(self.cli("GET", "none", flags=["-3", "--no-raw"]), "(nil)\n")

    def test_repeats(self):
        self.assertEqual(self.cli("INCR", "n", flags=["-r", "5"]), "1\n2\n3\n4\n5\n")

    def test_commands_from_a_pipe(self):
        self.assertEqual(self.cli(stdin="SET a 1\nINCR a\nGET a\n"), "OK\n2\n2\n")

    def test_mass_insertion(self):
        requests = "".join(f"*3\r\n$3\r\nSET\r\n$2\r\nk{n}\r\n$1\r\n{n}\r\n" for n in range(5))
        self.assertIn("errors: 0, replies: 5", self.cli(stdin=requests, flags=["--pipe"]))
        self.assertEqual(self.cli("DBSIZE"), "5\n")

    def test_info_and_config_read_well(self):
        info = self.cli("INFO")
        self.assertIn("redis_version:7.0.15", info)
        self.assertTrue("sluice_version:" in info, "INFO without sluice_version")
        self.assertIn("streams.port", self.cli("CONFIG", "GET", "streams.port"))

    def typed(self, *lines):
        """What a terminal shows while these lines are typed."""
        child, master = pty.fork()
        if child == 0:
            os.environ["TERM"] = "dumb"
            os.execvp("redis-cli", ["redis-cli", "-p", str(self.server.port)])
        shown = b""
        try:
            for line in lines:
                os.write(master, line.encode() + b"\n")
                deadline = time.monotonic() + 10
                before = len(shown)
                # The prompt comes back when the answer is there.
                while b"> " not in shown[before:].split(b"\n")[-1] or shown[before:].count(b"\n") < 2:
                    if not select.select([master], [], [], max(0, deadline - time.monotonic()))[0]:
                        self.fail(f"no answer to '{line}': {shown!r}")
                    shown += os.read(master, 4096)
            os.write(master, b"quit\n")
        finally:
            os.waitpid(child, 0)
            os.close(master)
        return shown.decode().replace("\r", "")

    def test_typed_at_its_prompt(self):
        shown = self.typed("SET greeting hello", "GET greeting", "ZADD z 1.5 m", "HGET none f", "NOSUCH", "GET")
        self.assertIn('"hello"', shown)
        self.assertIn("(integer) 1", shown)
        self.assertIn("(nil)", shown)
        self.assertIn("(error) ERR unknown command 'NOSUCH'", shown)
        self.assertIn("(error) ERR wrong number of arguments for 'get' command", shown)


if __name__ == "__main__":
    unittest.main(verbosity=2)
