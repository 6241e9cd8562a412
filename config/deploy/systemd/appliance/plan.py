"""What the settings ask of the host, as steps."""

import os
import pathlib
import re
import subprocess

from host import Refusal, cpus_mask, cpus_parse, cpus_print
from steps import NOIOMMU, PCI, VFIO, Command, Driver, File, Value, behind_iommu, driver_of

HERE = pathlib.Path(__file__).resolve().parent.parent  # in the tree config/deploy/systemd, installed share/sluice
GRUB = "/etc/default/grub.d/60-sluice.cfg"
UNIT_DROP_INS = "/etc/systemd/system/sluiced.service.d"
TARGET = "sluice-appliance.target"
CPUS = "/sys/devices/system/cpu"
CPUS_MOST = 1024
PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
PAGE = 2 << 20
PORT_PAGES = 128  # for the frames of an ethernet port, as `sluiced --doctor` counts them
SPARE_BYTES = 2 << 30  # of the host's memory, beside huge pages


# ---- what the settings say ----


class Settings:
    """CPUs of lcores, bytes of memory and the ethernet port's device, from `sluiced --print-config`."""

    def __init__(self, sluiced, path):
        def every_cpu():
            os.sched_setaffinity(0, range(CPUS_MOST))  # systemd keeps those that are isolated from us

        words = [sluiced, "-c", path, "--print-config"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, preexec_fn=every_cpu)
        except OSError as error:
            raise Refusal(f"{sluiced} cannot be run: {error.strerror}") from error
        if done.returncode != 0:
            raise Refusal(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{sluiced} failed")
        values, group = {}, ""
        for line in done.stdout.splitlines():
            if begun := re.fullmatch(r"(\w+): \{", line):
                group = begun.group(1)
            elif item := re.match(r'  (\w+) = "?(.*?)"?;  # ([\w-]+)(, auto)?; ', line):
                values[f"{group}.{item.group(1)}"] = "auto" if item.group(4) else item.group(2)
        ports = re.findall(r'\{ type = "ethernet";.*? device = "((?:[^"\\]|\\.)*)";', done.stdout)
        self.cpus_text = values["lcores.cpus"]
        reserve = values["memory.reserve"]
        for name, value in (("lcores.cpus", self.cpus_text), ("memory.reserve", reserve)):
            if value == "auto":
                raise Refusal(f"{path}: {name} is \"auto\": give a value, because it is set aside before sluiced starts")
        self.cpus = cpus_parse(self.cpus_text)
        self.reserve_bytes = bytes_parse(reserve)
        self.huge_pages = values["memory.huge_pages"] == "true"
        self.device = ports[0] if ports else ""

    def pages(self):
        if not self.huge_pages:
            return 0
        return -(-self.reserve_bytes // PAGE) + (PORT_PAGES if self.device else 0)

    def pci_address(self):
        """Of the ethernet port's card; "" when there is none, or a virtual device."""
        found = re.fullmatch(r"(?:([0-9a-fA-F]{4}):)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])", self.device)
        return f"{found.group(1) or '0000'}:{found.group(2)}".lower() if found else ""


def bytes_parse(text):
    number, unit = re.fullmatch(r"(\d+)([KMGT]i)?B?", text).groups()
    return int(number) << {None: 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[unit]


# ---- the plan ----


def default_route_interfaces(host):
    """Those that carry the best default route, IPv4 and IPv6."""
    best = {}
    for line in host.read("/proc/net/route").splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000":
            best.setdefault(4, []).append((int(words[6]), words[0]))
    for line in host.read("/proc/net/ipv6_route").splitlines():
        words = line.split()
        if len(words) > 9 and words[0] == "0" * 32 and words[1] == "00" and words[9] != "lo":
            best.setdefault(6, []).append((int(words[5], 16), words[9]))
    return {name for routes in best.values() for metric, name in routes if metric == min(routes)[0]}


def cards_of(host, interface):
    """PCI addresses below an interface, those of a bond or VLAN included."""
    cards = {host.link(f"/sys/class/net/{interface}/device")}
    for name in host.names(f"/sys/class/net/{interface}"):
        if name.startswith("lower_"):
            cards |= cards_of(host, name[6:])
    return cards - {""}


def refuse_what_would_harm(host, settings):
    present = cpus_parse(host.read(f"{CPUS}/present"))
    address = settings.pci_address()
    if not settings.cpus <= present:
        raise Refusal(f"lcores.cpus has {cpus_print(settings.cpus - present)}, this host has {cpus_print(present)}")
    if settings.cpus == present:
        raise Refusal(f"lcores.cpus has every CPU of this host ({cpus_print(present)}): leave one to the kernel")
    if 0 in settings.cpus:
        raise Refusal("lcores.cpus has CPU 0, which keeps the kernel's time and cannot be isolated: leave it out")
    memory = re.search(r"^MemTotal:\s+(\d+) kB", host.read("/proc/meminfo"), re.MULTILINE)
    if settings.pages() and not host.path(PAGES).exists():
        raise Refusal(f"this kernel has no huge pages of 2 MiB ({PAGES})")
    if memory and settings.pages() * PAGE + SPARE_BYTES > int(memory.group(1)) * 1024:
        raise Refusal(f"{settings.pages()} huge pages of 2 MiB leave less than 2 GiB of the host's "
                      f"{int(memory.group(1)) >> 20} GiB: lower memory.reserve")
    if not address:
        return
    if not host.path(f"{PCI}/devices/{address}").is_dir():
        raise Refusal(f"no PCI device {address}: `sluiced --doctor` says more")
    for interface in default_route_interfaces(host):
        if address in cards_of(host, interface):
            raise Refusal(f"{address} is {interface}, which carries the default route: this host would be cut off. "
                          "The port needs a second interface")


def kernel_arguments(settings, spare):
    lcores = cpus_print(settings.cpus)
    words = [f"isolcpus=managed_irq,domain,{lcores}", f"nohz_full={lcores}", f"rcu_nocbs={lcores}",
             f"irqaffinity={cpus_print(spare)}"]
    return words + ([f"hugepagesz=2M hugepages={settings.pages()}"] if settings.pages() else [])


def steps_kernel(host, journal, arguments):
    """The next boot's command line, by whichever tool the distribution has. In GRUB's own form only for the entries that
    boot by themselves: the recovery entries stay as they are."""
    words = " ".join(arguments)
    if host.program("update-grub"):
        text = ("# Written by sluice-appliance; `sluice-appliance revert` removes it.\n"
                f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {words}"\n')
        return [File(host, journal, GRUB, text, ["update-grub"])]
    if host.program("grubby"):
        do, undone = ([["grubby", "--update-kernel=ALL", f"--{verb}={words}"] for verb in ("args", "remove-args")])
        record = journal.find(f"command kernel arguments {words}")
        return [Command(host, f"kernel arguments {words}", do, undone, record is None or not record["done"], None)]
    return []


def steps_service(host, journal, settings):
    """The unit's drop-in that the ethernet port needs, and the target at every boot."""
    if not host.program("systemctl"):
        return []
    steps = []
    if settings.device:
        name = f"ethernet-{VFIO if settings.pci_address() else 'af_packet'}.conf"
        source = next(path for path in (HERE / name, HERE / "systemd" / name) if path.exists())
        steps.append(File(host, journal, f"{UNIT_DROP_INS}/{name}", source.read_text(), ["systemctl", "daemon-reload"]))
    enabled = os.path.lexists(host.path(f"/etc/systemd/system/multi-user.target.wants/{TARGET}"))
    steps.append(Command(host, "start at boot", ["systemctl", "enable", TARGET], ["systemctl", "disable", TARGET],
                         not enabled, None))
    return steps


def steps_memory(host, settings):
    thp, swappiness, balancing = ("/sys/kernel/mm/transparent_hugepage/enabled", "/proc/sys/vm/swappiness",
                                  "/proc/sys/kernel/numa_balancing")
    pages = settings.pages()
    steps = [Value(host, thp, "madvise", host.chosen(thp) == "never"),
             Value(host, swappiness, "1", host.read(swappiness) not in ("", "0", "1")),
             Value(host, balancing, "0", host.read(balancing) not in ("", "0"))]
    if pages:
        steps.insert(0, Value(host, PAGES, str(pages), int(host.read(PAGES) or 0) < pages, may_take_less=True))
    return steps


def steps_cpus(host, journal, settings, spare):
    steps = []
    for cpu in sorted(settings.cpus):
        path = f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor"
        if host.path(path).exists():
            steps.append(Value(host, path, "performance", host.read(path) != "performance"))
    steps.append(Command(host, "irqbalance", ["systemctl", "stop", "irqbalance.service"],
                         ["systemctl", "start", "irqbalance.service"], host.runs("irqbalance"), host.boot()))
    path = "/proc/irq/default_smp_affinity"
    if host.path(path).exists():
        mask = int(host.read(path).replace(",", "") or "0", 16)
        steps.append(Value(host, path, cpus_mask(spare), any(mask >> cpu & 1 for cpu in settings.cpus)))
    for number in filter(str.isdigit, host.names("/proc/irq")):
        path = f"/proc/irq/{number}/smp_affinity_list"
        refused = (journal.find(f"value {path}") or {}).get("refused")
        meets = cpus_parse(host.read(path)) & settings.cpus
        steps.append(Value(host, path, cpus_print(spare), bool(meets) and not refused, may_refuse=True))
    return steps


def steps_coalescing(host, settings):
    """The kernel's ENA interfaces wait up to 64 us before they interrupt: kernel TCP answers in steps of that."""
    steps = []
    for interface in host.names("/sys/class/net"):
        device = f"/sys/class/net/{interface}/device"
        if (host.link(f"{device}/driver") != "ena" or host.link(device) == settings.pci_address()
                or not host.program("ethtool")):
            continue
        try:
            said = host.run(["ethtool", "-c", interface])
        except OSError:
            continue  # a driver that has no such settings
        now = [("adaptive-rx", (re.search(r"Adaptive RX: (\w+)", said) or [0, "off"])[1])]
        now += [(name, (re.search(rf"^{name}:\s*(\d+)", said, re.MULTILINE) or [0, "0"])[1])
                for name in ("rx-usecs", "tx-usecs")]
        wanted = [("adaptive-rx", "off"), ("rx-usecs", "0"), ("tx-usecs", "0")]
        if any(value not in ("off", "0", "n/a") for _, value in now):
            words = [[word for pair in pairs for word in pair] for pairs in (wanted, now)]
        else:
            words = [[word for pair in wanted for word in pair], []]
        do, undone = (["ethtool", "-C", interface, *pairs] for pairs in words)
        steps.append(Command(host, f"coalescing of {interface}", do, undone, bool(words[1]), host.boot()))
    return steps


def steps_card(host, settings):
    address = settings.pci_address()
    if not address:
        return []
    loaded = host.path(f"{PCI}/drivers/{VFIO}").is_dir()
    bound = driver_of(host, address) == VFIO
    steps = [Command(host, VFIO, ["modprobe", VFIO], ["modprobe", "-r", VFIO], not loaded, host.boot())]
    if not behind_iommu(host, address):
        steps.append(Value(host, NOIOMMU, "Y", not bound and host.read(NOIOMMU) not in ("Y", "1"),
                           missing="there is no IOMMU, and this kernel was built without CONFIG_VFIO_NOIOMMU"))
    return steps + [Driver(host, address)]


def steps_all(host, journal, settings, at_boot):
    """Every step of an appliance, those that are done already included."""
    spare = cpus_parse(host.read(f"{CPUS}/present")) - settings.cpus
    steps = []
    if not at_boot:
        steps += steps_kernel(host, journal, kernel_arguments(settings, spare))
        steps += steps_service(host, journal, settings)
    return (steps + steps_memory(host, settings) + steps_cpus(host, journal, settings, spare)
            + steps_coalescing(host, settings) + steps_card(host, settings))


def outdated(journal, steps, at_boot):
    """Records of changes that the settings no longer ask for, the latest first."""
    asked = {step.key for step in steps}
    return [record for record in reversed(journal.records)
            if record["key"] not in asked and not (at_boot and record["boot"] is None)
            and not record["key"].startswith("value /proc/irq/")]


def reboot_note(host, settings):
    """What to say of the command line; "" when this boot has it."""
    spare = cpus_parse(host.read(f"{CPUS}/present")) - settings.cpus
    words = " ".join(kernel_arguments(settings, spare))
    has = host.read("/proc/cmdline").split()
    if all(word in has for word in words.split()):
        return ""
    if host.program("update-grub") or host.program("grubby"):
        return f"a reboot is needed for the kernel's command line: {words}"
    return f"neither update-grub nor grubby is here: add to the kernel's command line and reboot: {words}"
