"""screens.py - what sluicectl shows people: histograms as text, differences of saved ones, live views in a terminal."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, Server  # noqa: E402

SLUICECTL = str(BUILD / "sluicectl")
WAIT_S = 20


def encode(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


class Load:
    """SET and GET in turns until told to stop."""

    def __init__(self, server):
        self.socket = server.connect()
        self.going = True
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        requests = encode("SET", "key", "value") + encode("GET", "key")
        while self.going:
            self.socket.sendall(requests)
            self.socket.recv(4096)
            time.sleep(0.001)

    def stop(self):
        self.going = False
        self.thread.join()
        self.socket.close()


class Terminal:
    """A command in a terminal of its own, behind a tmux server of its own."""

    def __init__(self, *words, columns=80, rows=24):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-tmux-")
        self.socket = os.path.join(self.folder.name, "tmux")
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "sh")
        self.tmux("send-keys", "PS1='prompt> '; clear", "Enter")
        self.tmux("send-keys", " ".join(words), "Enter")

    def tmux(self, *words):
        environment = dict(os.environ, TERM="xterm")
        environment.pop("TMUX", None)
        done = subprocess.run(["tmux", "-f", "/dev/null", "-S", self.socket, *words], capture_output=True, text=True,
                              timeout=WAIT_S, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def picture(self):
        return self.tmux("capture-pane", "-p").rstrip("\n").split("\n")

    def wait(self, pattern):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            picture = self.picture()
            if re.search(pattern, "\n".join(picture), re.MULTILINE):
                return picture
            time.sleep(0.05)
        raise AssertionError(f"{pattern} never showed up:\n" + "\n".join(self.picture()))

    def key(self, key):
        self.tmux("send-keys", key)

    def close(self):
        self.tmux("kill-server")
        self.folder.cleanup()


class Screens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.load = Load(cls.server)
        cls.words = [SLUICECTL, "-S", cls.server.ctl_path]

    @classmethod
    def tearDownClass(cls):
        cls.load.stop()
        cls.server.stop()

    def run_ctl(self, *words, status=0):
        done = subprocess.run([*self.words, *words], capture_output=True, text=True, timeout=WAIT_S)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def terminal(self, *words, **size):
        terminal = Terminal(*self.words, *words, **size)
        self.addCleanup(terminal.close)
        return terminal

    def test_percentiles_are_the_text_of_hdrhistogram(self):
        text = self.run_ctl("latency", "get", "--percentiles")
        lines = text.splitlines()
        self.assertEqual(lines[0].split(), ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"])
        self.assertEqual(lines[1], "")
        rows = [[float(word) for word in line.split()] for line in lines[2:] if not line.startswith("#")]
        *inner, last = rows
        for row in inner:
            self.assertEqual(len(row), 4)
            self.assertAlmostEqual(row[3], 1 / (1 - row[1]), delta=row[3] * 0.01)
        self.assertEqual((len(last), last[1]), (3, 1))
        for column in range(3):
            values = [row[column] for row in rows]
            self.assertEqual(values, sorted(values))
        foot = re.search(r"#\[Mean += +([\d.]+), StdDeviation += +([\d.]+)\]\n#\[Max += +([\d.]+), Total count += +(\d+)\]\n"
                         r"#\[Buckets = +37, SubBuckets += +32\]\n$", text)
        self.assertTrue(foot, text)
        self.assertEqual((float(foot.group(3)), int(foot.group(4))), (last[0], last[2]))
        self.assertLess(float(foot.group(1)), last[0])
        # The value at a percentile has at least that share of the counted at or below it.
        for value, percentile, count, _ in inner:
            self.assertGreaterEqual(count + 1e-6, percentile * last[2])
        everything = self.run_ctl("latency", "--percentiles")
        self.assertGreater(int(re.search(r"Total count += +(\d+)", everything).group(1)), last[2])
        self.assertIn("nothing was counted", self.run_ctl("latency", "del", "--percentiles", status=1))

    def test_differences_of_saved_histograms_are_exact(self):
        with tempfile.TemporaryDirectory() as folder:
            old, new, other, bad = (os.path.join(folder, name) for name in ("old", "new", "other", "bad"))
            client = self.server.connect()
            self.assertEqual(self.run_ctl("latency", "--save=" + old), "")
            for _ in range(123):
                client.sendall(encode("STRLEN", "key"))
                client.recv(100)
            time.sleep(0.05)
            self.run_ctl("latency", "--save", new)
            client.sendall(encode("STRLEN", "key"))
            client.recv(100)
            client.close()
            time.sleep(0.05)
            rows = {row["command"]: row for row in json.loads(self.run_ctl("-j", "latency", "--diff", f"{old},{new}"))["rows"]}
            self.assertEqual(rows["strlen"]["count"], 123)
            self.assertEqual(sum(bucket[2] for bucket in rows["strlen"]["buckets"]), 123)
            self.assertGreater(rows["get"]["count"], 0)
            since = json.loads(self.run_ctl("-j", "latency", "strlen", "--diff", new))["rows"]
            self.assertEqual([row["count"] for row in since], [1])
            self.assertRegex(self.run_ctl("latency", "--diff", f"{old},{new}", "--hist"), r"(?m)^strlen: 123 counted$")
            without = subprocess.run([SLUICECTL, "-S", "/nowhere", "latency", "--diff", f"{old},{new}"],
                                     capture_output=True, text=True)
            self.assertEqual(without.returncode, 0, without.stderr)
            self.run_ctl("latency", "--kind", "loop", "--save=" + other)
            self.assertIn("service times, the other loop times",
                          self.run_ctl("latency", "--diff", f"{old},{other}", status=1))
            pathlib.Path(bad).write_text('{"rows": [{"command": 5}]}')
            self.assertIn("was not written by", self.run_ctl("latency", "--diff", bad, status=1))
            self.assertIn("No such file", self.run_ctl("latency", "--diff", folder + "/none", status=1))
            self.assertIn("cannot write", self.run_ctl("latency", "--save=" + folder + "/none/x", status=1))

    def test_watching_takes_keys_and_gives_the_terminal_back(self):
        terminal = self.terminal("latency", "--watch", "0.2")
        picture = terminal.wait(r"^get ")
        self.assertRegex(picture[0], r"^\d\d:\d\d:\d\d  last 0.2 s; all lcores; every command$")
        self.assertIn("q quit", picture[1])
        self.assertTrue(any(line.startswith("set ") for line in picture))
        terminal.key("l")
        terminal.wait(r"last 0.2 s; lcore 0; every command")
        terminal.key("l")
        terminal.wait(r"; all lcores;")
        command = "every command"
        while command not in ("set", "get"):
            terminal.key("c")
            command = terminal.wait(rf"all lcores; (?!{command}$)")[0].rsplit("; ", 1)[1]
        terminal.wait(rf"^{command} ")
        self.assertEqual([line for line in terminal.picture()[5:] if line and not line.startswith(command)], [])
        terminal.key("h")
        terminal.wait(rf"^{command}: \d+ counted$")
        terminal.wait(r"ns \|#+")
        terminal.key("r")
        terminal.wait(r"since reset")
        terminal.wait(rf"^{command}: \d+ counted$")
        counts = [int(re.search(r": (\d+) counted", "\n".join(terminal.picture())).group(1))]
        for _ in range(2):
            time.sleep(0.6)
            counts.append(int(re.search(r": (\d+) counted", "\n".join(terminal.picture())).group(1)))
        self.assertLess(counts[0], counts[1])
        self.assertLess(counts[1], counts[2])
        terminal.key("p")
        paused = terminal.wait("since reset, paused")
        time.sleep(0.6)
        self.assertEqual(terminal.picture()[1:], paused[1:])
        terminal.key("p")
        terminal.key("k")
        terminal.wait(r"^residence time in microseconds$")
        terminal.key("q")
        picture = terminal.wait(r"prompt> *$")
        self.assertNotIn("residence", "\n".join(picture))
        terminal.key("echo seen")
        terminal.key("Enter")
        terminal.wait(r"^seen$")  # the terminal echoes and takes whole lines again

    def test_an_interrupt_gives_the_terminal_back_too(self):
        terminal = self.terminal("latency", "--watch=0.2", "||", "echo", "status", "$?")
        terminal.wait(r"^get ")
        terminal.key("C-c")
        picture = "\n".join(terminal.wait(r"prompt> *$"))
        self.assertNotIn("microseconds", picture)

    def test_top_is_one_screen(self):
        reader = self.server.connect()  # the slowest client: it never reads
        value = "v" * 60000
        reader.sendall(encode("CLIENT", "SETNAME", "sleepy") + encode("SET", "big", value))
        time.sleep(0.2)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setblocking(False)
        try:
            for _ in range(300):
                reader.send(encode("GET", "big"))
        except BlockingIOError:
            pass
        terminal = self.terminal("top", "--watch=0.3")
        picture = terminal.wait(r"^(get|set) .*%")
        text = "\n".join(picture)
        self.assertRegex(text, r"requests/s, \d+ sessions, \d+ keys; lcores [\d.]+% busy")
        self.assertRegex(text, r"memory .* of 1.0 GiB \([\d.]+%\)")
        self.assertRegex(text, r"(?m)^ +0 +\d+ +running +[\d.]+% +[\d.k]+ +\d+$")
        slow = next(line for line in picture[[i for i, line in enumerate(picture) if "SLOWEST" in line][0] + 1:])
        self.assertRegex(slow, r"KiB.* sleepy|MiB.* sleepy")
        self.assertLessEqual(max(len(line) for line in picture), 80)
        terminal.key("q")
        terminal.wait(r"prompt> *$")
        reader.close()

    def test_small_terminals_cut_and_do_not_scroll(self):
        terminal = self.terminal("top", "--watch=0.3", columns=40, rows=8)
        picture = terminal.wait(r"^\d\d:\d\d:\d\d  sluiced")
        self.assertLessEqual(len(picture), 8)
        self.assertTrue(picture[0].startswith(time.strftime("%H:")) or picture[0][2] == ":")
        terminal.key("q")
        terminal.wait(r"prompt> *$")

    def test_in_a_pipe_there_is_no_escape_and_no_key(self):
        for words in (["top"], ["latency", "--hist"], ["latency", "-l"]):
            text = self.run_ctl(*words)
            self.assertNotIn("\033", text)
            self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        watching = subprocess.Popen([*self.words, "latency", "--watch=0.1"], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, text=True)
        lines = [watching.stdout.readline() for _ in range(12)]
        watching.terminate()
        rest = watching.communicate(timeout=WAIT_S)[0]
        self.assertEqual(watching.returncode, 0)
        self.assertNotIn("\033", "".join(lines) + rest)
        self.assertNotIn("q quit", "".join(lines))
        self.assertIn("service time in microseconds\n", lines)


if __name__ == "__main__":
    unittest.main()
