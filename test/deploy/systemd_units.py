"""The units are what systemd takes: verified without a word, and as locked down as each kind of ethernet port allows. What
the unit's filter of system calls lets through is what sluiced makes."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, ROOT, Server, skip  # noqa: E402

DEPLOY = ROOT / "config" / "deploy" / "systemd"
UNITS = ("sluiced.service", "sluice-appliance.service", "sluice-appliance.target")
EXPOSURE = {None: 1.6, "ethernet-af_packet.conf": 2.0, "ethernet-vfio-pci.conf": 2.4}
ANALYZE = shutil.which("systemd-analyze")
SYSTEM = next((path for path in map(pathlib.Path, ("/usr/lib/systemd/system", "/lib/systemd/system")) if path.is_dir()), None)


def analyze(*words):
    return subprocess.run([ANALYZE, *map(str, words)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "SYSTEMD_LOG_LEVEL": "info"})


class Root:
    """A root of this system's own units and ours, with programs of ours that are only there."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="sluice-units-"))
        ours = self.path / "etc/systemd/system"
        ours.mkdir(parents=True)
        shutil.copytree(SYSTEM, self.path / "usr/lib/systemd/system", symlinks=True)
        (self.path / "lib").symlink_to("usr/lib")
        for name in ("bin/sluiced", "bin/sluicectl", "sbin/sluice-appliance", "bin/kill"):
            program = self.path / "usr" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
        for name in UNITS:
            source = DEPLOY / name
            text = source.read_text() if source.exists() else (DEPLOY / f"{name}.in").read_text()
            self.unit(name, text.replace("@bindir@", "/usr/bin").replace("@sbindir@", "/usr/sbin"))

    def unit(self, name, text):
        (self.path / "etc/systemd/system" / name).write_text(text)

    def drop_in(self, name):
        folder = self.path / "etc/systemd/system/sluiced.service.d"
        shutil.rmtree(folder, ignore_errors=True)
        if name is not None:
            folder.mkdir()
            shutil.copy(DEPLOY / name, folder)

    def verify(self):
        return analyze("verify", "--man=no", f"--root={self.path}", *UNITS)

    def security(self, threshold):
        """--threshold counts tenths."""
        return analyze("security", "--offline=true", "--no-pager", f"--threshold={round(threshold * 10)}",
                       f"--root={self.path}", "sluiced.service")


class Units(unittest.TestCase):
    def setUp(self):
        self.root = Root()
        self.addCleanup(shutil.rmtree, self.root.path)

    def test_a_planted_mistake_is_seen(self):
        unit = (DEPLOY / "sluiced.service.in").read_text().replace("@bindir@", "/usr/bin")
        for planted in ("ProtectHoem=yes", "SystemCallFilter=nosuchcall", "CPUAffinity=x"):
            self.root.unit("sluiced.service", unit.replace("[Install]", f"{planted}\n[Install]"))
            done = self.root.verify()
            self.assertNotEqual((done.returncode, done.stdout + done.stderr), (0, ""), planted)
        self.root.unit("sluiced.service", unit.replace("ProtectKernelModules=yes", "").replace("PrivateUsers=yes", ""))
        self.assertNotEqual(self.root.security(EXPOSURE[None] - 0.2).returncode, 0)

    def test_systemd_has_nothing_to_say(self):
        for name in EXPOSURE:
            with self.subTest(drop_in=name):
                self.root.drop_in(name)
                done = self.root.verify()
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_exposure_is_at_most_what_each_port_needs(self):
        self.assertEqual({path.name for path in DEPLOY.glob("*.conf")}, set(EXPOSURE) - {None})
        for name, most in EXPOSURE.items():
            with self.subTest(drop_in=name):
                self.root.drop_in(name)
                done = self.root.security(most)
                said = done.stdout.strip().splitlines()[-1]
                print(f"{name or 'no ethernet port'}: {said}")
                self.assertEqual(done.returncode, 0, said)

    def test_every_program_and_page_named_is_one_of_ours(self):
        for name in UNITS:
            text = (self.root.path / "etc/systemd/system" / name).read_text()
            for page in re.findall(r"man:([\w.-]+)\((\d)\)", text):
                self.assertTrue(list((ROOT / "tools/man").glob(".".join(page) + ".scd*")), page)


class Calls(unittest.TestCase):
    """What the unit's filter refuses, sluiced would do without or stumble over."""

    def allowed(self):
        """The calls of the unit's filter: a list to take, and a list to take away."""
        unit = (DEPLOY / "sluiced.service.in").read_text()
        allowed = set()
        for words in re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE):
            calls = {call for word in words.lstrip("~").split() for call in self.expand(word)}
            allowed = allowed - calls if words.startswith("~") else allowed | calls
        return allowed | self.expand("@default")

    def expand(self, word):
        if not word.startswith("@"):
            return {word}
        lines = [line.strip() for line in analyze("syscall-filter", word).stdout.splitlines()[1:]]
        return {call for line in lines if line and line[0] != "#" for call in self.expand(line)}

    def test_every_call_of_a_life_with_fabric_ports_is_let_through(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-calls-"))
        self.addCleanup(shutil.rmtree, folder)

        class Traced(Server):
            prefix = ("strace", "-D", "-f", "-qq", "-o", str(folder / "calls"))

        ports = 'ports=( { type="fabric"; provider="shm"; }, { type="fabric"; provider="net"; }, ' \
                '{ type="fabric"; provider="tcp;ofi_rxm"; } )'
        with Traced(ports, "metrics.port=0") as server:
            server.sluicectl("config", "reload")
            server.sluicectl("doctor", check=False)
            with server.connect() as connection:
                connection.sendall(b"PING\r\nKEYS *\r\n")
                self.assertIn(b"PONG", connection.recv(100))
            subprocess.run([str(BUILD / "sluice-bench"), "latency", "-p", str(server.port), "--provider", "shm",
                            "--samples", "100", "--warmup", "10"], capture_output=True, timeout=60, check=True)
        made = set(re.findall(r"^\d+ +(\w+)\(", (folder / "calls").read_text(errors="replace"), re.MULTILINE))
        self.assertGreater(len(made), 40)
        self.assertEqual(made - self.allowed(), set())


if __name__ == "__main__":
    if ANALYZE is None:
        skip("systemd-analyze is not here (Debian: systemd)")
    unittest.main()
