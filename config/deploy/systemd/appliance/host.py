"""The host that is made an appliance: its files and programs, below a root."""

import errno
import os
import pathlib
import re
import subprocess

PROGRAMS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Refusal(Exception):
    """What stands in the way, in one sentence; nothing was changed."""


# ---- lists of CPUs ----


def cpus_parse(text):
    cpus = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def cpus_print(cpus):
    runs = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def cpus_mask(cpus):
    """As the kernel writes masks: groups of 32 bits with commas between."""
    digits = f"{sum(1 << cpu for cpu in cpus):x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[at:at + 8] for at in range(0, len(digits), 8))


# ---- the host ----


class Host:
    """Files and programs below a root: "" for this machine, a folder for a made-up one."""

    def __init__(self, root):
        self.root = root.rstrip("/")
        self.inherited = ()  # files that programs get, for the lock on them

    def path(self, name):
        return pathlib.Path(self.root + name)

    def read(self, name):
        """A small file's text without the line's end; "" when it cannot be read."""
        try:
            return self.path(name).read_text(errors="replace").rstrip("\n")
        except OSError:
            return ""

    def whole(self, name):
        """A file as file_replace() writes it back, whatever bytes it is of; None when there is none."""
        path = self.path(name)
        return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else None

    def chosen(self, name):
        """The word of a kernel's list of words that is in force."""
        text = self.read(name)
        bracket = re.search(r"\[(\S+)\]", text)
        return bracket.group(1) if bracket else text

    def write(self, name, text):
        """One write, as kernel files want it."""
        with open(self.path(name), "w") as file:
            file.write(text + "\n")

    def link(self, name):
        """The last part of where a symbolic link points; "" without one."""
        try:
            return os.path.basename(os.readlink(self.path(name)))
        except OSError:
            return ""

    def names(self, name):
        try:
            return sorted(os.listdir(self.path(name)), key=lambda text: (len(text), text))
        except OSError:
            return []

    def program(self, name):
        """Where a program of this host is; None when it has none."""
        for folder in PROGRAMS:
            path = self.path(f"{folder}/{name}")
            if os.access(path, os.X_OK):
                return str(path)
        return None

    def run(self, words):
        """A program's output; its complaint is the error."""
        program = self.program(words[0])
        if program is None:
            raise OSError(errno.ENOENT, f"no program {words[0]}")
        done = subprocess.run([program, *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              pass_fds=self.inherited)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise OSError(errno.EIO, f"exit code {done.returncode}: {said[-1] if said else 'it says nothing'}")
        return done.stdout

    def runs(self, name):
        return any(self.read(f"/proc/{pid}/comm") == name for pid in self.names("/proc") if pid.isdigit())

    def boot(self):
        return self.read("/proc/sys/kernel/random/boot_id")

    def file_replace(self, name, text, sync=True):
        """Whole or as before; on the disk unless a crash may take it."""
        path = self.path(name)
        fresh = path.with_name(path.name + ".new")
        with open(fresh, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            file.write(text)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(fresh, path)
        if sync:
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def folders_missing(self, name):
        """Those that folders_make() has to make for it, outermost first."""
        at = pathlib.PurePosixPath(name)
        return [str(folder) for folder in (*reversed(at.parents), at) if not self.path(str(folder)).is_dir()]

    def folders_make(self, name):
        for folder in self.folders_missing(name):
            self.path(folder).mkdir(0o755)

    def folders_remove(self, names):
        for name in reversed(names):
            try:
                self.path(name).rmdir()
            except OSError:
                return  # somebody else uses it by now
