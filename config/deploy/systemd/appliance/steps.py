"""Changes, each written down before it is made, and how each is put back."""

import errno
import fcntl
import json
import os
import time

from host import Refusal

STATE = "/var/lib/sluice/appliance"
PCI = "/sys/bus/pci"
VFIO = "vfio-pci"
NOIOMMU = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
BIND_S = 2
BUSY_S = 3


# ---- what was changed ----


class Journal:
    """Records of what was there before, in order, each written before its change is made. `boot` marks what the kernel
    forgets: a record of another boot is void, and need not outlive a crash."""

    def __init__(self, host):
        self.host = host
        self.file = f"{STATE}/state.json"
        self.records = []
        text = host.read(self.file)
        if text:
            try:
                self.records = [record for record in json.loads(text)["records"]
                                if record["key"] and record["boot"] in (None, host.boot())]
            except (ValueError, KeyError, TypeError) as error:
                raise Refusal(f"{self.file} cannot be understood ({error!r}): it says what to put back") from error

    def lock(self):
        """One change at a time: until this process has ended, and what it ran, which may outlive it when it is killed. Read
        again what another one has written meanwhile."""
        self.host.folders_make(STATE)
        folder = os.open(self.host.path(STATE), os.O_RDONLY)
        until = time.monotonic() + BUSY_S
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise Refusal("another sluice-appliance is at work") from error
                time.sleep(0.05)
        self.host.inherited = (folder,)
        self.__init__(self.host)

    def find(self, key):
        return next((record for record in self.records if record["key"] == key), None)

    def save(self, sync=True):
        self.host.file_replace(self.file, json.dumps({"records": self.records}, indent=1) + "\n", sync)

    def begin(self, record):
        """What was there first stays what was there."""
        known = self.find(record["key"])
        if known is None:
            self.records.append(dict(record, done=False))
        else:
            known["done"] = False
        self.save(sync=record["boot"] is None)

    def end(self, key, refused):
        self.find(key).update(done=True, refused=refused)
        self.save(sync=False)

    def drop(self, record):
        self.records.remove(record)
        self.save(sync=False)

    def remove(self):
        """Nothing is left to put back."""
        for name in (self.file, self.file + ".new"):
            self.host.path(name).unlink(missing_ok=True)
        self.host.folders_remove([os.path.dirname(STATE), STATE])


# ---- steps: one change each ----


class Value:
    """A word in a file of the kernel's."""

    def __init__(self, host, path, wanted, needed, may_refuse=False, may_take_less=False, missing=""):
        self.host, self.path, self.wanted, self.needed = host, path, wanted, needed
        self.may_refuse, self.may_take_less = may_refuse, may_take_less
        self.missing = missing  # what it means when the kernel has no such file
        self.key = f"value {path}"
        self.line = f"write {wanted} to {path} (now {host.chosen(path) or 'nothing'})"
        self.good = f"{path} is {host.chosen(path) or 'not here'}"

    def record(self):
        return {"key": self.key, "boot": self.host.boot(), "before": self.host.chosen(self.path)}

    def do(self):
        if self.missing and not self.host.path(self.path).exists():
            raise OSError(errno.ENOENT, self.missing)
        self.host.write(self.path, self.wanted)
        got = self.host.read(self.path)
        if self.may_take_less and int(got or 0) < int(self.wanted):
            raise OSError(errno.ENOMEM, f"room for {got or 0} only: after a boot with the new command line there is")


class File:
    """A file of our own, and who must hear of it."""

    may_refuse = False

    def __init__(self, host, journal, path, text, tell):
        self.host, self.path, self.text, self.tell = host, path, text, tell
        self.key = f"file {path}"
        record = journal.find(self.key)
        untold = record is not None and not record["done"]
        self.needed = host.read(path) != text.rstrip("\n") or untold
        first = next((line for line in text.splitlines() if line and line[0] not in "#["), "")
        self.line = f"write {path}: {first}; run {' '.join(tell)}"
        self.good = f"{path} is there"

    def record(self):
        return {"key": self.key, "boot": None, "before": self.host.whole(self.path), "tell": self.tell,
                "folders": self.host.folders_missing(os.path.dirname(self.path))}

    def do(self):
        self.host.folders_make(os.path.dirname(self.path))
        self.host.file_replace(self.path, self.text)
        self.host.run(self.tell)


class Command:
    """A program whose effect another run of it takes back."""

    may_refuse = False

    def __init__(self, host, what, do, undo, needed, boot):
        self.host, self.does, self.undo, self.needed, self.boot = host, do, undo, needed, boot
        self.key = f"command {what}"
        self.line = f"run {' '.join(do)}"
        self.good = f"{what} is as wanted"

    def record(self):
        return {"key": self.key, "boot": self.boot, "undo": self.undo}

    def do(self):
        self.host.run(self.does)


class Driver:
    """A PCI card given to vfio-pci."""

    may_refuse = False

    def __init__(self, host, address):
        self.host, self.address = host, address
        self.key = f"driver {address}"
        self.needed = driver_of(host, address) != VFIO
        self.line = f"bind {address} to {VFIO} (now {driver_of(host, address) or 'no driver'})"
        self.good = f"{address} is bound to {VFIO}"

    def record(self):
        override = self.host.read(f"{PCI}/devices/{self.address}/driver_override")
        return {"key": self.key, "boot": self.host.boot(), "before": driver_of(self.host, self.address),
                "override": "" if override == "(null)" else override}

    def do(self):
        if not behind_iommu(self.host, self.address) and self.host.read(NOIOMMU) not in ("Y", "1"):
            raise OSError(errno.EPERM, "left where it is, because vfio may not do without an IOMMU")
        driver_set(self.host, self.address, VFIO, VFIO)


def behind_iommu(host, address):
    return host.link(f"{PCI}/devices/{address}/iommu_group") != ""


def driver_of(host, address):
    return host.link(f"{PCI}/devices/{address}/driver")


def driver_set(host, address, driver, override):
    """From whatever driver it has to this one, "" for none."""
    device = f"{PCI}/devices/{address}"
    host.write(f"{device}/driver_override", override)
    if driver_of(host, address) not in ("", driver):
        host.write(f"{device}/driver/unbind", address)
        driver_wait(host, address, "")
    if driver and driver_of(host, address) == "":
        host.write(f"{PCI}/drivers_probe", address)
    driver_wait(host, address, driver)


def driver_wait(host, address, driver):
    until = time.monotonic() + BIND_S
    while driver_of(host, address) != driver:
        if time.monotonic() > until:
            raise OSError(errno.EBUSY, f"the card is with {driver_of(host, address) or 'no driver'} still; dmesg may say why")
        time.sleep(0.01)


# ---- putting back ----


def undo(host, record):
    """Put back what a record says; good also where its change was never made, or what it changed has gone."""
    kind, what = record["key"].split(" ", 1)
    if kind == "value":
        if host.path(what).exists() and record["before"] != host.chosen(what):
            host.write(what, record["before"])
    elif kind == "file":
        if record["before"] is not None:
            host.file_replace(what, record["before"])
        elif host.path(what).exists():
            host.path(what).unlink()
        host.folders_remove(record["folders"])
        host.run(record["tell"])
    elif kind == "command":
        host.run(record["undo"])
    elif host.path(f"{PCI}/devices/{what}").exists():
        driver_set(host, what, record["before"], record["override"])


def undo_line(record):
    kind, what = record["key"].split(" ", 1)
    if kind == "value":
        return f"write {record['before']} to {what}"
    if kind == "file":
        return f"{'remove' if record['before'] is None else 'restore'} {what}; run {' '.join(record['tell'])}"
    if kind == "command":
        return f"run {' '.join(record['undo'])}"
    return f"bind {what} to {record['before'] or 'no driver'}"
