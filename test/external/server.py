"""server.py - boots a sluiced of its own for one test: free ports, a folder of its own, gone when the test is.

    with Server("auth.password=secret") as server:
        server.port, server.unix, server.ctl("stats"), server.process.pid

SLUICE_BUILD names another build folder, such as build/asan."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / os.environ.get("SLUICE_BUILD", "build")
READY_S = 30  # a sanitizer build on a busy machine
SKIPPED = 77  # what tools/check reads as "cannot run here"; the last line printed says why

# Small, so that a test machine is not asked for half its memory; a test's own settings come after these and win.
DEFAULTS = ("streams.port=0", "memory.reserve=1GiB", "memory.ahead=8MiB", "store.keys_expected=100000", "log.ready=json")


def environment():
    """For sanitizer builds: what libfabric itself leaves behind when an endpoint is closed is known."""
    return {"LSAN_OPTIONS": f"suppressions={ROOT}/test/tools/lsan.supp", **os.environ}


class ServerError(Exception):
    pass


class Server:
    prefix = ()  # words before the program's name: what puts it somewhere else
    host = "127.0.0.1"

    def __init__(self, *settings, config=None, program=None):
        self.program = pathlib.Path(program or BUILD / "sluiced")
        if not self.program.exists():
            raise ServerError(f"{self.program} is not built")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
        self.ctl_path = str(self.folder / "ctl.sock")
        self.unix = str(self.folder / "data.sock")
        self.log_path = self.folder / "log"
        settings = (*DEFAULTS, f"management.socket={self.ctl_path}", f"streams.unix={self.unix}", *settings)
        command = [*self.prefix, str(self.program)] + (["-c", str(config)] if config else [])
        for setting in settings:
            command += ["--set", setting]
        try:
            with open(self.log_path, "wb") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                env=environment())
            self.ready = self._ready_wait()
        except BaseException:
            self.stop(check=False)
            raise
        self.port = self.ready["port"]

    def _ready_wait(self):
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            ended = self.process.poll()
            for line in self.log().splitlines():
                if line.startswith("{"):
                    record = json.loads(line)
                    if record.get("event") == "ready":
                        return record
            if ended is not None:
                raise ServerError(f"sluiced ended with {ended} before it was ready:\n{self.log()}")
            time.sleep(0.01)
        raise ServerError(f"sluiced is not ready after {READY_S} s:\n{self.log()}")

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def connect(self, over="tcp", timeout_s=20):
        if over == "unix":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(timeout_s)
            connection.connect(self.unix)
            return connection
        connection = socket.create_connection((self.host, self.port), timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def sluicectl(self, *words, check=True):
        """Text of one sluicectl call against this server."""
        result = subprocess.run([str(self.program.parent / "sluicectl"), "-S", self.ctl_path, *words], capture_output=True,
                                text=True, timeout=30)
        if check and result.returncode != 0:
            raise ServerError(f"sluicectl {' '.join(words)}: exit code {result.returncode}: {result.stderr}")
        return result.stdout

    def ctl(self, command, **args):
        """Result of one request on the management socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(READY_S)
            connection.connect(self.ctl_path)
            connection.sendall(json.dumps({"version": 1, "command": command, "args": args}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline())
        if not answer["ok"]:
            raise ServerError(f"{command}: {answer['error']}")
        return answer["result"]

    def counters(self):
        """Totals of all lcores and of the store, by name."""
        stats = self.ctl("stats")
        return {row["name"]: row["total"] for row in stats["counters"] + stats["store"]}

    def counter_wait(self, name, at_least, timeout_s=10):
        """Counters lag behind what a client sees; the value once it is large enough."""
        deadline = time.monotonic() + timeout_s
        while (value := self.counters()[name]) < at_least:
            if time.monotonic() > deadline:
                raise ServerError(f"counter {name} is {value}, expected at least {at_least}")
            time.sleep(0.02)
        return value

    def resident_bytes(self):
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self, check=True):
        """SIGTERM, wait, and complain when it was already dead, does not end, ends badly or leaves a socket."""
        process = getattr(self, "process", None)
        try:
            if process is None:
                return
            if check and process.poll() is not None:
                raise ServerError(f"sluiced died with {process.returncode} during the test:\n{self.log()}")
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                code = "no end after SIGTERM"
            if check and code != 0:
                raise ServerError(f"sluiced stopped with {code}:\n{self.log()}")
            left = [path for path in (self.ctl_path, self.unix) if os.path.exists(path)]
            if check and left:
                raise ServerError(f"sluiced left {left}")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None and self.process.poll() is not None:
            print(f"sluiced ended with {self.process.returncode}:\n{self.log()}", file=sys.stderr)
        self.stop(check=kind is None)


def skip(why):
    print(why)
    sys.exit(SKIPPED)
