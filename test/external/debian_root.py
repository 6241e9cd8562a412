"""debian_root.py - Debian roots of a test's own, in build/roots, whose programs run as they would in a container.

    with Root.made("name") as root:
        root.run("apt-get", "update")
        process = root.start("/usr/bin/sluiced", alone=True, user=10001)

A command is process 1 of its own, with its own mounts and a bare /dev. The mounts are in a namespace that ends with the
command, so there is nothing to undo, however it ends, and removing a root never meets one."""

import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time

import server

ROOTS = server.ROOT / "build/roots"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NODES = ("null", "zero", "full", "random", "urandom", "tty")
# How this machine reaches its mirrors, and whom it trusts there.
REACH = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt")
MAKE = r""". tools/common.sh
debian_sources | mmdebstrap --quiet --variant=minbase --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --dpkgopt=force-unsafe-io --aptopt='Acquire::Languages "none"' "$(debian_suite)" "$1" -"""


def skip_unless_possible():
    """Roots take root and its mounts; a container for continuous integration may have neither."""
    if os.geteuid() != 0:
        server.skip("a Debian root takes root")
    for command in (["mmdebstrap", "--version"], ["unshare", "--mount", "--pid", "--net", "--fork", "sh", "-c",
                                                  "mount -t tmpfs tmpfs /tmp && mount -t proc proc /proc"]):
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            server.skip(f"not possible here: {shlex.join(command)}")


def pristine():
    """A minimal Debian, made once; what everything else is a copy of."""
    root = ROOTS / "pristine"
    if not root.exists():
        ROOTS.mkdir(parents=True, exist_ok=True)
        fresh = pathlib.Path(tempfile.mkdtemp(prefix="pristine.", dir=ROOTS))
        try:
            fresh.chmod(0o755)
            made = subprocess.run(["bash", "-euo", "pipefail", "-c", MAKE, "mmdebstrap", str(fresh)], cwd=server.ROOT,
                                  stdin=subprocess.DEVNULL)
            if made.returncode != 0:
                server.skip("no Debian root: mmdebstrap needs Debian's mirror")
            for path in (*REACH, *map(str, pathlib.Path("/etc/apt/apt.conf.d").glob("*proxy*"))):
                if os.path.exists(path):
                    (fresh / path[1:]).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, fresh / path[1:])
            fresh.rename(root)
        finally:
            remove(fresh)
    return root


def remove(path):
    """A folder with all that is in it, but for what may be mounted there."""
    subprocess.run(["rm", "-rf", "--one-file-system", str(path)], check=True)


class RootError(Exception):
    pass


class Root:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    @classmethod
    def made(cls, name):
        """A copy of the pristine one, in place of what a run that was killed may have left."""
        source, path = pristine(), ROOTS / name
        remove(path)
        path.mkdir()
        if subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(path)]).returncode != 0:
            remove(path)
            raise RootError(f"{path}: {source} cannot be copied there")
        return cls(path)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        remove(self.path)

    def at(self, path):
        """Where `path` of the root lies on this machine."""
        return self.path / str(path).lstrip("/")

    def words(self, *command, alone=False, read_only=False, binds=(), tmpfs=(), env=None, user=None):
        """The command line that runs `command` in the root. alone: no network but a loopback of its own. binds: (from here,
        to there), read-only. tmpfs: (there, options). user: uid, without a capability or a way to one."""
        root = str(self.path)
        mounts = [["mount", "--bind", root, root], ["mount", "-t", "proc", "proc", f"{root}/proc"],
                  ["mount", "--rbind", "/sys", f"{root}/sys"], ["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{root}/dev"]]
        for node in NODES:
            mounts += [["touch", f"{root}/dev/{node}"], ["mount", "--bind", f"/dev/{node}", f"{root}/dev/{node}"]]
        mounts += [["ln", "-s", "/proc/self/fd", f"{root}/dev/fd"], ["mkdir", f"{root}/dev/shm"]]
        for there, options in (("/dev/shm", "mode=1777"), *tmpfs):
            mounts += [["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.at(there))]]
        for here, there in binds:
            mounts += [["mount", "--bind", str(here), str(self.at(there))],
                       ["mount", "-o", "remount,bind,ro", str(self.at(there))]]
        if read_only:
            mounts += [["mount", "-o", "remount,bind,ro", root]]
        if alone:
            mounts += [["ip", "link", "set", "lo", "up"]]
        script = "\n".join(map(shlex.join, mounts)) + f'\ncd /\nexec chroot {shlex.quote(root)} "$@"'
        namespaces = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        return [*namespaces, *(["--net"] if alone else []), "sh", "-ec", script, "sh", *become(user, env), *command]

    def run(self, *command, env=None, **options):
        """With this machine's network; stdout and stderr go where ours do."""
        shown = f"{self.path.name}$ {shlex.join(command)}"
        print(shown, flush=True)
        reach = {name: value for name, value in os.environ.items() if name.endswith("_proxy")}
        ran = subprocess.run(self.words(*command, env={**reach, **(env or {})}, **options), stdin=subprocess.DEVNULL)
        if ran.returncode != 0:
            raise RootError(f"{shown}: exit code {ran.returncode}")

    def start(self, *command, log, **options):
        return Running(subprocess.Popen(self.words(*command, **options), stdin=subprocess.DEVNULL, stdout=log,
                                        stderr=subprocess.STDOUT), options)


def become(user, env):
    words = ["env", "-i", f"PATH={PATH}", "HOME=/root", "LANG=C.UTF-8", *(f"{name}={value}" for name, value in (env or {}).items())]
    if user is not None:
        words += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--ambient-caps=-all",
                  "--bounding-set=-all", "--no-new-privs"]
    return words


class Running:
    """A command that start() started: `process` is what waits for it, `pid` the command itself."""

    def __init__(self, process, options):
        self.process = process
        self.env, self.user = options.get("env"), options.get("user")

    @property
    def pid(self):
        """RootError when it has ended."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while self.process.poll() is None:
            if found := children.read_text().split():
                return int(found[0])
            time.sleep(0.01)
        raise RootError(f"it ended with {self.process.returncode}")

    def exec(self, *command):
        """Run something beside it, as `docker exec` does: with its user and its environment. Returns code, stdout, stderr."""
        beside = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--root", "--wd=/"]
        result = subprocess.run([*beside, *become(self.user, self.env), *command], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=60)
        return result.returncode, result.stdout, result.stderr

    def stop(self):
        """SIGTERM to the command itself, and its exit code."""
        os.kill(self.pid, 15)
        return self.process.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.kill()  # and with it the command
        self.process.wait()
