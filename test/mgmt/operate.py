"""operate.py - what an operator does beside watching: end a session, read the log, look at a crash."""

import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, Server  # noqa: E402

SLUICECTL = str(BUILD / "sluicectl")
WAIT_S = 20


class Operate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("lcores.cpus=0,1")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def ctl(self, *words, status=0):
        done = subprocess.run([SLUICECTL, "-S", self.server.ctl_path, *words], capture_output=True, text=True,
                              timeout=WAIT_S)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def sessions(self):
        return {row["name"]: row["id"] for row in json.loads(self.ctl("-j", "sessions"))["rows"]}

    def test_a_session_is_ended_and_no_other(self):
        clients = {}
        for name in ("one", "two", "three"):
            clients[name] = self.server.connect()
            clients[name].sendall(b"CLIENT SETNAME " + name.encode() + b"\r\n")
            self.assertEqual(clients[name].recv(100), b"+OK\r\n")
        ids = self.sessions()
        self.assertEqual(self.ctl("sessions", "kill", str(ids["two"])), f"session {ids['two']} is ended\n")
        self.assertEqual(clients["two"].recv(100), b"")
        for name in ("one", "three"):
            clients[name].sendall(b"PING\r\n")
            self.assertEqual(clients[name].recv(100), b"+PONG\r\n")
        self.assertEqual(set(self.sessions()) & set(clients), {"one", "three"})
        self.assertIn(f"session {ids['two']}: killed by uid", self.server.log())
        self.assertIn("no session", self.ctl("sessions", "kill", str(ids["two"]), status=1))
        self.assertIn("no session", self.ctl("sessions", "kill", "9223372036854775807", status=1))
        for word in ("x", "1x", "9223372036854775808", ""):
            self.assertIn("expected the id", self.ctl("sessions", "kill", word, status=2))
        self.assertIn("expected the id", self.ctl("sessions", "kill", status=2))
        self.assertIn("expected the id", self.ctl("sessions", "kill", "0", status=1))
        for client in clients.values():
            client.close()

    def test_the_log_is_remembered(self):
        self.ctl("config", "set", "log.level", "warning")
        self.ctl("config", "set", "log.level", "info")
        self.ctl("config", "set", "memory.limit", "900MiB")
        lines = self.ctl("log", "--limit", "1").splitlines()
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} info    memory\.limit: .* is now 900MiB, by uid")
        records = json.loads(self.ctl("-j", "log"))["records"]
        self.assertIn('"event":"ready"', records[0]["text"])
        self.assertLess(abs(records[-1]["unix_ms"] / 1000 - time.time()), 60)
        self.assertIn("from 0 to 256", self.ctl("log", "--limit", "257", status=1))

    def test_one_place_cannot_fill_the_log(self):
        with Server() as server:
            words = [SLUICECTL, "-S", server.ctl_path, "config", "set", "log.level", "info"]
            for _ in range(60):
                subprocess.run(words, check=True, capture_output=True)
            written = server.log().count("is now")
        self.assertLessEqual(written, 20 * 2)  # one burst, or two when a new period began meanwhile
        self.assertGreater(written, 0)

    def test_text_for_people_has_these_too(self):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.server.ctl_path)
            connection.settimeout(WAIT_S)
            connection.sendall(b"sessions kill id=77777\nlog limit=1\n")
            text = b""
            while text.count(b"\n\n") < 2:
                text += connection.recv(4096)
        self.assertIn(b"no session 77777", text)


class Planted(unittest.TestCase):
    """What operators look for, planted, and found by one command each."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("slowlog.threshold_us=2000", "lcores.cpus=0",
                            program=BUILD / "test" / "mgmt" / "sluiced_stalling")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    ctl = Operate.ctl

    def slow(self):
        return json.loads(self.ctl("-j", "slowlog", "--limit", "128"))["records"]

    def test_a_stall_and_those_that_waited_behind_it_are_in_the_slow_log(self):
        staller, waiter = self.server.connect(), self.server.connect()
        for client in (staller, waiter):
            client.sendall(b"PING\r\n")
            client.recv(100)
        # Both in one burst: what waits behind the stall was polled with it.
        staller.sendall(b"*2\r\n$4\r\nECHO\r\n$5\r\nstall\r\n" * 3 + b"*2\r\n$3\r\nGET\r\n$6\r\nbehind\r\n")
        answers = b""
        while not answers.endswith(b"$-1\r\n"):
            answers += staller.recv(1000)
        records = [row for row in self.slow() if row["command"] in ("echo", "get")]
        stalls = [row for row in records if row["command"] == "echo"]
        self.assertTrue(stalls)
        self.assertGreaterEqual(sum(row["service_us"] for row in stalls), 15000)
        self.assertEqual(stalls[0]["args"], ["stall"])
        behind = [row for row in records if row["args"] == ["behind"]]
        self.assertEqual(len(behind), 1)
        self.assertGreaterEqual(behind[0]["queue_us"], 14000)
        self.assertLess(behind[0]["service_us"], 5000)
        text = self.ctl("slowlog")
        self.assertRegex(text, r"(?m)^\d\d:\d\d:\d\d +0 +\d+ +\d+ +\d+ +echo \(3 in a row\) stall$")
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        staller.close()
        waiter.close()

    def test_the_threshold_is_live_and_0_is_never(self):
        before = len(self.slow())
        self.ctl("config", "set", "slowlog.threshold_us", "0")
        with self.server.connect() as client:
            client.sendall(b"*2\r\n$4\r\nECHO\r\n$5\r\nstall\r\n")
            client.recv(100)
        self.assertEqual(len(self.slow()), before)
        self.ctl("config", "set", "slowlog.threshold_us", "2000")

    def test_a_hot_key_is_named_with_its_share(self):
        with self.server.connect() as client:
            asking = subprocess.Popen([SLUICECTL, "-S", self.server.ctl_path, "-j", "keys", "hot", "--seconds", "1"],
                                      stdout=subprocess.PIPE, text=True)
            time.sleep(0.3)
            busy = subprocess.run([SLUICECTL, "-S", self.server.ctl_path, "keys", "hot", "--seconds", "0"],
                                  capture_output=True, text=True)
            cold = 0
            while asking.poll() is None:
                batch = b""
                for _ in range(50):
                    batch += b"GET hot\r\n" + b"GET cold%d\r\n" % cold
                    cold += 1
                client.sendall(batch)
                missing = 100
                while missing > 0:
                    missing -= client.recv(4096).count(b"$-1\r\n")
            result = json.loads(asking.communicate(timeout=WAIT_S)[0])
        hottest = result["keys"][0]
        self.assertEqual(hottest["key"], "hot")
        self.assertAlmostEqual(hottest["share"], 0.5, delta=0.02)
        self.assertLess(hottest["error"], result["requests"] / 100)
        self.assertGreater(result["requests"], 1000)
        self.assertIn(busy.returncode, (0, 1))  # 1: it came while the other one counted
        self.assertIn("no request had a key", self.ctl("keys", "hot", "--seconds", "0"))
        self.assertIn("from 0 to 60", self.ctl("keys", "hot", "--seconds", "61", status=1))

    def test_a_big_key_is_named_with_its_size(self):
        def ask(client, *words):
            client.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            return client.recv(100)

        with self.server.connect() as client:
            for i in range(3000):
                ask(client, b"SET", b"small%d" % i, b"x" * 100)
            ask(client, b"SET", b"large", b"x" * 500000)
            ask(client, b"SET", b"middle", b"x" * 40000, b"EX", b"1000")
            for i in range(50):
                ask(client, b"HSET", b"bighash", b"field%d" % i, b"y" * 200)
            ask(client, b"HSET", b"smallhash", b"f", b"v")
            ask(client, b"ZADD", b"scores", b"1", b"m")
            result = json.loads(self.ctl("-j", "keys", "big", "--limit", "2"))
            types = {row["type"]: row for row in result["types"]}
            self.assertEqual([row["key"] for row in types["string"]["top"]], ["large", "middle"])
            self.assertEqual(types["string"]["top"][0]["value_bytes"], 500000)
            self.assertIsNone(types["string"]["top"][0]["ttl_s"])
            self.assertAlmostEqual(types["string"]["top"][1]["ttl_s"], 1000, delta=30)
            self.assertEqual(types["string"]["keys"], 3002)
            self.assertEqual([row["key"] for row in types["hash"]["top"]], ["bighash", "smallhash"])
            self.assertEqual((types["hash"]["keys"], types["zset"]["keys"]), (2, 1))
            text = self.ctl("keys", "big")
            self.assertRegex(text, r"(?m)^string: 3002 keys, ")
            self.assertRegex(text, r"(?m)^ *488 KiB +500000 +- +large$")
            self.assertEqual(self.ctl("keys", "big", "--limit", "0").count("large"), 0)
            self.assertIn("from 0 to 100", self.ctl("keys", "big", "--limit", "101", status=1))
            self.assertEqual(ask(client, b"FLUSHALL"), b"+OK\r\n")
            self.assertEqual([row["keys"] for row in json.loads(self.ctl("-j", "keys", "big"))["types"]], [0, 0, 0])

    def test_a_subscriber_that_does_not_read_is_seen(self):
        with self.server.connect() as slow, self.server.connect() as publisher:
            slow.sendall(b"CLIENT SETNAME lazy\r\nSUBSCRIBE news\r\n")
            time.sleep(0.2)
            for _ in range(200):
                publisher.sendall(b"*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$60000\r\n" + b"x" * 60000 + b"\r\n")
                publisher.recv(100)
            rows = json.loads(self.ctl("-j", "sessions"))["rows"]
            slowest = max(rows, key=lambda row: row["pending_bytes"])
            self.assertEqual(slowest["name"], "lazy")
            self.assertGreater(slowest["pending_bytes"], 1 << 20)


class Live(unittest.TestCase):
    """Settings that lcores follow while they run."""

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)

    ctl = Operate.ctl

    def test_limits_hold_for_the_next_client(self):
        clients = [self.server.connect() for _ in range(3)]
        for client in clients:
            client.sendall(b"PING\r\n")
            self.assertEqual(client.recv(100), b"+PONG\r\n")
        for limit, served in (("4", True), ("3", False), ("5", True)):
            self.ctl("config", "set", "limits.clients", limit)
            time.sleep(0.05)
            with self.server.connect() as client:
                client.sendall(b"PING\r\n")
                said = client.recv(100)
                self.assertEqual(said == b"+PONG\r\n", served, (limit, said))
            time.sleep(0.1)
        self.ctl("config", "set", "limits.idle_timeout", "500ms")
        for client in clients:
            client.settimeout(WAIT_S)
            self.assertEqual(client.recv(100), b"")
            client.close()

    def test_histograms_stop_and_go_on(self):
        def counted():
            rows = json.loads(self.ctl("-j", "latency", "ping"))["rows"]
            return rows[0]["count"] if rows else 0

        with self.server.connect() as client:
            for setting, expected in (("true", 10), ("false", 10), ("true", 20)):
                self.ctl("config", "set", "lcores.histograms", setting)
                time.sleep(0.05)
                for _ in range(10):
                    client.sendall(b"PING\r\n")
                    client.recv(100)
                time.sleep(0.05)
                self.assertEqual(counted(), expected)

    def test_how_busy_an_lcore_was_is_counted_each_second(self):
        def busy():
            rows = json.loads(self.ctl("-j", "latency", "--kind", "busy"))["rows"]
            return rows[0] if rows else {"max": 0, "count": 0}

        end = time.monotonic() + WAIT_S
        with self.server.connect() as client:
            while busy()["max"] == 0 or busy()["count"] < 2:
                self.assertLess(time.monotonic(), end)
                for _ in range(20):
                    client.sendall(b"PING\r\n" * 1000)
                    missing = 1000
                    while missing > 0:
                        missing -= client.recv(1 << 16).count(b"+PONG\r\n")
        self.assertLessEqual(busy()["max"], 100)
        self.assertRegex(self.ctl("latency", "--kind", "busy"), r"(?m)^busy in percent\n(.*\n)?busy +\d+ ")

    def test_bursts_become_as_small_as_told(self):
        def largest():
            return json.loads(self.ctl("-j", "latency", "--kind", "burst"))["rows"][0]["max"]

        with self.server.connect() as client:
            def pipeline():
                client.sendall(b"PING\r\n" * 2000 + b"*1\r\n$4\r\nPING\r\n" * 2000)
                missing = 4000
                while missing > 0:
                    missing -= client.recv(1 << 16).count(b"+PONG\r\n")

            self.ctl("config", "set", "lcores.burst", "3")
            time.sleep(0.05)
            pipeline()
            self.assertEqual(largest(), 3)
            self.ctl("config", "set", "lcores.burst", "32")
            time.sleep(0.05)
            pipeline()
            self.assertEqual(largest(), 32)

    def test_an_lcore_spins_or_sleeps_as_told(self):
        def sleeps():
            return json.loads(self.ctl("-j", "lcores"))["lcores"][0]["sleeps"]

        self.ctl("config", "set", "lcores.idle", "spin")
        time.sleep(0.2)
        before = sleeps()
        time.sleep(0.3)
        self.assertEqual(sleeps(), before)
        self.ctl("config", "set", "lcores.idle", "adaptive")
        time.sleep(0.5)
        self.assertGreater(sleeps(), before)


class Ports(unittest.TestCase):
    ctl = Operate.ctl

    def rows(self, kind):
        return {row["command"]: row for row in json.loads(self.ctl("-j", "latency", "--kind", kind))["rows"]}

    def test_bursts_and_depths_are_those_of_each_port(self):
        with Server("lcores.cpus=0", 'ports=( { type = "fabric"; provider = "net"; } )') as self.server:
            with self.server.connect() as client:
                for _ in range(50):
                    client.sendall(b"PING\r\n")
                    client.recv(100)
                # A reply that no socket buffer holds: the port cannot send it all at once.
                client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n" + b"x" * 1000000 + b"\r\n")
                client.recv(100)
                client.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" * 8)
                time.sleep(0.3)
                missing = 8 * (1000000 + len("$1000000\r\n\r\n"))
                while missing > 0:
                    missing -= len(client.recv(1 << 20))
            bursts = self.rows("port-burst")
            self.assertGreaterEqual(bursts["0 socket"]["count"], 50)
            self.assertNotIn("1 net", bursts)
            self.assertRegex(self.ctl("latency", "--kind", "port-burst"), r"(?m)^0 socket +\d+")
            depths, stalls = self.rows("port-depth"), self.rows("port-stalled")
            self.assertEqual(set(depths), set(stalls))
            if depths:
                self.assertEqual(depths["0 socket"]["max"], 1)
                self.assertGreaterEqual(depths["0 socket"]["count"], stalls["0 socket"]["count"])


class Completion(unittest.TestCase):
    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = ('source <("$0" completion) || exit 1; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluicectl; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, SLUICECTL, "sluicectl", *words], capture_output=True, text=True,
                              timeout=WAIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_commands_second_words_options_and_settings_are_offered(self):
        self.assertEqual(self.complete("s"), ["status", "stats", "sessions", "slowlog", "shutdown"])
        self.assertEqual(self.complete("-S", "/x", "config", ""), ["show", "get", "set", "reload", "check"])
        self.assertEqual(self.complete("keys", ""), ["hot", "big"])
        self.assertEqual(self.complete("sessions", "k"), ["kill"])
        self.assertEqual(self.complete("config", "set", "memory.l"), ["memory.limit"])
        self.assertEqual(self.complete("config", "set", "--sa"), ["--save"])
        self.assertEqual(self.complete("latency", "get", "--p"), ["--percentiles"])
        self.assertNotIn("--percentiles", self.complete("stats", "--"))

    def test_help_names_every_command_and_every_option(self):
        shown = subprocess.run([SLUICECTL, "--help"], capture_output=True, text=True).stdout
        for command in self.complete(""):
            self.assertRegex(shown, rf"(?m)^ +(-\w, )?{re.escape(command)}\b" if command.startswith("--") else
                             rf"(?m)^  {command}\b")
        self.assertEqual([line for line in shown.splitlines() if len(line) > 100], [])


class Leave(unittest.TestCase):
    ctl = Operate.ctl

    def test_draining_takes_nobody_new_and_keeps_those_that_are_there(self):
        self.server = Server("ports=( { type = \"fabric\"; provider = \"net\"; } )")
        self.addCleanup(self.server.stop, check=False)  # it has ended by then
        stays = self.server.connect()
        stays.sendall(b"PING\r\n")
        self.assertEqual(stays.recv(100), b"+PONG\r\n")
        self.assertEqual(self.ctl("drain"), "leaving, 1 sessions are left\n")
        with self.assertRaises(OSError):
            self.server.connect()
        self.assertEqual(self.ctl("ready", status=1), "")
        stays.sendall(b"SET key value\r\nGET key\r\n")
        answer = b""
        while not answer.endswith(b"value\r\n"):
            answer += stays.recv(100)
        self.assertIn("leaving, not ready", self.ctl("status"))
        self.assertEqual(len(json.loads(self.ctl("-j", "sessions"))["rows"]), 1)
        self.assertEqual(self.ctl("-t", "0.3", "drain", "--wait", status=1), "")
        leaving = subprocess.Popen([SLUICECTL, "-S", self.server.ctl_path, "drain", "--wait"], stdout=subprocess.PIPE,
                                   text=True)
        time.sleep(0.2)
        self.assertIsNone(leaving.poll())
        stays.close()
        self.assertEqual(leaving.communicate(timeout=WAIT_S)[0], "leaving, 0 sessions are left\n")
        self.assertEqual(leaving.returncode, 0)
        self.assertEqual(self.ctl("shutdown"), "stopped\n")
        self.assertEqual(self.server.process.wait(timeout=WAIT_S), 0)


class Crash(unittest.TestCase):
    def test_a_crash_says_where_in_which_build_and_what_was_counted(self):
        if pathlib.Path(BUILD).name in ("asan", "tsan"):
            self.skipTest("sanitizers report faults themselves")
        for number, said in ((signal.SIGSEGV, r"signal 11 \(segmentation fault\) at address 0x[0-9a-f]+ in thread \d+ \(\S+\)"),
                             (signal.SIGABRT, r"signal 6 \(abort\) in thread \d+ \(\S+\)"),
                             (signal.SIGBUS, r"signal 7 at address")):
            server = Server()
            with server.connect() as client:
                client.sendall(b"SET a b\r\nGET a\r\nNONSENSE\r\n")
                while b"NONSENSE" not in client.recv(1000):
                    pass
                version = json.loads(subprocess.run([SLUICECTL, "-S", server.ctl_path, "-j", "version"],
                                                    capture_output=True, text=True).stdout)
                server.process.send_signal(number)
                self.assertEqual(server.process.wait(timeout=WAIT_S), -number)
            log = server.log()
            server.stop(check=False)
            self.assertRegex(log, r"(?m)^crash: " + said)
            self.assertRegex(version["build_id"], r"^[0-9a-f]{40}$")
            self.assertIn(f"crash: sluiced {version['version']}, build id {version['build_id']}\n", log)
            found = re.search(r"crash: lcore 0: thread \d+, turns (\d+), requests (\d+), sessions (\d+), error replies (\d+)\n",
                              log)
            self.assertGreater(int(found.group(1)), 0)
            self.assertEqual([int(word) for word in found.groups()[1:]], [3, 1, 1])
            self.assertRegex(log, r"(?m)^\S*sluiced\(.*\)\[0x[0-9a-f]+\]$")

    def test_a_crash_of_an_lcore_is_reported_by_name(self):
        if pathlib.Path(BUILD).name in ("asan", "tsan"):
            self.skipTest("sanitizers report faults themselves")
        server = Server("lcores.idle=spin")
        lcores = json.loads(subprocess.run([SLUICECTL, "-S", server.ctl_path, "-j", "lcores"], capture_output=True,
                                           text=True).stdout)["lcores"]
        # tgkill, which os does not have
        subprocess.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(None).tgkill(*map(int, sys.argv[1:]))",
                        str(server.process.pid), str(lcores[0]["tid"]), "11"], check=True)
        self.assertEqual(server.process.wait(timeout=WAIT_S), -signal.SIGSEGV)
        log = server.log()
        server.stop(check=False)
        self.assertIn(f"in thread {lcores[0]['tid']} (lcore-0)\n", log)
        self.assertIn("lcore_run", log)


if __name__ == "__main__":
    unittest.main()
