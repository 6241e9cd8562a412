"""sluiced.service under a systemd of its own: PID 1 of a new process namespace, with mounts, network and control group of its
own and no units but ours. It serves in the unit's sandbox, reloads, is started again, and stays down when its settings are wrong."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, ROOT, skip  # noqa: E402

DEPLOY = ROOT / "config" / "deploy" / "systemd"
SYSTEMD = next((path for path in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd") if os.path.exists(path)), None)
WAIT_S = 30
HOME = "/opt/sluice"  # what the unit may see, unlike /tmp and /root
PROGRAMS = ("sluiced", "sluicectl", "sluice-cli", "sluice_fabric.so", "sluice_ethernet.so")
TARGETS = "sysinit basic network-online network shutdown sockets timers paths slices".split()
SETTINGS = """
lcores: { idle = "yield"; };
memory: { reserve = "256MiB"; ahead = "8MiB"; };
ports = ( { type = "fabric"; provider = "shm"; }, { type = "fabric"; provider = "tcp;ofi_rxm"; }%s );
"""
ETHERNET = ', { type = "ethernet"; device = "net_af_packet0,iface=veth1"; address = "10.0.0.2/24"; }'
# Asks for more than the kernel takes, and reads nothing.
DEAF = """
import socket, time
connection = socket.create_connection(("127.0.0.1", 6379))
connection.sendall(b"*3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\nk\\r\\n$1000000\\r\\n" + b"x" * 1000000 + b"\\r\\n" + b"GET k\\r\\n" * 20)
print("sent", flush=True)
time.sleep(60)
"""
# Nothing of the host's is changed: what is written is a tmpfs, and the kernel's own settings are read-only.
INSIDE = f"""
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,ro,bind /proc/sys
mount -t tmpfs tmpfs /opt
mkdir -p {HOME} /opt/etc /opt/units
cp "$@" {HOME}
cp -a /etc/. /opt/etc
mount --bind /opt/etc /etc
rm -rf /etc/systemd/system /etc/sluice
mkdir -p /etc/systemd/system /etc/sluice
grep -q ^sluice: /etc/passwd || echo 'sluice:x:64999:64999::/:/usr/sbin/nologin' >>/etc/passwd
grep -q ^sluice: /etc/group || echo 'sluice:x:64999:' >>/etc/group
for name in {' '.join(TARGETS)}; do printf '[Unit]\\nDefaultDependencies=no\\n' >/opt/units/$name.target; done
printf '[Unit]\\nDefaultDependencies=no\\n' >/opt/units/nothing.target
mount --bind /opt/units /usr/lib/systemd/system
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd /run/lock
umount -R -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
ip link add veth0 type veth peer name veth1
ip address add 10.0.0.1/24 dev veth0
ip link set veth0 up
ip link set veth1 up
export container=sluice-test
exec {SYSTEMD} --system --unit=nothing.target --log-target=null --show-status=no </dev/null
"""


class Machine:
    def __init__(self):
        mount = next((line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup2"), None)
        if mount is None:
            skip("no cgroup2 is mounted")
        self.group = pathlib.Path(mount) / f"sluice-test-{os.getpid()}"
        self.files = [str(BUILD.resolve() / name) for name in PROGRAMS if (BUILD / name).exists()]
        self.error = tempfile.TemporaryFile()
        try:
            self.group.mkdir()
        except OSError as error:
            skip(f"no control group can be made: {error.strerror}")
        join = f'echo $$ >{self.group}/cgroup.procs && exec unshare -m -p -f -C -u -i -n --kill-child bash -c "$0" inside "$@"'
        self.process = subprocess.Popen(["bash", "-c", join, INSIDE, *self.files], stdin=subprocess.DEVNULL,
                                        stdout=self.error, stderr=self.error)

    def wait_booted(self):
        """False with the reason where this kernel, or this container, does not let it."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            self.pid = children[0] if children else None
            if self.pid is not None and self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"):
                return True
            time.sleep(0.05)
        self.error.seek(0)
        self.why = self.error.read().decode(errors="replace").strip().splitlines()[-1:] or ["systemd does not come up"]
        return False

    def words(self, *words):
        return ["nsenter", "-t", self.pid, "-m", "-p", "-C", "-u", "-i", "-n", *words]

    def run(self, *words, **more):
        return subprocess.run(self.words(*words), capture_output=True, text=True, timeout=WAIT_S, **more)

    def write(self, name, text):
        self.run("sh", "-c", f"mkdir -p {os.path.dirname(name)} && cat >{name}", input=text)

    def show(self, name):
        return self.run("systemctl", "show", "-p", name, "--value", "sluiced").stdout.strip()

    def until(self, name, value):
        deadline = time.monotonic() + WAIT_S
        while (seen := self.show(name)) != value and time.monotonic() < deadline:
            time.sleep(0.05)
        return seen

    def close(self):
        self.process.kill()  # unshare ignores what is gentler; its child, PID 1 there, goes with it
        self.process.wait()
        for _ in range(100):
            try:
                for folder in sorted(self.group.rglob("*"), reverse=True):
                    if folder.is_dir():
                        folder.rmdir()
                self.group.rmdir()
                return
            except OSError:
                time.sleep(0.05)  # what ran there is ending


class Live(unittest.TestCase):
    machine = None

    def setUp(self):
        unit = (DEPLOY / "sluiced.service.in").read_text().replace("@bindir@", HOME)
        self.machine.write("/etc/systemd/system/sluiced.service", unit)
        self.drop_in("output", "StandardOutput=append:/run/sluiced.log\nStandardError=inherit")
        self.settings(SETTINGS % "")
        self.systemctl("daemon-reload")

    def tearDown(self):
        self.machine.run("systemctl", "stop", "sluiced")
        self.machine.run("sh", "-c", "rm -rf /etc/systemd/system/sluiced.service.d; systemctl reset-failed sluiced")

    def drop_in(self, name, text):
        self.machine.write(f"/etc/systemd/system/sluiced.service.d/{name}.conf", f"[Service]\n{text}\n")

    def settings(self, text):
        self.machine.write("/etc/sluice/sluice.conf", text)

    def systemctl(self, *words, code=0):
        done = self.machine.run("systemctl", *words)
        self.assertEqual(done.returncode, code, f"{words}: {done.stderr}\n{self.log()}")

    def log(self):
        return self.machine.run("cat", "/run/sluiced.log").stdout

    def status(self):
        done = self.machine.run(f"{HOME}/sluicectl", "status")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def process(self, name):
        """One line of the server's /proc/PID/status."""
        text = self.machine.run("cat", f"/proc/{self.machine.show('MainPID')}/status").stdout
        return next(line.split(":")[1].strip() for line in text.splitlines() if line.startswith(name + ":"))

    def test_it_serves_as_a_user_without_rights_and_stops_when_told(self):
        self.systemctl("start", "sluiced")
        status = self.status()
        self.assertIn("running, ready", status)
        self.assertIn("shm\n", status)
        self.assertNotEqual(self.process("Uid").split()[0], "0")
        self.assertEqual((self.process("CapBnd"), self.process("CapEff"), self.process("NoNewPrivs"), self.process("Seccomp")),
                         ("0" * 16, "0" * 16, "1", "2"))
        done = self.machine.run(f"{HOME}/sluice-cli", "SET", "k", "v")
        self.assertEqual((done.stdout, done.stderr), ("OK\n", ""))
        self.assertEqual(self.machine.run("sh", "-c", f"ls /proc/{self.machine.show('MainPID')}/root/home").stdout, "")
        self.systemctl("stop", "sluiced")
        self.assertEqual((self.machine.show("Result"), self.machine.show("ExecMainStatus")), ("success", "0"))
        self.assertNotEqual(self.machine.run("ls", "/run/sluice").returncode, 0)

    def test_reload_waits_for_its_result(self):
        self.systemctl("start", "sluiced")
        self.settings("log: { level = \"debug\"; };" + SETTINGS % "")
        self.systemctl("reload", "sluiced")
        self.assertEqual(self.machine.run(f"{HOME}/sluicectl", "config", "get", "log.level").stdout.split()[-1], "debug")
        self.settings("memory: { reserv = \"1GiB\"; };")
        self.systemctl("reload", "sluiced", code=1)
        self.assertEqual(self.machine.show("ActiveState"), "active")

    def test_one_that_crashes_is_started_again_and_wrong_settings_are_not(self):
        self.systemctl("start", "sluiced")
        self.machine.run("kill", "-SEGV", self.machine.show("MainPID"))
        self.assertEqual(self.machine.until("NRestarts", "1"), "1")
        self.assertEqual(self.machine.until("ActiveState", "active"), "active")
        self.settings("memory: { reserv = \"1GiB\"; };")
        self.systemctl("restart", "sluiced", code=1)
        self.assertEqual((self.machine.show("ActiveState"), self.machine.show("ExecMainStatus")), ("failed", "2"))
        time.sleep(1.5)  # longer than RestartSec=
        self.assertEqual((self.machine.show("ActiveState"), self.machine.show("NRestarts")), ("failed", "0"))

    def test_one_that_stands_still_is_started_again(self):
        self.drop_in("watchdog", "WatchdogSec=1")
        self.systemctl("daemon-reload")
        self.systemctl("start", "sluiced")
        time.sleep(2.5)
        self.assertEqual((self.machine.show("ActiveState"), self.machine.show("NRestarts")), ("active", "0"))
        self.machine.run("kill", "-STOP", self.machine.show("MainPID"))
        self.assertEqual(self.machine.until("NRestarts", "1"), "1")
        self.assertEqual(self.machine.until("ActiveState", "active"), "active")

    def test_the_drain_may_take_longer_than_the_unit_waits(self):
        self.drop_in("stop", "TimeoutStopSec=1")
        self.settings('shutdown: { drain = "3s"; };' + SETTINGS % "")
        self.systemctl("daemon-reload")
        self.systemctl("start", "sluiced")
        with subprocess.Popen(self.machine.words("/usr/bin/python3", "-c", DEAF), stdout=subprocess.PIPE) as deaf:
            self.assertEqual(deaf.stdout.readline(), b"sent\n")
            time.sleep(0.5)
            begun = time.monotonic()
            self.systemctl("stop", "sluiced")
            self.assertGreater(time.monotonic() - begun, 2)
            deaf.kill()
        self.assertEqual((self.machine.show("Result"), self.machine.show("ExecMainStatus")), ("success", "0"))

    @unittest.skipUnless((BUILD / "sluice_ethernet.so").exists(), "built without DPDK")
    def test_an_ethernet_port_on_a_kernel_interface_needs_its_drop_in_and_no_more(self):
        self.settings(SETTINGS.replace("lcores", "auth: { protected_mode = false; };\nlcores") % ETHERNET)
        self.systemctl("start", "sluiced", code=1)
        self.systemctl("stop", "sluiced")
        self.machine.run("systemctl", "reset-failed", "sluiced")
        self.drop_in("ethernet", (DEPLOY / "ethernet-af_packet.conf").read_text())
        self.systemctl("daemon-reload")
        self.systemctl("start", "sluiced")
        self.assertIn("10.0.0.2", self.status())
        self.assertEqual(self.machine.run("ping", "-c", "2", "-W", "5", "10.0.0.2").returncode, 0)
        self.assertEqual(self.process("CapEff"), "0" * 16)


if __name__ == "__main__":
    if os.geteuid() != 0 or SYSTEMD is None or not all(map(shutil.which, ("unshare", "nsenter", "ip", "ping"))):
        skip("needs root, systemd, unshare, nsenter, ip and ping")
    Live.machine = Machine()
    try:
        if not Live.machine.wait_booted():
            skip(f"systemd cannot run in namespaces here: {Live.machine.why[0]}")
        ended = unittest.main(exit=False)
    finally:
        Live.machine.close()
    sys.exit(not ended.result.wasSuccessful())
