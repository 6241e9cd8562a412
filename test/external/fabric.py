"""fabric.py - what the suites about fabric ports share: a server with such ports, the C clients of test/tools, and what of a
server must be as it was.

    with fabric.server_open(fabric.port("net"), fabric.port("shm")) as server: ..."""

import os
import pathlib
import subprocess
import time

import server

READ_S = 90  # for one line of a client on a busy machine


def port(provider, node="127.0.0.1", **more):
    """One entry of the list `ports`."""
    node = "" if provider == "shm" else f'node = "{node}"; '
    rest = "".join(f'{name} = "{value}"; ' if isinstance(value, str) else f"{name} = {value}; " for name, value in more.items())
    return f'{{ type = "fabric"; provider = "{provider}"; {node}{rest}}}'


class FabricServer(server.Server):
    def __init__(self, ports, *settings, more=""):
        folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp"))
        config = folder / f"sluice-fabric-{os.getpid()}-{time.monotonic_ns()}.conf"
        config.write_text(f"ports = (\n  {(',' + chr(10) + '  ').join(ports)}\n);\n{more}\n")
        try:
            super().__init__(*settings, config=config)
        finally:
            config.unlink()

    def fabric_sessions(self):
        """Seats in use by name of port, as FABRIC PORTS tells them: a peer slot each."""
        with self.connect("unix") as control:
            answer = resp_call(control, "FABRIC", "PORTS")
        rows = [dict(zip(row[::2], row[1::2])) for row in answer]
        return {row[b"name"].decode(): row[b"sessions"] for row in rows}

    def descriptors(self):
        """Open descriptors by kind; numbers of sockets and pipes left out."""
        counts = {}
        for entry in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                kind = os.readlink(entry).split(":")[0]
            except FileNotFoundError:
                continue
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def state(self):
        """What must come back: sessions, seats, bytes, descriptors. Asking opens a connection of its own each time, which is
        gone or not when the next question is asked: data sessions are counted by the management core, which holds none."""
        counters = self.counters()
        memory = self.ctl("memory")
        return {
            "sessions": counters["sessions_opened"] - counters["sessions_closed"],
            "used_bytes": memory["used_bytes"] + memory["limbo_bytes"],
            "output_bytes": memory["output_bytes"],
            "descriptors": sum(self.descriptors().values()),
        }

    def wait_until(self, what, holds, timeout_s):
        """Until holds() is true; ServerError with what it last was."""
        deadline = time.monotonic() + timeout_s
        while True:
            good, seen = holds()
            if good:
                return seen
            if time.monotonic() > deadline:
                raise server.ServerError(f"{what}: still {seen} after {timeout_s} s")
            time.sleep(0.1)

    def empty_wait(self, timeout_s):
        """Wait until no session, seat, key or reply is left; the state then."""
        def seats_free():
            seats = self.fabric_sessions()
            return not any(seats.values()), seats

        def quiet():
            state = self.state()
            return state["sessions"] == 0 and state["output_bytes"] == 0, state

        self.wait_until("seats of fabric ports", seats_free, timeout_s)
        self.wait_until("sessions", quiet, timeout_s)
        with self.connect("unix") as control:  # after the last request of the dead
            assert resp_call(control, "FLUSHALL") == b"OK"
        self.wait_until("sessions", quiet, timeout_s)
        used = [quiet()[1]]
        while len(used) < 3 or used[-1] != used[-2] or used[-1] != used[-3]:  # records and idle buffers go back in steps
            if len(used) > 10 * timeout_s:
                raise server.ServerError(f"no rest: {used[-3:]}")
            time.sleep(0.5)
            used.append(quiet()[1])
        return used[-1]


def server_open(*ports, settings=(), more=""):
    """`more`: further lines of its file of settings."""
    return FabricServer(ports, *settings, more=more)


# ---- RESP ----

class ErrorReply(str):
    pass


class Reader:
    def __init__(self, connection):
        self.connection, self.data = connection, b""

    def fill(self):
        got = self.connection.recv(1 << 16)
        if not got:
            raise ConnectionError(f"closed after {self.data[:100]!r}")
        self.data += got

    def line(self):
        while (end := self.data.find(b"\r\n")) < 0:
            self.fill()
        line, self.data = self.data[:end], self.data[end + 2:]
        return line

    def bytes(self, count):
        while len(self.data) < count + 2:
            self.fill()
        taken, self.data = self.data[:count], self.data[count + 2:]
        return taken

    def reply(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ErrorReply(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if int(rest) < 0 else self.bytes(int(rest))
        if kind == b"*":
            return None if int(rest) < 0 else [self.reply() for _ in range(int(rest))]
        raise AssertionError(f"no RESP2: {line!r}")


def resp_request(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def resp_call(connection, *words):
    """One request, its answer. Errors come as ErrorReply."""
    connection.sendall(resp_request(*words))
    return Reader(connection).reply()


# ---- programs of test/tools ----

BLOCK = bytes(range(251))


def value(size, shift):
    """The same as value_make() of hostile_client.c: byte i is (i + size + shift) % 251."""
    return (BLOCK * (size // 251 + 2))[(size + shift) % 251:][:size]


def others_write(at, sizes):
    """What `hostile_client sizes` reads of another client."""
    with at.connect() as writer:
        for size in sizes:
            assert resp_call(writer, "SET", f"other:{size}", value(size, 1)) == b"OK"


def client_start(at, name, mode, *words, over="unix"):
    """`hostile_client MODE SERVER WORD...` against a server; `attach_cycles` has no mode."""
    program = server.BUILD / "test" / "tools" / name
    if not program.exists():
        raise server.ServerError(f"{program} is not built")
    command = [program, *([mode] if mode else []), at.unix if over == "unix" else str(at.port), *(str(word) for word in words)]
    environment = dict(os.environ, SLUICE_MODULE_DIR=str(server.BUILD))
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def client_end(client, timeout_s=READ_S):
    """End its stdin and wait. What it printed; ServerError when it failed."""
    out, err = client.communicate(timeout=timeout_s)
    if client.returncode != 0:
        raise server.ServerError(f"{client.args}: exit code {client.returncode}: {err.strip()}")
    return out
