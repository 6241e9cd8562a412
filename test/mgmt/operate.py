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
        subprocess.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(None).syscall(234, *map(int, sys.argv[1:]))",
                        str(server.process.pid), str(lcores[0]["tid"]), "11"], check=True)
        self.assertEqual(server.process.wait(timeout=WAIT_S), -signal.SIGSEGV)
        log = server.log()
        server.stop(check=False)
        self.assertIn(f"in thread {lcores[0]['tid']} (lcore-0)\n", log)
        self.assertIn("lcore_run", log)


if __name__ == "__main__":
    unittest.main()
