"""sweep.py - sluice-bench sweep against a running sluiced over kernel TCP, a Unix socket and the fabric, and against servers
that answer wrongly: what is measured, what is compared, what is noticed, and what is left behind."""

import csv
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import fabric
from server import BUILD, ROOT, SKIPPED, Server, environment

BENCH = str(BUILD / "sluice-bench")
TIMEOUT_S = 90
HEADER = ["label", "operation", "size_bytes", "iterations", "time_us", "bytes_per_second", "mean_us", "min_us", "max_us",
          "values"]


def sweep(*words, use_efa=None):
    """Exit code, stdout, stderr."""
    env = {name: value for name, value in environment().items() if name != "USE_EFA"}
    if use_efa is not None:
        env["USE_EFA"] = use_efa
    result = subprocess.run([BENCH, "sweep", *words], capture_output=True, text=True, timeout=TIMEOUT_S, env=env)
    return result.returncode, result.stdout, result.stderr


def table(text):
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == HEADER, rows[0]
    return [dict(zip(HEADER, row)) for row in rows[1:]]


class Measured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = fabric.server_open(fabric.port("shm"), fabric.port("net"), fabric.port("net", name="net2"),
                                        fabric.port("tcp;ofi_rxm"))
        cls.where = ["-p", str(cls.server.port), "-s", cls.server.unix]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def check_rows(self, rows, labels, sizes, iterations):
        self.assertEqual([(row["operation"], int(row["size_bytes"]), row["label"]) for row in rows],
                         [(operation, size, label) for size in sizes for operation in ("SET", "GET") for label in labels])
        for row in rows:
            low, mean, median, high = (float(row[name]) for name in ("min_us", "mean_us", "time_us", "max_us"))
            self.assertTrue(0 < low <= median <= high and low <= mean <= high, row)
            self.assertEqual(int(row["iterations"]), iterations)
            self.assertAlmostEqual(float(row["bytes_per_second"]) * median / 1e6 / int(row["size_bytes"]), 1, 3)

    def test_every_transport_and_wire_beside_another_one(self):
        for wire, name in (("resp2", "resp"), ("resp3", "resp3"), ("sbe", "sbe")):
            for pair, labels in (("shm:tcp", ("shm-{}-auto", "kernel-tcp-{}")), ("unix:net", ("unix-{}", "net-{}-auto")),
                                 ("tcp;ofi_rxm:none", ("tcp-rxm-{}-auto", "kernel-tcp-{}"))):
                with self.subTest(pair=pair, wire=wire):
                    code, out, error = sweep(*self.where, "--vs", pair, "--wire", wire, "-b", "1", "-e", "3M", "-f", "145",
                                             "-n", "3", "-w", "1", "--csv")
                    self.assertEqual(code, 0, error)
                    rows = table(out)
                    self.check_rows(rows, [label.format(name) for label in labels], [1, 145, 21025, 145 ** 3], 3)
                    self.assertEqual({row["values"] for row in rows[-2:]}, {"3"})
        self.assertEqual(self.server.ctl("status")["keys"], 0)

    def test_rails_over_two_ports_and_over_streams(self):
        for words, labels in (
                (["--provider", "net", "--rail-port", "net,net2"], ["net-resp-auto-2rails", "net-resp-auto"]),
                (["--vs", "net:tcp", "--rail-port", "net,net2"], ["net-resp-auto-2rails", "net-resp-auto", "kernel-tcp-resp"]),
                (["--vs", "shm:unix"], ["shm-resp-auto-2rails", "shm-resp-auto", "unix-resp"]),
                (["--vs", "unix:tcp"], ["unix-resp-2rails", "unix-resp", "kernel-tcp-resp"]),
                (["--vs", "tcp:unix", "--at", f"tcp=127.0.0.1:{self.server.port},localhost:{self.server.port}"],
                 ["kernel-tcp-resp-2rails", "kernel-tcp-resp", "unix-resp"])):
            with self.subTest(words=words):
                code, out, error = sweep(*self.where, *words, "--rails", "2", "-b", "64k", "-e", "2M", "-f", "32", "-n", "3",
                                         "-w", "1", "--csv")
                self.assertEqual(code, 0, error)
                rows = table(out)
                self.check_rows(rows, labels, [65536, 2097152], 3)
                self.assertEqual([row["values"] for row in rows[-1:]], ["2"])

    def test_columns_are_those_of_the_report(self):
        code, out, error = sweep(*self.where, "--vs", "shm:none", "--rails", "2", "-b", "8", "-e", "512", "-f", "8", "-n", "2")
        self.assertEqual(code, 0, error)
        self.assertRegex(out, r"\n *size +2 shm +1 shm +none +1 shm / none +2 shm / none +2 shm / 1 shm\n")
        self.assertRegex(out, r"\n *512 B( +\d+\.\d{4}){3}( +\d+\.\d\d){3}\n")
        code, out, error = sweep(*self.where, "--vs", "unix:tcp", "-b", "8", "-e", "8", "-n", "2", "--markdown")
        self.assertEqual(code, 0, error)
        self.assertRegex(out, r"\n\| size \| unix \| tcp \| unix / tcp \|\n\|[-:| ]+\|\n\| 8 B \| [0-9. |]+\|\n")

    def test_a_folder_gets_rows_and_what_they_were_measured_on(self):
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "new", "result")
            for provider in ("shm", "net"):
                code, _, error = sweep(*self.where, "--provider", provider, "-b", "8", "-e", "64", "-f", "8", "-n", "2",
                                       "--out", target)
                self.assertEqual(code, 0, error)
            rows = table(pathlib.Path(target, "sweep.csv").read_text())
            self.assertEqual([row["label"] for row in rows], ["shm-resp-auto"] * 4 + ["net-resp-auto"] * 4)
            metadata = pathlib.Path(target, "metadata.json").read_text()
            self.assertIn("fabric shm", metadata)
            json.loads(metadata)
            for words, code_wanted, labels in ((["--vs", "efa:tcp"], 1, ["efa-resp-auto"]),
                                               (["--provider", "efa"], 3, ["efa-resp-auto"] * 2)):
                code, out, error = sweep(*self.where, *words, "-b", "8", "-e", "8", "-n", "2", "--csv", "--out", target)
                self.assertEqual(code, code_wanted, error)
                self.assertIn("efa-resp-auto is unavailable", error)
                unavailable = list(csv.reader(pathlib.Path(target, "unavailable.csv").read_text().splitlines()))
                self.assertEqual([row[0] for row in unavailable], ["label", *labels])
            self.assertNotIn("efa", pathlib.Path(target, "sweep.csv").read_text())

    def test_one_variable_takes_efa_away(self):
        for words in (["--provider", "efa", *self.where], ["--provider", "efa", "--at", f"efa=127.0.0.1:{self.server.port}"]):
            with tempfile.TemporaryDirectory() as folder:
                code, out, error = sweep(*words, "-b", "8", "-e", "8", "-n", "2", "--out", folder, use_efa="false")
                self.assertEqual(code, 0, error)
                run = json.loads(pathlib.Path(folder, "metadata.json").read_text())["runs"][-1]
                self.assertEqual(run["USE_EFA"], "false")
                self.assertEqual({row["label"] for row in table(pathlib.Path(folder, "sweep.csv").read_text())},
                                 {"kernel-tcp-resp"})
            self.assertIn(f"kernel-tcp-resp: tcp 127.0.0.1:{self.server.port}", out)
            self.assertIn("USE_EFA=false", out)
        code, _, error = sweep(*self.where, "-b", "8", "-e", "8", "-n", "2", use_efa="true")
        self.assertEqual(code, 3)
        self.assertIn("efa-resp-auto is unavailable", error)
        self.assertEqual(sweep(*self.where, use_efa="perhaps")[0], 2)
        self.assertEqual(sweep(*self.where, "--vs", "efa:none", use_efa="false")[0], 2)

    def test_ctrl_c_keeps_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            bench = subprocess.Popen([BENCH, "sweep", *self.where, "--vs", "shm:tcp", "--rails", "2", "-b", "64k", "-e", "8M",
                                      "-n", "40", "--csv", "--out", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     text=True, env=environment())
            out = "".join(bench.stdout.readline() for _ in range(4))
            bench.send_signal(signal.SIGINT)
            rest, error = bench.communicate(timeout=TIMEOUT_S)
            self.assertEqual(bench.returncode, 130, error)
            self.assertIn("interrupted", error)
            rows = table(out + rest)
            self.assertGreaterEqual(len(rows), 3)
            self.assertLess(int(rows[-1]["size_bytes"]), 8 << 20)
            self.assertEqual(table(pathlib.Path(folder, "sweep.csv").read_text()), rows)
            self.assertIn("interrupted", pathlib.Path(folder, "metadata.json").read_text())
        self.assertEqual(self.server.ctl("status")["keys"], 0)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([BENCH, "sweep", *self.where, "-b", "8", "-e", "8", "-n", "1", "--csv"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, env=environment())
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot be written", result.stderr)


class TooLarge(unittest.TestCase):
    def test_sizes_above_the_memory_of_the_server_are_left_out(self):
        with Server("memory.limit=96MiB", "memory.reserve=128MiB", "memory.ahead=4MiB", "store.keys_expected=2000") as server:
            for policy, why in (("noeviction", "OOM"), ("allkeys-lru", "a value is gone")):
                server.sluicectl("config", "set", "memory.policy", policy)
                code, out, error = sweep("-p", str(server.port), "-b", "4M", "-e", "256M", "-f", "4", "-n", "2", "-w", "0",
                                         "--csv")
                self.assertEqual(code, 0, error)
                self.assertRegex(error, f"kernel-tcp-resp, (64|256) MiB: .*{why}.*larger ones are left out")
                rows = table(out)
                self.assertLessEqual({4 << 20, 16 << 20}, {int(row["size_bytes"]) for row in rows})
                self.assertNotIn(256 << 20, {int(row["size_bytes"]) for row in rows})
                self.assertEqual(server.ctl("status")["keys"], 0)


class Memcached(unittest.TestCase):
    """The real one, unpacked; where it cannot be had this class is skipped."""

    def test_stands_beside_and_is_left_empty(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        peers = [ROOT / "tools/peers"]
        started = subprocess.run([*peers, "start", "memcached", str(port)], capture_output=True, text=True, timeout=TIMEOUT_S)
        if started.returncode == SKIPPED:
            self.skipTest(started.stderr.splitlines()[-1])
        self.assertEqual(started.returncode, 0, started.stderr)
        try:
            with Server() as server:
                code, out, error = sweep("-p", str(server.port), "--vs", "memcached:tcp", "--at", f"memcached=127.0.0.1:{port}",
                                         "--rails", "2", "-b", "8", "-e", "2M", "-f", "512", "-n", "3", "--csv")
            self.assertEqual(code, 0, error)
            rows = table(out)
            self.assertEqual([row["label"] for row in rows],
                             ["memcached-2rails", "memcached", "kernel-tcp-resp"] * (2 * 3))
            code, _, error = sweep("-b", "8", "-e", "8", "-n", "1", "-p", str(port))  # it speaks no RESP
            self.assertEqual(code, 1, error)
            self.assertIn("not RESP", error)
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                connection.sendall(b"stats\r\n")
                stats = b""
                while not stats.endswith(b"END\r\n"):
                    stats += connection.recv(65536)
            self.assertIn(b"STAT curr_items 0\r\n", stats)
        finally:
            subprocess.run([*peers, "stop", "memcached", str(port)], check=True, timeout=TIMEOUT_S)
            (ROOT / f"build/peers/memcached-{port}.log").unlink()


class FakeServer:
    """GET, SET and DEL in RESP2 on a port of its own. `answer(connection, name, nth, key, reply)` may put something else in
    place of a reply: bytes, or None to close. Connection 0 is the one that learns what replies look like."""

    def __init__(self, answer, piece=None):
        self.answer, self.piece = answer, piece
        self.values, self.counts, self.lock = {}, {}, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepted = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(connection, self.accepted), daemon=True).start()
            self.accepted += 1

    def reply_to(self, number, words):
        name, key = words[0].decode(), words[1]
        with self.lock:
            nth = self.counts[number, name] = self.counts.get((number, name), 0) + 1
            if name == "SET":
                self.values[key] = words[2]
                reply = b"+OK\r\n"
            elif name == "GET":
                value = self.values.get(key)
                reply = b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
            else:
                reply = b":%d\r\n" % sum(self.values.pop(key, None) is not None for key in words[1:])
            return self.answer(self, number, name, nth, key, reply)

    def serve(self, connection, number):
        reader = connection.makefile("rb")
        with connection:
            try:
                while line := reader.readline():
                    words = []
                    for _ in range(int(line[1:])):
                        words.append(reader.read(int(reader.readline()[1:]) + 2)[:-2])
                    reply = self.reply_to(number, words)
                    if reply is None:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    piece = self.piece or len(reply) + 1
                    for at in range(0, len(reply), piece):
                        connection.sendall(reply[at:at + piece])
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def on(name, nth, change):
    """Change the nth reply of that name to any connection but the first."""
    def answer(server, connection, got, count, key, reply):
        return change(server, reply) if connection > 0 and (got, count) == (name, nth) else reply
    return answer


def flip(at):
    return lambda server, reply: reply[:at] + bytes([reply[at] ^ 0x20]) + reply[at + 1:]


def other_value(server, reply):
    """The value of chunk 1, which is as long, in place of chunk 0's."""
    value = next(value for key, value in server.values.items() if key.endswith(b"00000001"))
    return b"$%d\r\n%s\r\n" % (len(value), value)


class Wrong(unittest.TestCase):
    """Sizes of 96 bytes and of three values of 4 KiB: the 20th GET or SET is of the second size, the 2nd of the first."""
    words = ("-b", "96", "-e", "12k", "-f", "128", "--chunk", "4k", "-n", "3", "-w", "1", "--csv")

    def run_against(self, answer, piece=None, more=()):
        with FakeServer(answer, piece) as server:
            return sweep("-p", str(server.port), *self.words, *more)

    def test_replies_in_pieces_are_put_together(self):
        for piece in (1, 3, 1000):
            code, out, error = self.run_against(lambda *words: words[-1], piece, ("--rails", "2"))
            self.assertEqual(code, 0, error)
            self.assertEqual(len(table(out)), 8)

    def test_what_is_wrong_with_a_reply_is_noticed(self):
        for what, answer, says in (
                ("first byte", on("GET", 20, flip(7)), "byte 0 of the value is"),
                ("last byte", on("GET", 20, flip(-3)), "byte 4095 of the value is"),
                ("small value", on("GET", 2, flip(5)), "GET of chunk 0: byte 0 of the value is"),
                ("line end", on("GET", 20, lambda server, reply: reply[:-1] + b"x"), "does not end"),
                ("shorter", on("GET", 20, lambda server, reply: b"$4095\r\n" + reply[7:-3] + b"\r\n"), "4095 bytes where 4096"),
                ("another value", on("GET", 19, other_value), "of the value is"),
                ("not OK", on("SET", 20, lambda server, reply: b"+OH\r\n"), "the reply is wrong"),
                ("no RESP", on("SET", 20, lambda server, reply: b"hello\r\n"), "not RESP"),
                ("twice", on("SET", 20, lambda server, reply: reply + reply), "more was answered than asked"),
                ("closed", on("SET", 20, lambda server, reply: None), "closed")):
            with self.subTest(what=what):
                code, out, error = self.run_against(answer)
                self.assertEqual(code, 1, error)
                self.assertIn(says, error)
                self.assertLessEqual({row["size_bytes"] for row in table(out)}, {"96", "12288"})
                self.assertEqual("96,3" in out, what != "small value")

    def test_a_set_that_stores_nothing_is_noticed(self):
        kept = {}

        def answer(server, connection, name, count, key, reply):
            if name == "SET" and connection > 0:
                server.values[key] = kept.setdefault(key, server.values[key])  # the first one for ever
            return reply

        code, _, error = self.run_against(answer)
        self.assertEqual(code, 1, error)
        self.assertIn("of the value is", error)

    def test_a_refusal_leaves_the_connection_as_it_was(self):
        code, out, error = self.run_against(on("SET", 20, lambda server, reply: b"-OOM no room\r\n"))
        self.assertEqual(code, 0, error)
        self.assertIn("12 KiB: SET: OOM no room; this size and larger ones are left out", error)
        self.assertEqual({row["size_bytes"] for row in table(out)}, {"96"})

    def test_another_server_stands_beside(self):
        with FakeServer(lambda *words: words[-1]) as server, Server("auth.password=secret") as ours:
            code, out, error = sweep("-p", str(ours.port), "-a", "secret", "--wire", "sbe", "--vs", "tcp:peer", "--at",
                                     f"peer=127.0.0.1:{server.port}", *self.words)
            self.assertEqual(code, 0, error)
            self.assertEqual({row["label"] for row in table(out)}, {"kernel-tcp-sbe", "peer-kernel-tcp-resp"})
            self.assertFalse(server.values)
            self.assertEqual({name for _, name in server.counts}, {"SET", "GET", "DEL"})  # no AUTH, no HELLO

    def test_one_side_ends_and_the_other_goes_on(self):
        def answer(server, connection, name, count, key, reply):
            return flip(7)(server, reply) if connection == 4 and name == "GET" and len(reply) > 100 else reply

        with FakeServer(answer) as server:  # connections: 0 to 2 over two rails, 3 and 4 over one
            code, out, error = sweep("-p", str(server.port), *self.words, "--rails", "2")
        self.assertEqual(code, 1, error)
        self.assertIn("of the value is", error)
        self.assertTrue(any(row["size_bytes"] == "12288" for row in table(out)), out)

    def test_a_silent_server_is_not_waited_for_for_ever(self):
        begun = time.monotonic()
        code, _, error = self.run_against(on("GET", 21, lambda server, reply: b""))
        self.assertEqual(code, 1, error)
        self.assertIn("nothing moved for 20 s", error)
        # For longer than a fabric session that is lost takes to come back.
        self.assertTrue(20 <= time.monotonic() - begun < 50)


if __name__ == "__main__":
    unittest.main(verbosity=2)
