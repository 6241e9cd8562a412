"""made_up_host.py - an hpc7g.16xlarge made of files, whose programs and whose drivers do what the real ones would."""

import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, ROOT, SKIPPED  # noqa: E402,F401

NOBODY = 65534
DEPLOY = ROOT / "config" / "deploy" / "systemd"
CARD = "0000:00:06.0"
SCALED = (0, 1, 2, 3, 16, 48)  # CPUs with a governor: enough of them, and few files
KERNEL = {
    "proc/meminfo": "MemTotal:       131072000 kB\n",
    "proc/cmdline": "root=/dev/nvme0n1p1 quiet\n",
    "proc/swaps": "Filename Type Size Used Priority\n",
    "proc/1/comm": "systemd\n",
    "proc/700/comm": "irqbalance\n",
    "proc/net/route": "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
                      "ens5 00000000 0100000A 0003 0 0 100 00000000 0 0 0\n"
                      "ens6 00000000 0100000A 0003 0 0 512 00000000 0 0 0\n",
    "proc/net/ipv6_route": "",
    "proc/sys/kernel/random/boot_id": "first\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/irq/default_smp_affinity": "ffffffff,ffffffff\n",
    "proc/irq/0/smp_affinity_list": "0\n",
    "proc/irq/24/smp_affinity_list": "0-63\n",
    "proc/irq/25/smp_affinity_list": "7\n",
    "proc/irq/100/smp_affinity_list": "50\n",
    "sys/devices/system/cpu/present": "0-63\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
    "sys/class/net/lo/mtu": "65536\n",
    "sys/module/vfio/parameters/enable_unsafe_noiommu_mode": "N\n",
    f"sys/bus/pci/devices/{CARD}/vendor": "0x1d0f\n",
    f"sys/bus/pci/devices/{CARD}/driver_override": "(null)\n",
    "sys/bus/pci/devices/0000:00:05.0/vendor": "0x1d0f\n",
    "etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n',
    "ethtool.ens5": "Adaptive RX: on  TX: off\nrx-usecs: 20\ntx-usecs: 64\n",
}
LINKS = {
    "sys/class/net/ens5/device": "../../../bus/pci/devices/0000:00:05.0",
    "sys/class/net/ens6/device": f"../../../bus/pci/devices/{CARD}",
    "sys/bus/pci/devices/0000:00:05.0/driver": "../../drivers/ena",
    f"sys/bus/pci/devices/{CARD}/driver": "../../drivers/ena",
}
# Each knows the host by where it lies, writes down that it was called, and is killed with its caller where a test says so.
BEGIN = """#!/bin/sh
root=${0%/usr/*}
echo "${0##*/} $*" >>"$root/log"
[ ! -e "$root/stop.${0##*/}" ] || exec sleep 60
if [ "$(wc -l <"$root/log")" = "$(cat "$root/kill" 2>/dev/null)" ]; then kill -9 $PPID; exit 9; fi
[ ! -e "$root/fail.${0##*/}" ] || { echo "it would not" >&2; exit 3; }
"""
PROGRAMS = {
    "update-grub": 'cat "$root"/etc/default/grub "$root"/etc/default/grub.d/*.cfg >"$root/boot/grub.cfg" 2>/dev/null || true',
    "systemctl": """
target=$root/etc/systemd/system/multi-user.target.wants/sluice-appliance.target
case "$*" in
    'enable sluice-appliance.target') ln -s /usr/lib/systemd/system/sluice-appliance.target "$target" ;;
    'disable sluice-appliance.target') rm -f "$target" ;;
    'stop irqbalance.service') rm -rf "$root/proc/700" ;;
    'start irqbalance.service') mkdir -p "$root/proc/700" && echo irqbalance >"$root/proc/700/comm" ;;
    daemon-reload) ;;
    *) exit 1 ;;
esac""",
    "modprobe": """
driver=$root/sys/bus/pci/drivers/vfio-pci
case "$*" in
    vfio-pci) mkdir -p "$driver" && { [ -p "$driver/unbind" ] || mkfifo "$driver/unbind"; } ;;
    '-r vfio-pci') rm -rf "$driver" ;;
    *) exit 1 ;;
esac""",
    "ethtool": """
case $1 in
    -c) cat "$root/ethtool.$2" ;;
    -C) printf 'Adaptive RX: %s  TX: off\\nrx-usecs: %s\\ntx-usecs: %s\\n' "$4" "$6" "$8" >"$root/ethtool.$2" ;;
esac""",
}


class Host:
    """Below a folder of its own; gone at close(). As root the tests act as nobody: what they run can harm nothing."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="sluice-host-"))
        self.ends = False
        for name, text in KERNEL.items():
            self.write(name, text)
        for cpu in SCALED:
            self.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "schedutil\n")
        for name, target in LINKS.items():
            self.root.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
            self.root.joinpath(name).symlink_to(target)
        for folder in ("boot", "etc/systemd/system/multi-user.target.wants", "var/lib", "usr/sbin"):
            self.root.joinpath(folder).mkdir(parents=True)
        for name, text in PROGRAMS.items():
            self.program(name, text)
        self.kernel_make()
        self.install()
        self.settings = ROOT / "config" / "hpc7g.conf"
        if os.geteuid() == 0:
            self.give_away()
        self.before = self.snapshot()
        self.thread = threading.Thread(target=self.kernel, daemon=True)
        self.thread.start()

    def path(self, name):
        return self.root / name

    def write(self, name, text):
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if os.geteuid() == 0:
            for made in (path, *path.parents):
                if made.is_relative_to(self.root):
                    os.chown(made, NOBODY, NOBODY)

    def read(self, name):
        return self.path(name).read_text()

    def program(self, name, text):
        self.write(f"usr/sbin/{name}", BEGIN + text + "\n")
        self.path(f"usr/sbin/{name}").chmod(0o755)

    def give_away(self):
        for folder, folders, files in os.walk(self.root):
            for name in (".", *folders, *files):
                os.lchown(os.path.join(folder, name), NOBODY, NOBODY)

    def install(self):
        """As the package does."""
        share = self.path("usr/share/sluice")
        share.mkdir(parents=True)
        shutil.copy(DEPLOY / "sluice-appliance", self.path("usr/sbin"))
        shutil.copytree(DEPLOY / "appliance", share / "appliance", ignore=shutil.ignore_patterns("__pycache__"))
        share.joinpath("systemd").mkdir()
        for drop_in in DEPLOY.glob("*.conf"):
            shutil.copy(drop_in, share / "systemd")
        self.path("usr/bin").mkdir(exist_ok=True)
        shutil.copy(BUILD / "sluiced", self.path("usr/bin"))

    # ---- the kernel's part ----

    def kernel_make(self):
        self.path("sys/bus/pci/drivers/ena").mkdir(parents=True)
        for name in ("drivers/ena/unbind", "drivers_probe"):
            os.mkfifo(self.path(f"sys/bus/pci/{name}"))

    def kernel(self):
        """What drivers do with the addresses that are written to their files, which come and go with modprobe."""
        files = {}
        while not self.ends:
            for name in ("drivers/ena/unbind", "drivers/vfio-pci/unbind", "drivers_probe"):
                try:
                    path = self.path(f"sys/bus/pci/{name}")
                    if name in files and os.fstat(files[name]).st_ino != path.stat().st_ino:
                        os.close(files.pop(name))
                    if name not in files and stat.S_ISFIFO(path.stat().st_mode):
                        files[name] = os.open(path, os.O_RDWR | os.O_NONBLOCK)
                    self.kernel_take(name, os.read(files[name], 4096).decode().split() if name in files else ())
                except (FileNotFoundError, BlockingIOError):
                    pass  # not loaded, or nothing was written
            time.sleep(0.002)
        for file in files.values():
            os.close(file)

    def kernel_take(self, name, addresses):
        for address in addresses:
            link = self.path(f"sys/bus/pci/devices/{address}/driver")
            if name.endswith("unbind"):
                link.unlink(missing_ok=True)
            elif not os.path.lexists(link):
                wanted = self.read(f"sys/bus/pci/devices/{address}/driver_override").strip()
                link.symlink_to("../../drivers/" + (wanted if wanted not in ("", "(null)") else "ena"))
                if os.geteuid() == 0:
                    os.lchown(link, NOBODY, NOBODY)

    def driver(self):
        link = self.path(f"sys/bus/pci/devices/{CARD}/driver")
        return os.path.basename(os.readlink(link)) if os.path.lexists(link) else ""

    def reboot(self):
        """What the kernel forgets is as it was; files stay, and a command line that was written holds."""
        for name in KERNEL:
            if name.startswith(("proc/", "sys/", "ethtool")):
                self.write(name, KERNEL[name])
        for cpu in SCALED:
            self.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "schedutil\n")
        shutil.rmtree(self.path("sys/bus/pci/drivers/vfio-pci"), ignore_errors=True)
        link = self.path(f"sys/bus/pci/devices/{CARD}/driver")
        link.unlink(missing_ok=True)
        link.symlink_to("../../drivers/ena")
        self.write("proc/sys/kernel/random/boot_id", f"{time.monotonic_ns()}\n")
        if self.path("etc/default/grub.d/60-sluice.cfg").exists():
            words = self.read("etc/default/grub.d/60-sluice.cfg").split("_DEFAULT ")[1].strip().strip('"')
            self.write("proc/cmdline", KERNEL["proc/cmdline"].strip() + f" {words}\n")

    # ---- what tests do with it ----

    def run(self, *words, root=True, **more):
        command = [str(self.path("usr/sbin/sluice-appliance")), *words]
        if root:
            command += ["--root", str(self.root)]
        if root and words[0] != "revert" and "-c" not in words:
            command += ["-c", str(self.settings_copy())]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, **self.as_nobody(), **more)

    def start(self, *words):
        command = [str(self.path("usr/sbin/sluice-appliance")), *words, "--root", str(self.root),
                   "-c", str(self.settings_copy())]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **self.as_nobody())

    def settings_copy(self):
        """Where nobody may read it."""
        path = self.path("etc/sluice/sluice.conf")
        if not path.exists() or path.read_text() != self.settings.read_text():
            self.write("etc/sluice/sluice.conf", self.settings.read_text())
        return path

    def as_nobody(self):
        return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}

    def log(self):
        return self.read("log").splitlines() if self.path("log").exists() else []

    def snapshot(self):
        """Every file, link and folder; what only tests have left out."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            mode = path.lstat().st_mode
            if name.split(".")[0] in ("log", "kill", "stop", "fail") or name.startswith(("etc/sluice", "boot/")):
                continue
            if stat.S_ISLNK(mode):
                found[name] = os.readlink(path)
            elif stat.S_ISREG(mode) and name != "usr/bin/sluiced":
                text = path.read_text(errors="replace")
                if name.endswith("driver_override"):
                    text = text.replace("(null)", "")  # how the kernel prints nothing
                if "[" in text and name.startswith("sys/"):
                    text = text[text.index("[") + 1:text.index("]")] + "\n"
                found[name] = (oct(mode), text)
            else:
                found[name] = oct(mode)
        return found

    def close(self):
        self.ends = True
        self.thread.join(5)
        shutil.rmtree(self.root)
