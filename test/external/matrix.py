"""matrix.py - `sluice-bench matrix` and the results of `latency`: rows of every transport, what cannot be had, a run that ended early
and goes on, servers on another host (an ssh of our own that stays here), other servers beside ours, and logs for HdrHistogram.

    matrix.py [CLASS...]"""

import base64
import contextlib
import csv
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

import netns
import server

OPERATIONS = ["PING", "SET", "GET", "HSET", "HGET", "ZADD", "ZSCORE", "PUBSUB"]
FEW = ("--samples", "300", "--warmup", "30")
WAIT_S = 120


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def hlog_counts(path):
    """Value in ns to count, and the interval's maximum in ms, of a log with one interval: as HdrHistogram's readers do it."""
    *comments, header, line = path.read_text().splitlines()
    assert comments[1] == "#[Histogram log format version 1.3]" and comments[2].startswith("#[StartTime: "), comments
    assert header.startswith('"StartTimestamp","Interval_Length","Interval_Max",'), header
    _, _, maximum, text = line.split(",")
    packed = base64.b64decode(text, validate=True)
    cookie, length = struct.unpack(">II", packed[:8])
    assert cookie == 0x1C849314 and length == len(packed) - 8, (hex(cookie), length)
    plain = zlib.decompress(packed[8:])
    cookie, length, offset, digits, lowest, highest, ratio = struct.unpack(">IIIIQQd", plain[:40])
    assert (cookie, offset, digits, lowest, ratio) == (0x1C849313, 0, 3, 1, 1.0) and length == len(plain) - 40
    counts, index, at = {}, 0, 40
    while at < len(plain):
        number = 0
        for byte in range(9):
            bits = plain[at]
            at += 1
            number |= (bits if byte == 8 else bits & 0x7F) << 7 * byte
            if byte < 8 and bits < 0x80:
                break
        number = (number >> 1) ^ -(number & 1)
        if number < 0:
            index -= number
            continue
        power = 0 if index < 2048 else index // 1024 - 1
        value = index if index < 2048 else (index - 1024 * power) << power
        assert value <= highest
        if number > 0:
            counts[value] = number
        index += 1
    return counts, float(maximum)


def hlog_rank(counts, percent):
    total, seen = sum(counts.values()), 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= percent / 100 * total - 1e-6:
            return value
    raise AssertionError("no samples")


class Bench(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "out"
        (self.folder / "tmp").mkdir()
        self.environment = {**server.environment(), "TMPDIR": str(self.folder / "tmp")}
        self.environment.pop("REDISCLI_AUTH", None)

    def bench(self, command, *words, code=0, timeout_s=120):
        done = subprocess.run([server.BUILD / "sluice-bench", command, *map(str, words)], capture_output=True, text=True,
                              timeout=timeout_s, check=False, env=self.environment)
        self.assertEqual(done.returncode, code, f"{command} {words}:\n{done.stdout}{done.stderr}{self.logs() if code == 0 else ''}")
        return done

    def logs(self):
        folder = self.out / "logs"
        return "".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(folder.glob("*"))) if folder.exists() else ""

    def matrix(self, *words, few=FEW, **options):
        return self.bench("matrix", "--out", self.out, *few, *words, **options)

    def labels(self):
        """Label to its operations, in the order of the file; each once."""
        found = {}
        for row in rows(self.out / "latency.csv"):
            self.assertNotIn(row["operation"], found.setdefault(row["label"], []))
            found[row["label"]].append(row["operation"])
        return found

    def assert_whole(self, *labels):
        found = self.labels()
        self.assertEqual(sorted(found), sorted(labels))
        for label, operations in found.items():
            self.assertEqual(operations, OPERATIONS, label)
        configured = [row["label"] for row in rows(self.out / "config.csv")]
        self.assertEqual(sorted(configured), sorted(labels))

    def started(self):
        """Processes that have our folder in their command line, but for sluice-bench itself."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:
                continue
            if str(self.folder).encode() in words and b"matrix\0" not in words:
                found.append(words.replace(b"\0", b" ").decode())
        return found

    def assert_nothing_left(self):
        deadline = time.monotonic() + 20
        while (left := self.started() + [str(path) for path in (self.folder / "tmp").iterdir()]) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(left, [])

    def matrix_start(self, *words):
        process = subprocess.Popen([server.BUILD / "sluice-bench", "matrix", "--out", str(self.out), *map(str, words)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment,
                                   start_new_session=True)  # as from a terminal: not in init's session
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def rows_wait(self, process, count):
        """Until latency.csv has so many rows."""
        deadline = time.monotonic() + WAIT_S
        while not (path := self.out / "latency.csv").exists() or path.read_text().count("\n") - 1 < count:
            self.assertIsNone(process.poll(), "it ended early")
            self.assertLess(time.monotonic(), deadline, "no rows come")
            time.sleep(0.005)


def can_have_link():
    try:
        netns.Namespace().close()
    except PermissionError:
        return False
    return (server.BUILD / "sluice_ethernet.so").exists()


class Matrix(Bench):
    def test_a_row_for_every_transport_and_what_cannot_be_had(self):
        streams = "kernel-tcp,unix" + (",ethernet" if can_have_link() else "")
        words = ("--providers", "shm,tcp-rxm,verbs-rxm,efa", "--streams", streams, "--sends", "auto", "--floor")
        out = self.matrix(*words).stdout
        labels = [f"{stream}-{wire}" for stream in streams.split(",") for wire in ("sbe", "resp")]
        labels += [f"{provider}-{wire}-auto" for provider in ("shm", "tcp-rxm") for wire in ("sbe", "resp")]
        # The bare transport beside an ethernet port is the kernel's.
        self.assert_whole(*labels, *(f"{label}-floor" for label in labels))
        for row in rows(self.out / "latency.csv"):
            self.assertEqual(row["samples"], "300")
            self.assertTrue(0 < float(row["min_us"]) <= float(row["p50_us"]) <= float(row["p99_us"]) <= float(row["max_us"]), row)
        transports = {row["label"]: row["transport"] for row in rows(self.out / "config.csv")}
        self.assertEqual(transports["tcp-rxm-sbe-auto"], "libfabric-RDM:tcp;ofi_rxm")
        self.assertEqual(transports["unix-resp"], "unix")
        missing = {row["label"]: row["error"] for row in rows(self.out / "unavailable.csv")}
        self.assertEqual(sorted(missing), sorted(f"{name}-{wire}-auto" for name in ("efa", "verbs-rxm") for wire in ("sbe", "resp")))
        for label, error in missing.items():
            self.assertIn("fi_getinfo: No data available", error, label)
        self.assertIn("shm-sbe-auto", out[out.index("avg p50"):])
        metadata = json.loads((self.out / "metadata.json").read_text())
        self.assertEqual(metadata["machine"]["host"], socket.gethostname())
        self.assertIn("shm", metadata["machine"]["libfabric"]["providers"])
        self.assertRegex(metadata["machine"]["builds"]["sluiced"], "^[0-9a-f]{40}$")
        self.assertEqual(len(metadata["runs"]), len(labels) + 1)
        self.logs_check(labels)
        self.assert_nothing_left()
        # Once more: what is whole stays, byte for byte; what is missing is tried again, and there once.
        before = (self.out / "latency.csv").read_bytes(), (self.out / "config.csv").read_bytes()
        self.matrix(*words)
        self.assertEqual(before, ((self.out / "latency.csv").read_bytes(), (self.out / "config.csv").read_bytes()))
        self.assertEqual(len(rows(self.out / "unavailable.csv")), len(missing))

    def logs_check(self, labels):
        """Every log holds as many samples as its row, and their ranks within its three digits."""
        for row in rows(self.out / "latency.csv"):
            counts, maximum_ms = hlog_counts(self.out / "hlog" / f"{row['label']}-{row['operation']}.hlog")
            self.assertEqual(sum(counts.values()), int(row["samples"]))
            self.assertAlmostEqual(maximum_ms, float(row["max_us"]) / 1000, delta=0.002)
            for percent, column in ((50, "p50_us"), (75, "p75_us"), (90, "p90_us"), (99, "p99_us"), (100, "max_us")):
                exact = float(row[column]) * 1000
                self.assertAlmostEqual(hlog_rank(counts, percent), exact, delta=exact / 1000 + 1, msg=f"{row} {percent}")
        self.assertEqual(len(list((self.out / "hlog").iterdir())), 8 * 2 * len(labels))

    def test_another_configuration_is_refused_and_moved_aside(self):
        words = ("--providers", "", "--streams", "kernel-tcp", "--wires", "resp")
        self.matrix(*words)
        for more, name in ((("-d", 65), "value_bytes was 64 and is 65 now"), (("--set", "lcores.burst=8"), "settings was"),
                           (("--floor",), "floor was"), (("--warmup", 31), "warmup was 30 and is 31 now")):
            self.assertIn(name, self.matrix(*words, *more, code=1).stderr)
        self.assert_whole("kernel-tcp-resp")
        self.matrix("--providers", "", "--streams", "kernel-tcp")  # more rows are no other configuration
        self.assert_whole("kernel-tcp-resp", "kernel-tcp-sbe")
        self.matrix(*words, "-d", 65, "--restart")
        self.assert_whole("kernel-tcp-resp")
        self.assertEqual(len(rows(self.out / "before-1" / "latency.csv")), 16)
        self.assertIn("value=65", rows(self.out / "config.csv")[0]["buffers"])

    def test_results_of_another_run_are_not_taken_for_ours(self):
        self.out.mkdir()
        (self.out / "latency.csv").write_text("label,operation,samples\nkernel-tcp-resp,PING,300\n")
        error = self.matrix("--providers", "", "--streams", "kernel-tcp", code=1).stderr
        self.assertIn("'kernel-tcp-resp' of another run", error)

    def test_a_second_matrix_in_the_folder_is_refused(self):
        process = self.matrix_start("--providers", "shm", "--streams", "", "--samples", "20k", "--warmup", 0)
        self.rows_wait(process, 1)
        error = self.matrix("--providers", "shm", code=1).stderr
        self.assertIn("another matrix is at work here", error)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(WAIT_S), 130)


class EndedEarly(Bench):
    """It goes on where it ended: a row that was whole stays as it is, half a row is measured again."""
    words = ("--providers", "shm", "--streams", "kernel-tcp", "--wires", "resp", "--sends", "auto", "--samples", "1500", "--warmup", 0)

    def half(self, number):
        process = self.matrix_start(*self.words)
        self.rows_wait(process, 8 + 2)  # the second row is being measured
        process.send_signal(number)
        code = process.wait(WAIT_S)
        self.first = (self.out / "latency.csv").read_text().splitlines()[1:9]
        return code, process.stdout.read()

    def go_on(self):
        out = self.matrix(few=self.words).stdout
        self.assertIn("1 rows measured, 1 finished before", out)
        self.assert_whole("shm-resp-auto", "kernel-tcp-resp")
        self.assertEqual((self.out / "latency.csv").read_text().splitlines()[1:9], self.first)
        self.assertEqual({row["samples"] for row in rows(self.out / "latency.csv")}, {"1500"})
        self.assert_nothing_left()

    def test_ctrl_c(self):
        code, out = self.half(signal.SIGINT)
        self.assertEqual(code, 130, out)
        found = self.labels()
        self.assertEqual(found["shm-resp-auto"], OPERATIONS)
        self.assertGreaterEqual(len(found["kernel-tcp-resp"]), 2)
        self.assertIn("kernel-tcp-resp", [row["label"] for row in rows(self.out / "config.csv")])
        self.assertIn("interrupted", (self.out / "metadata.json").read_text())
        self.assert_nothing_left()
        self.go_on()

    def test_kill(self):
        code, _ = self.half(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.assert_nothing_left()
        with open(self.out / "latency.csv", "a", encoding="utf-8") as file:
            file.write("kernel-tcp-resp,HGET,1")  # as if it had been writing
        self.go_on()

    def server_pid(self, label):
        return next(int(line.split()[2]) for line in (self.out / "logs" / f"{label}-server.log").read_text().splitlines()
                    if line.startswith("sluice-matrix pid "))

    def test_kill_while_the_server_is_stopped(self):
        """As it is while a floor is measured. The kernel hangs up a group that nobody is left to continue."""
        process = self.matrix_start(*self.words, "--providers", "")
        self.rows_wait(process, 1)
        os.kill(self.server_pid("kernel-tcp-resp"), signal.SIGSTOP)
        process.kill()
        process.wait()
        self.assert_nothing_left()

    def test_a_server_that_dies(self):
        """The row fails and says so; the others are measured."""
        process = self.matrix_start(*self.words, "--wires", "resp,sbe", "--providers", "")
        self.rows_wait(process, 1)
        os.kill(self.server_pid("kernel-tcp-resp"), signal.SIGKILL)
        out, _ = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 1, out)
        self.assertIn("kernel-tcp-resp          failed: the server ended: it was ended by signal 9", out)
        self.assertIn("1 rows measured, 0 finished before, 0 unavailable, 1 failed", out)
        self.assertRegex(out, "1 +kernel-tcp-sbe ")
        self.assertEqual(self.labels()["kernel-tcp-sbe"], OPERATIONS)
        self.assert_nothing_left()


SSH = """#!/bin/sh
# An ssh that stays here: what it was asked is written down, then it does it.
echo "$*" >>{folder}/ssh
case "$*" in *unreachable*) echo 'ssh: connect to host unreachable port 22: No route to host' >&2; exit 255 ;; esac
for word; do command=$word; done
case $command in sh) exec ${{ISOLATED-}} bash --posix ;; esac  # as where sh is bash, which reads its input line by line
exit 1
"""


class OtherHost(Bench):
    def setUp(self):
        super().setUp()
        path = self.folder / "bin"
        path.mkdir()
        (path / "ssh").write_text(SSH.format(folder=self.folder))
        (path / "ssh").chmod(0o755)
        self.environment["PATH"] = f"{path}:{self.environment['PATH']}"

    def test_servers_start_and_end_there(self):
        self.matrix("--server", "somebody@elsewhere", "--address", "localhost", "--providers", "net,efa", "--sends", "auto",
                    "--wires", "resp")
        self.assert_whole("net-resp-auto", "kernel-tcp-resp")
        self.assertEqual([row["label"] for row in rows(self.out / "unavailable.csv")], ["efa-resp-auto"])
        asked = (self.folder / "ssh").read_text().splitlines()
        self.assertEqual(len(asked), 4)  # what machine it is, then a server for each row
        for line in asked:
            self.assertRegex(line, "BatchMode=yes .* somebody@elsewhere sh$")
        metadata = json.loads((self.out / "metadata.json").read_text())
        self.assertEqual(metadata["server_machine"]["host"], socket.gethostname())
        self.assert_nothing_left()

    def test_cpus_there_that_are_isolated_from_logins_serve(self):
        first, *others = sorted(os.sched_getaffinity(0))
        if not others:
            self.skipTest("one CPU")
        self.environment["ISOLATED"] = f"taskset -c {first}"
        for word in (), ("--server-cpu", others[-1]):  # the last one unless said
            self.matrix("--server", "elsewhere", "--address", "127.0.0.1", "--providers", "", "--wires", "resp", *word, "--restart")
            self.assertIn(f'"cpus":"{others[-1]}"', (self.out / "logs/kernel-tcp-resp-server.log").read_text())

    def test_the_bare_transport_between_two_hosts(self):
        self.matrix("--server", "elsewhere", "--address", "127.0.0.1", "--providers", "net", "--sends", "send", "--wires", "sbe",
                    "--floor", "--samples", 30, "--warmup", 0)
        self.assert_whole("net-sbe-send", "net-sbe-send-floor", "kernel-tcp-sbe", "kernel-tcp-sbe-floor")
        endpoints = {row["label"]: row["endpoint"] for row in rows(self.out / "config.csv")}
        self.assertRegex(endpoints["net-sbe-send-floor"], r"^127\.0\.0\.1:\d+$")
        self.assert_nothing_left()

    def test_a_peer_of_the_bare_transport_wants_its_token(self):
        peer = [server.BUILD / "sluice-bench", "floor-peer"]
        self.assertIn("32 characters", self.bench("floor-peer", code=2).stderr)
        self.environment["SLUICE_FLOOR_TOKEN"] = "0123456789abcdef" * 2
        self.assertIn("in numbers", self.bench("floor-peer", "--address", "localhost", code=1).stderr)
        process = subprocess.Popen(peer, stdout=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        port = json.loads(process.stdout.readline())["port"]
        for junk in (b"", b"x" * 10, b"x" * 4096):  # whoever greets wrongly is let go
            with socket.create_connection(("127.0.0.1", port), 20) as connection:
                connection.sendall(junk)
                with contextlib.suppress(OSError):  # reset, with what was not read
                    connection.shutdown(socket.SHUT_WR)
                    self.assertEqual(connection.recv(1), b"")
        with server.Server() as ours:
            words = ("-p", ours.port, "--pause", ours.process.pid, "--samples", 20, "--warmup", 0, "--floor-peer", f"127.0.0.1:{port}")
            self.assertIn("kernel-tcp-resp-floor", self.bench("latency", *words, "--csv").stdout)
            self.assertIn("does not reach another host", self.bench("latency", *words, "-s", ours.unix, code=2).stderr)
            self.environment["SLUICE_FLOOR_TOKEN"] = "x" * 32
            self.assertIn("refused: is SLUICE_FLOOR_TOKEN the same there?", self.bench("latency", *words, code=3).stderr)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)

    def test_they_end_with_a_killed_matrix(self):
        process = self.matrix_start("--server", "elsewhere", "--address", "127.0.0.1", "--providers", "", "--samples", "1k", "--warmup", 0)
        self.rows_wait(process, 1)
        self.assertTrue(any("sluiced" in words for words in self.started()))
        process.kill()
        process.wait()
        self.assert_nothing_left()

    def test_a_host_out_of_reach(self):
        error = self.matrix("--server", "unreachable", "--address", "127.0.0.1", code=3).stderr
        self.assertIn("unreachable cannot be reached by ssh (exit code 255): ssh: connect to host", error)
        error = self.matrix("--server", "elsewhere", "--address", "127.0.0.1", "--sluiced", "/no/such/sluiced", code=3).stderr
        self.assertIn("elsewhere has no /no/such/sluiced", error)
        error = self.matrix("--server", "no-such-host.invalid", code=1).stderr
        self.assertIn("--address names the host", error)


class Running(Bench):
    def test_a_server_that_runs_already(self):
        ports = 'ports=({ type = "fabric"; provider = "shm"; })'
        with server.Server("auth.password=secret", ports) as running:
            words = ("--host", f"127.0.0.1:{running.port}", "--unix", running.unix, "-a", "secret", "--providers", "shm,net",
                     "--sends", "auto", "--wires", "sbe")
            self.matrix(*words)
            self.assert_whole("shm-sbe-auto", "kernel-tcp-sbe", "unix-sbe")
            self.assertIn("no fabric port of this name or provider", rows(self.out / "unavailable.csv")[0]["error"])
            self.assertNotIn("secret", (self.out / "metadata.json").read_text() + (self.out / "matrix.json").read_text())
            error = self.matrix(*words[:4], "-a", "wrong", "--providers", "", "--restart", code=1)
            self.assertIn("WRONGPASS", error.stdout)


class Options(Bench):
    def test_each_error_is_named(self):
        for words, message in (
                ((), "--out DIR is missing"),
                (("--out", ""), "--out '': expected a name"),
                (("--list", "--providers", "shm,shm"), "'shm' is there twice"),
                (("--list", "--providers", "tcp-rxm,tcp;ofi_rxm"), "is there twice"),
                (("--list", "--providers", "shm,"), "is no list of words"),
                (("--list", "--providers", 'x"y'), "is no provider's name"),
                (("--list", "--providers", "x" * 32), "is no list of words"),
                (("--list", "--streams", "tcp"), "'tcp' is not among kernel-tcp, unix, ethernet"),
                (("--list", "--wires", "resp2"), "'resp2' is not among resp, resp3, sbe"),
                (("--list", "--sends", "never"), "'never' is not among auto, inject, send"),
                (("--list", "--providers", "", "--streams", ""), "nothing to measure"),
                (("--list", "--wires", ""), "nothing to measure"),
                (("--list", "--server", "-oProxyCommand=x"), "expected a name"),
                (("--list", "--server", "h", "--providers", "shm"), "does not reach another host"),
                (("--list", "--server", "h", "--streams", "unix"), "does not reach another host"),
                (("--list", "--server", "h", "--streams", "ethernet"), "--ethernet"),
                (("--list", "--server", "h", "--host", "h:1"), "exclude each other"),
                (("--list", "--host", "h:1", "--streams", "unix"), "--unix"),
                (("--list", "--host", "h:0"), "expected a number"),
                (("--list", "--host", "h:1", "--set", "a=b"), "not with --host"),
                (("--list", "--unix", "/x"), "of the server of --host"),
                (("--list", "--address", "x"), "of --server's host"),
                (("--list", "-a", "x"), "runs already"),
                (("--list", "--set", "a"), "expected NAME=VALUE"),
                (("--list", *(["--set", "a=b"] * 17)), "more than 16"),
                (("--list", "--set", "ports=()"), "are what a row makes them"),
                (("--list", "--set", "auth.password=x"), "are what a row makes them"),
                (("--list", "--samples", "0"), "expected a number"),
                (("--list", "-d", "2m"), "expected a number"),
                (("--list", "surplus"), "unexpected argument"),
                (("--list", "--nosuch"), "nosuch")):
            done = self.bench("matrix", *words, code=2)
            self.assertIn(message, done.stderr, words)
            self.assertEqual(done.stdout, "", words)

    def test_rows_are_listed(self):
        out = self.bench("matrix", "--list", "--server", "h").stdout.split()
        published = [f"{provider}-{wire}-{send}" for provider in ("efa", "tcp") for wire in ("sbe", "resp") for send in ("auto", "send")]
        self.assertEqual(out, [*published, "kernel-tcp-sbe", "kernel-tcp-resp"])
        self.assertEqual(len(self.bench("matrix", "--list").stdout.split()), 4 * 4 + 3 * 2)

    def test_a_folder_that_cannot_be_made_or_read(self):
        (self.folder / "file").write_text("")
        self.assertIn("not a folder", self.bench("matrix", "--out", self.folder / "file", "--streams", "unix", code=1).stderr)
        self.assertIn("not a folder", self.bench("matrix", "--out", self.folder / "file" / "x", code=1).stderr)
        self.matrix("--providers", "", "--streams", "unix", "--wires", "resp")
        for name, damage, message in (("latency.csv", "a,b\n1\n", "1 cells, the header has 2"), ("matrix.json", "{", "cannot be read")):
            good = (self.out / name).read_text()
            (self.out / name).write_text(damage)
            self.assertIn(message, self.matrix("--providers", "", "--streams", "unix", "--wires", "resp", code=1).stderr)
            (self.out / name).write_text(good)
        error = self.matrix("--sluiced", self.folder / "none", code=1).stderr
        self.assertIn("--sluiced names the server's program", error)


class FewCommands(threading.Thread):
    """A RESP server that knows PING, SET, GET and DEL."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    @staticmethod
    def serve(connection):
        values = {}
        with connection, connection.makefile("rb") as lines:
            while line := lines.readline():
                words = []
                for _ in range(int(line[1:])):
                    words.append(lines.read(int(lines.readline()[1:]) + 2)[:-2])
                name = words[0].upper()
                answer = b"-ERR unknown command '%s'\r\n" % words[0]
                if name == b"PING":
                    answer = b"+PONG\r\n"
                elif name == b"DEL":
                    answer = b":%d\r\n" % (values.pop(words[1], None) is not None)
                elif name == b"SET":
                    values[words[1]] = words[2]
                    answer = b"+OK\r\n"
                elif name == b"GET":
                    answer = b"$%d\r\n%s\r\n" % (len(values[words[1]]), values[words[1]])
                connection.sendall(answer)


class Peers(Bench):
    def test_another_server_takes_turns(self):
        with server.Server() as ours, server.Server() as theirs, server.Server() as third:
            out = self.bench("latency", "-p", ours.port, "--pause", ours.process.pid, "--floor", *FEW, "--out", self.out,
                             "--peer", f"twin=127.0.0.1:{theirs.port}@{theirs.process.pid}", "--peer", third.unix).stdout
            found = self.labels()
            self.assertEqual(sorted(found), ["kernel-tcp-resp", "kernel-tcp-resp-floor", "peer-unix-resp", "twin-kernel-tcp-resp"])
            self.assertTrue(all(operations == OPERATIONS for operations in found.values()), found)
            self.assertIn("mean p50 over that of twin-kernel-tcp-resp, 8 operations", out)
            for process in (ours.process, theirs.process):
                self.assertNotIn("T (stopped)", pathlib.Path(f"/proc/{process.pid}/status").read_text())

    def test_what_another_server_lacks_is_unavailable(self):
        few = FewCommands()
        self.addCleanup(few.listener.close)
        with server.Server() as ours:
            out = self.bench("latency", "-p", ours.port, *FEW, "--out", self.out, "--wire", "sbe",
                             "--peer", f"few=127.0.0.1:{few.port}").stdout
        found = self.labels()
        self.assertEqual(found["kernel-tcp-sbe"], OPERATIONS)
        self.assertEqual(found["few-kernel-tcp-resp"], ["PING", "SET", "GET"])
        self.assertRegex(out, "few-kernel-tcp-resp +HSET +unavailable: HSET: ERR unknown command")
        errors = [row["error"] for row in rows(self.out / "unavailable.csv")]
        self.assertEqual([error.split(":")[0] for error in errors], ["HSET", "HGET", "ZADD", "ZSCORE", "PUBSUB"])
        self.assertIn("mean p50 over that of few-kernel-tcp-resp, 3 operations", out)

    def test_ctrl_c_keeps_what_was_measured(self):
        with server.Server() as ours:
            process = subprocess.Popen([server.BUILD / "sluice-bench", "latency", "-p", str(ours.port), "--samples", "1m", "--warmup",
                                        "10", "--out", self.out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=self.environment)
            time.sleep(1.5)
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 130, error)
        row = rows(self.out / "latency.csv")[0]
        self.assertTrue(0 < int(row["samples"]) < 1000000, row)
        self.assertIn("kernel-tcp-resp", out)
        self.assertIn("interrupted", json.loads((self.out / "metadata.json").read_text())["runs"][0]["warnings"][-1])

    def test_errors_are_named(self):
        with server.Server() as ours:
            for words, code, message in (
                    (("--peer", ""), 2, "expected [NAME=]HOST:PORT[@PID]"),
                    (("--peer", "x=@12"), 2, "expected [NAME=]HOST:PORT[@PID]"),
                    (("--peer", "127.0.0.1:99999"), 2, "expected a number"),
                    (("--peer", "127.0.0.1:1@x"), 2, "expected a number"),
                    (("--peer", "-=127.0.0.1:1"), 2, "in NAME, expected letters"),
                    (("--peer", "127.0.0.1:1", "--peer", "127.0.0.1:1"), 2, "two of this name"),
                    (("--peer", "127.0.0.1:1@999999999"), 2, "No such process"),
                    (("--pause", ours.process.pid, "--peer", f"127.0.0.1:1@{ours.process.pid}"), 2, "the process of two servers"),
                    (("--peer", "none=127.0.0.1:1"), 3, "could not connect"),
                    (("--label", "a,b"), 2, "--label"),
                    (("--label", "../x"), 2, "--label"),
                    (("--only", ""), 2, "not one of the eight"),
                    (("--provider", "efa"), 3, "No data available"),
                    (("--hlog", "/dev/null"), 1, "not a folder"),
                    (("--out", "/proc/nowhere"), 1, "No such file")):
                self.assertIn(message, self.bench("latency", "-p", ours.port, *FEW, *words, code=code).stderr, words)
            self.bench("latency", "-p", ours.port, *FEW, "--out", self.out, "--only", "ping")
            self.assertIn("has 'kernel-tcp-resp' already",
                          self.bench("latency", "-p", ours.port, *FEW, "--out", self.out, code=1).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
