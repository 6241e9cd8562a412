"""live_settings.py - settings that change while the appliance runs: set, saved, read again; whole or not at all."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, Server  # noqa: E402

SLUICECTL = str(BUILD / "sluicectl")
WAIT_S = 20
TEXT = '''# ours
memory: {
  limit = "512MiB"; # half of the reserve
};
log: { level = "info"; };
'''


class Settings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-live-")
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "sluice.conf"
        self.file.write_text(TEXT)
        self.server = Server(config=self.file)
        self.addCleanup(self.server.stop)

    def ctl(self, *words, status=0):
        done = subprocess.run([SLUICECTL, "-S", self.server.ctl_path, *words], capture_output=True, text=True,
                              timeout=WAIT_S)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr if status else done.stdout

    def get(self, name):
        return self.ctl("config", "get", name).rstrip("\n")

    def wait_for_log(self, text):
        end = time.monotonic() + WAIT_S
        while text not in self.server.log():
            self.assertLess(time.monotonic(), end, self.server.log())
            time.sleep(0.02)

    def test_a_change_holds_at_once_and_says_who_made_it(self):
        self.assertEqual(self.ctl("config", "set", "memory.limit", "256MiB"), "memory.limit is now 256MiB\n")
        self.assertEqual(self.get("memory.limit"), "256MiB")
        self.assertEqual(json.loads(self.ctl("-j", "memory"))["limit_bytes"], 256 << 20)
        self.assertRegex(self.server.log(), r"memory\.limit: 512MiB is now 256MiB, by uid \d+ on the management socket")
        self.assertEqual(self.file.read_text(), TEXT)
        row = json.loads(self.ctl("-j", "config", "get", "memory.limit"))
        self.assertEqual((row["from"], row["live"]), ("changed", True))

    def test_wrong_changes_change_nothing(self):
        for words, said in ((["memory.limit", "256 MiB"], "expected a size from"),
                            (["memory.limit", "2GiB"], "memory.reserve"),
                            (["memory.limit", ""], "expected a size"),
                            (["memory.limit", "31MiB"], "expected a size"),
                            (["log.level", "loud"], '"debug"'),
                            (["streams.port", "1"], "cannot change while the appliance runs"),
                            (["streams.prot", "1"], "no such setting"),
                            (["lcores.cpus", "0" + " " * 300], "expected at most 255"),
                            (["memory.limit"], "expected a name and a value")):
            status = 2 if len(words) == 1 else 1
            self.assertIn(said, self.ctl("config", "set", *words, status=status))
            self.assertIn(said, self.ctl("config", "set", "--save", *words, status=status))
        self.assertEqual((self.get("memory.limit"), self.get("log.level")), ("512MiB", "info"))
        self.assertEqual(self.file.read_text(), TEXT)
        self.assertIn("no such setting", self.ctl("config", "get", "streams.prot", status=1))

    def test_saving_changes_the_file_and_survives_a_start(self):
        self.assertEqual(self.ctl("config", "set", "--save", "memory.limit", "300MiB"),
                         "memory.limit is now 300MiB, saved\n")
        self.ctl("config", "set", "log.level", "warning", "--save")
        saved = TEXT.replace('"512MiB"', '"300MiB"').replace('"info"', '"warning"')
        self.assertEqual(self.file.read_text(), saved)
        with Server(config=self.file) as second:
            shown = subprocess.run([SLUICECTL, "-S", second.ctl_path, "config", "get", "memory.limit"],
                                   capture_output=True, text=True)
            self.assertEqual(shown.stdout, "300MiB\n")

    def test_without_a_file_nothing_can_be_saved(self):
        with Server() as server:
            done = subprocess.run([SLUICECTL, "-S", server.ctl_path, "config", "set", "--save", "log.level", "debug"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("no file to save it in", done.stderr)
            done = subprocess.run([SLUICECTL, "-S", server.ctl_path, "config", "reload"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, "nothing has changed\n"))

    def test_a_file_that_cannot_be_written_leaves_the_setting_as_it_was(self):
        self.file.unlink()
        self.assertIn("No such file", self.ctl("config", "set", "--save", "log.level", "debug", status=1))
        self.assertEqual(self.get("log.level"), "info")
        self.assertIn("No such file", self.ctl("config", "reload", status=1))
        self.assertEqual(self.get("memory.limit"), "512MiB")

    def test_reading_again_makes_live_settings_what_the_file_says(self):
        self.assertEqual(self.ctl("config", "reload"), "nothing has changed\n")
        self.ctl("config", "set", "log.level", "error")
        self.file.write_text(TEXT.replace("512MiB", "128MiB") + "management: { mode = \"0640\"; };\n"
                             'users = ( { name = "a"; password = "b"; } );\n')
        self.assertEqual(self.ctl("config", "reload"), "memory.limit: 512MiB is now 128MiB\nlog.level: error is now info\n"
                         "management.mode: takes effect at the next start\nusers: takes effect at the next start\n")
        self.assertEqual((self.get("memory.limit"), self.get("log.level")), ("128MiB", "info"))
        again = json.loads(self.ctl("-j", "config", "reload"))
        self.assertEqual(again, {"changed": [], "restart": ["management.mode", "users"], "warnings": []})

    def test_a_wrong_file_changes_nothing_at_all(self):
        self.file.write_text(TEXT.replace("512MiB", "128MiB").replace("info", "loud"))
        self.assertIn("sluice.conf:5", self.ctl("config", "reload", status=1))
        self.assertEqual((self.get("memory.limit"), self.get("log.level")), ("512MiB", "info"))
        self.file.write_text(TEXT.replace("512MiB", "4GiB"))  # good in itself, but more than the reserve
        self.assertIn("memory.reserve", self.ctl("config", "reload", status=1))
        self.assertEqual(self.get("memory.limit"), "512MiB")

    def test_sighup_reads_again_too(self):
        self.file.write_text(TEXT.replace("512MiB", "128MiB") + "streams: { port = 7; };\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.wait_for_log("memory.limit: 512MiB is now 128MiB, by SIGHUP")
        self.file.write_text("memory: { limit = ;\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.wait_for_log("settings not read again, by SIGHUP: ")
        self.assertEqual(self.get("memory.limit"), "128MiB")
        with self.server.connect() as client:
            client.sendall(b"PING\r\n")
            self.assertEqual(client.recv(100), b"+PONG\r\n")

    def test_over_the_file_stands_the_command_line(self):
        with Server("log.level=warning", config=self.file) as server:
            words = [SLUICECTL, "-S", server.ctl_path, "config"]
            subprocess.run([*words, "set", "log.level", "debug"], check=True, capture_output=True)
            done = subprocess.run([*words, "reload"], capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout, "log.level: debug is now warning\n")

    def test_a_file_is_checked_without_an_appliance(self):
        done = subprocess.run([SLUICECTL, "-S", "/nowhere", "config", "check", self.file], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, f"{self.file}: good\n"))
        self.file.write_text("log: { levle = 1; };\n")
        done = subprocess.run([SLUICECTL, "config", "check", self.file], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(':1: unknown setting "log.levle", did you mean "log.level"?', done.stderr)


class Cpus(unittest.TestCase):
    """Lcores that move while they serve."""

    def setUp(self):
        self.allowed = sorted(os.sched_getaffinity(0))
        if len(self.allowed) < 2:
            self.skipTest("needs two CPUs")
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-live-")
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name) / "sluice.conf"
        self.write(self.allowed[0])
        self.server = Server(config=self.file)
        self.addCleanup(self.server.stop)

    ctl = Settings.ctl
    get = Settings.get
    wait_for_log = Settings.wait_for_log

    def write(self, cpus):
        self.file.write_text(f'# ours\nlcores: {{\n  cpus = "{cpus}"; # where\n}};\n')

    def check(self, cpu):
        """The lcore has the CPU, no other thread does, and everything that shows it says so."""
        for task in pathlib.Path(f"/proc/{self.server.process.pid}/task").iterdir():
            name, on = (task / "comm").read_text().strip(), os.sched_getaffinity(int(task.name))
            self.assertEqual(cpu in on, name == "lcore-0", (name, on))
        row = json.loads(self.ctl("-j", "lcores"))["lcores"][0]
        self.assertEqual((row["cpu"], row["cpu_node"]), (cpu, row["node"]))
        self.assertRegex(self.ctl("status"), rf"(?m)^lcores +1 on CPU {cpu}, ")
        self.assertRegex(self.ctl("top"), rf"(?m)^ +0 +{cpu} ")
        advice = {finding["name"]: finding for finding in json.loads(self.ctl("-j", "doctor", status=None))["findings"]}
        self.assertIn(f"1 for lcores, {len(self.allowed)} allowed", advice["cpus"]["found"])
        self.assertRegex(advice["isolation"]["found"], rf"CPUs {cpu} (do not )?have it")
        self.assertEqual(advice["lcore memory"]["level"], "good")

    def test_an_lcore_moves_between_two_requests_of_a_client(self):
        first, second = self.allowed[:2]
        self.check(first)
        with self.server.connect() as client:
            for cpu in (second, first) * 20:
                client.sendall(b"PING\r\n" * 50)
                self.assertEqual(self.ctl("config", "set", "lcores.cpus", str(cpu)), f"lcores.cpus is now {cpu}\n")
                missing = 50
                while missing > 0:
                    missing -= client.recv(4096).count(b"+PONG\r\n")
        self.check(first)
        self.ctl("config", "set", "lcores.cpus", str(second))
        self.check(second)

    def test_a_move_is_saved_read_again_and_signalled(self):
        first, second = self.allowed[:2]
        self.assertEqual(self.ctl("config", "set", "--save", "lcores.cpus", str(second)),
                         f"lcores.cpus is now {second}, saved\n")
        self.assertEqual(self.file.read_text(), f'# ours\nlcores: {{\n  cpus = "{second}"; # where\n}};\n')
        self.check(second)
        self.write(first)
        self.assertEqual(self.ctl("config", "reload"), f"lcores.cpus: {second} is now {first}\n")
        self.check(first)
        self.write(second)
        self.server.process.send_signal(signal.SIGHUP)
        self.wait_for_log(f"lcores.cpus: {first} is now {second}, by SIGHUP")
        self.check(second)

    def test_another_number_of_lcores_waits_for_a_start(self):
        first, second = self.allowed[:2]
        self.write(f"{first},{second}")
        self.assertEqual(self.ctl("config", "reload"), "lcores.cpus: takes effect at the next start\n")
        self.assertIn("has 2 CPUs, expected 1", self.ctl("config", "set", "lcores.cpus", f"{first},{second}", status=1))
        self.check(first)

    def test_a_cpu_that_is_not_ours_is_refused(self):
        before = self.file.read_text()
        for words in (["lcores.cpus", "1023"], ["--save", "lcores.cpus", "1023"]):
            self.assertIn("CPU 1023 is not allowed to this process, expected some of ",
                          self.ctl("config", "set", *words, status=1))
        self.assertEqual(self.file.read_text(), before)
        self.write(1023)
        self.assertIn("sluice.conf:3: lcores.cpus: CPU 1023 is not allowed", self.ctl("config", "reload", status=1))
        self.check(self.allowed[0])

    def test_a_move_that_cannot_be_saved_is_taken_back(self):
        self.file.unlink()
        self.assertIn("No such file", self.ctl("config", "set", "--save", "lcores.cpus", str(self.allowed[1]), status=1))
        self.check(self.allowed[0])


class Credit(unittest.TestCase):
    def test_a_credit_is_seen_at_once_and_holds_for_the_next_session(self):
        ports = 'ports=( { type = "fabric"; provider = "net"; } )'
        with Server(ports) as self.server:
            for value, shown in (("3", 3), ("64", 14), ("auto", 14), ("1", 1)):
                self.assertEqual(self.ctl("config", "set", "fabric.credit", value), f"fabric.credit is now {value}\n")
                self.assertEqual(self.ctl("config", "get", "fabric.credit"), f"{value}\n")
                self.assertEqual(json.loads(self.ctl("-j", "ports"))["ports"][1]["credit"], shown)
                done = subprocess.run([BUILD / "sluice-cli", "-p", str(self.server.port), "--fabric", "net", "PING"],
                                      capture_output=True, text=True, timeout=WAIT_S)
                self.assertEqual((done.returncode, done.stdout), (0, "PONG\n"), done.stderr)
            for value in ("0", "65", "", "auto "):
                self.assertIn('expected a whole number from 1 to 64, or "auto"',
                              self.ctl("config", "set", "fabric.credit", value, status=1))

    ctl = Settings.ctl


if __name__ == "__main__":
    unittest.main()
