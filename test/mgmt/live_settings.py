"""live_settings.py - settings that change while the appliance runs: set, saved, read again; whole or not at all."""

import json
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
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

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
        self.assertEqual(again, {"changed": [], "restart": ["management.mode", "users"]})

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


if __name__ == "__main__":
    unittest.main()
