"""sandbox.py - a sluiced in its sandbox does everything it does without, with every kind of port that this machine can have, and every
one of its threads is restricted; a call that no list holds ends it.

    sandbox.py              serve, operate and look at the threads
    sandbox.py --trace      without the sandbox, under strace: is every call of every thread on its list, is every row needed?"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import fabric
import netns
import server

ROWS = server.BUILD / "test" / "mgmt" / "test_sandbox"
ATTACH_S = 60
FABRICS = ("shm", "net", "tcp;ofi_rxm", "udp;ofi_rxd", "sockets")
MIB = 1 << 20


# ---- servers ----

class Folder:
    """A file of settings that includes another, in a folder of its own, by a path that is not the shortest."""

    def __init__(self, stack):
        self.path = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-sandbox-")))
        (self.path / "beside").mkdir()
        self.file = self.path / "beside" / ".." / "sluice.conf"  # the C library looks at such a path otherwise
        (self.path / "more.conf").write_text('log: { level = "info"; };\n')
        self.file.write_text('@include "more.conf"\nmemory: { limit = "900MiB"; };\n')


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def notified():
    """Where systemd would listen; a list of what it was told, after the end."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        path = f"{folder}/notify"
        listener.bind(path)
        listener.setblocking(False)
        os.environ["NOTIFY_SOCKET"] = path
        told = []
        try:
            yield told
        finally:
            del os.environ["NOTIFY_SOCKET"]
            with contextlib.suppress(BlockingIOError):
                while True:
                    told.append(listener.recv(100).decode())


def streams_open(stack, *settings):
    return stack.enter_context(server.Server(f"metrics.port={free_port()}", "lcores.cpus=0", *settings, config=Folder(stack).file))


def fabric_open(provider):
    def opened(stack, *settings):
        return stack.enter_context(
            server.Server(f"ports=({fabric.port(provider, lease='60s')})", "lcores.cpus=0", *settings, config=Folder(stack).file))
    return opened


def ethernet_open(kind):
    def opened(stack, *settings):
        wire = stack.enter_context(kind())
        return stack.enter_context(netns.EthernetServer(wire, "lcores.cpus=0", *settings, config=Folder(stack).file))
    return opened


class Pcap(netns.Wire):
    device = "net_pcap0,iface=wire0"


SERVERS = {"streams": streams_open, **{provider: fabric_open(provider) for provider in FABRICS},
           "af_packet": ethernet_open(netns.Wire), "tap": ethernet_open(netns.Tap), "pcap": ethernet_open(Pcap)}


# ---- what is done with each ----

def cli(served, *words, stdin=None, over=()):
    over = over or ("-h", served.host, "-p", str(served.port if served.host == "127.0.0.1" else netns.PORT))
    done = subprocess.run([str(server.BUILD / "sluice-cli"), *over, *words], input=stdin, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise server.ServerError(f"sluice-cli {over} {words}: {done.stderr}\n{served.log()}")
    return done.stdout


def serve_wires(served, provider=None):
    """Every wire over every way in; replies are looked at."""
    ways = [(), ("-s", served.unix)] + ([("-s", served.unix, "--fabric", provider)] if provider else [])
    for number, over in enumerate(ways):
        for wire in ("-2", "-3", "--sbe"):
            key = f"k{number}{wire}"
            assert cli(served, wire, "SET", key, "v" * 3000, over=over).strip() == "OK"
            assert cli(served, wire, "GET", key, over=over).strip() == "v" * 3000
    if provider:
        bench = [str(server.BUILD / "sluice-bench"), "latency", "-s", served.unix, "--provider", provider, "--only", "SET,GET,PUBSUB", "--samples", "100",
                 "--warmup", "10", "--csv"]
        done = subprocess.run(bench, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


def serve_sessions(served):
    """Many connections, large values, messages, commands for the helper, and clients that leave in every way."""
    clients = [served.connect(over) for over in ("unix", "tcp") for _ in range(8)]
    for number, client in enumerate(clients):
        assert fabric.resp_call(client, "SET", f"large{number}", b"x" * (MIB // 2)) == b"OK"
        assert len(fabric.resp_call(client, "GET", f"large{number}")) == MIB // 2
    readers = [fabric.Reader(client) for client in clients[:2]]
    for reader in readers:
        reader.connection.sendall(fabric.resp_request("SUBSCRIBE", "news"))
        reader.reply()
    assert fabric.resp_call(clients[-1], "PUBLISH", "news", "hello") == 2
    assert [reader.reply()[2] for reader in readers] == [b"hello"] * 2
    assert len(fabric.resp_call(clients[-1], "KEYS", "large*")) == len(clients)
    assert fabric.resp_call(clients[-1], "CONFIG", "SET", "timeout", "0") == b"OK"
    assert b"redis_version" in fabric.resp_call(clients[-1], "INFO")
    for name in ("CLIENT", "LIST"), ("CONFIG", "GET", "*"), ("SCAN", "0"), ("FLUSHALL",):
        assert not isinstance(fabric.resp_call(clients[-1], *name), fabric.ErrorReply)
    clients[3].sendall(b"*1\r\n$-4\r\n")
    for client in clients[:4]:
        client.close()
    for client in clients[4:]:
        client.shutdown(socket.SHUT_WR)
        client.close()


def http(served, path):
    port = served.ctl("status")["metrics"].rpartition(":")[2]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as page:
            return page.read()
    except urllib.error.HTTPError as error:
        return error.read()


def manage(served):
    """Everything that sluicectl can do, and signals."""
    config = next(word for word in pathlib.Path(f"/proc/{served.process.pid}/cmdline").read_text().split("\0") if word.endswith(".conf"))
    for words in (("status",), ("ready",), ("alive",), ("stats", "-a"), ("latency",), ("latency", "get", "--hist"), ("lcores",), ("ports",), ("sessions",),
                  ("memory",), ("keys", "hot", "--seconds", "0"), ("keys", "big"), ("slowlog",), ("log",), ("metrics",), ("version",), ("top",),
                  ("config", "show"), ("config", "get", "memory.limit"), ("config", "check"), ("config", "set", "log.level", "debug"),
                  ("config", "set", "lcores.idle", "spin"), ("config", "set", "lcores.idle", "yield"), ("config", "set", "lcores.idle", "adaptive"),
                  ("config", "set", "lcores.cpus", "1"), ("config", "set", "lcores.cpus", "0"), ("config", "set", "limits.clients", "12000"),
                  ("config", "set", "--save", "memory.limit", "800MiB"), ("config", "set", "--save", "log.level", "info"), ("config", "reload")):
        served.sluicectl(*words)
    assert '"800MiB"' in pathlib.Path(config).read_text()
    assert '"info"' in (pathlib.Path(config).parent / "more.conf").read_text()
    os.kill(served.process.pid, signal.SIGHUP)
    with served.connect("unix") as victim:
        fabric.resp_call(victim, "CLIENT", "SETNAME", "victim")
        rows = json.loads(served.sluicectl("-j", "sessions"))["rows"]
        served.sluicectl("sessions", "kill", str(next(row["id"] for row in rows if row["name"] == "victim")))
    with socket.socket(socket.AF_UNIX) as text:
        text.connect(served.ctl_path)
        text.sendall(b"help\nnonsense\nstatus\n")
        assert text.recv(100)
    if served.ctl("status")["metrics"]:
        assert b"sluice" in http(served, "/metrics") and http(served, "/healthz") and http(served, "/readyz") and http(served, "/none")


def fall_and_rise(served):
    """The port's interface goes down, and comes back."""
    for state in ("down", "up"):
        served.wire.server.run("ip", "link", "set", "wire0", state)
        time.sleep(0.3)


def capture(served):
    path = served.folder / "seen.pcap"
    command = [str(server.BUILD / "sluicectl"), "-S", served.ctl_path, "capture", "ethernet", str(path), "--seconds", "3", "--packets", "3"]
    watched = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    subprocess.run(["ping", "-c", "3", "-i", "0.3", "-W", "1", netns.THERE], capture_output=True, check=True, timeout=30)
    assert watched.wait(30) == 0 and path.stat().st_size > 24
    assert "exists" in subprocess.run(command, capture_output=True, text=True, timeout=30).stderr


def use(name, served):
    serve_wires(served, name if name in FABRICS else None)
    serve_sessions(served)
    if name == "streams":
        manage(served)
    if served.ctl("status")["ethernet"]:
        if name != "tap":
            fall_and_rise(served)
        capture(served)
    served.sluicectl("doctor", check=False)  # its exit status tells of this machine
    time.sleep(1.2)  # what is done once a second


# ---- what the kernel says of the threads ----

def threads(pid):
    """Name and status of every thread."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        yield int(task.name), fields


class Sandbox(unittest.TestCase):
    def check_threads(self, served):
        for tid, fields in threads(served.process.pid):
            with self.subTest(thread=fields["Name"], tid=tid):
                for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                    self.assertEqual(int(fields[field], 16), 0, field)
                self.assertEqual((fields["NoNewPrivs"], fields["Seccomp"]), ("1", "2"))

    def check_status(self, served):
        status = served.ctl("status")
        self.assertTrue(status["sandbox"].startswith("on"), status["sandbox"])
        rows = status["sandbox_threads"]
        self.assertEqual(sum(row["threads"] for row in rows), len(list(threads(served.process.pid))))
        for row in rows:
            self.assertEqual((row["capabilities"], row["no_new_privs"], row["seccomp"]), ("none", True, True), row)
        calls = {row["kind"]: row["calls"] for row in rows}
        self.assertLess(calls["helper"], calls["management"])
        self.assertRegex(served.sluicectl("status"), r"(?m)^sandbox      on, Landlock version \d+\n +management: threads 1, system calls \d+, capabilities none\n +reads /proc /sys")
        return calls

    def test_every_port_serves_and_every_thread_is_restricted(self):
        for name, opened in SERVERS.items():
            with self.subTest(port=name), notified() as told, contextlib.ExitStack() as stack:
                served = opened(stack)
                self.check_threads(served)
                use(name, served)
                self.check_threads(served)
                print(f"{name}: calls permitted {self.check_status(served)}", flush=True)
            self.assertEqual((told[0], told[-1].split("\n")[0]), ("READY=1", "STOPPING=1"))


class Forbidden(unittest.TestCase):
    """A sluiced of the tests' own, whose lcore makes a forbidden call when it is told to."""

    def test_a_forbidden_call_of_an_lcore_ends_the_process_and_is_named(self):
        planted = server.Server("lcores.cpus=0", program=server.BUILD / "test" / "mgmt" / "sluiced_stalling")
        self.addCleanup(planted.stop, check=False)
        with planted.connect() as client, self.assertRaises(ConnectionError):
            client.sendall(fabric.resp_request("ECHO", "forbidden"))
            fabric.Reader(client).reply()
        self.assertEqual(planted.process.wait(30), -signal.SIGSYS)
        self.assertRegex(planted.log(), r"(?m)^crash: system call \d+ \(getppid\), which the sandbox forbids, in thread \d+ \(lcore-0\)$")
        self.assertIn("crash: lcore 0: thread", planted.log())

    def test_without_the_sandbox_it_is_a_call_like_any_other(self):
        with server.Server("sandbox.mode=off", program=server.BUILD / "test" / "mgmt" / "sluiced_stalling") as planted:
            self.assertEqual(planted.ctl("status")["sandbox"], "off")
            with planted.connect() as client:
                self.assertEqual(fabric.resp_call(client, "ECHO", "forbidden"), b"forbidden")


class NoProc(server.Server):
    prefix = ("unshare", "--mount", "sh", "-c", 'umount -lR /proc && exec "$@"', "sh")


class Threads(unittest.TestCase):
    def test_where_they_cannot_be_counted_there_is_a_sentence_and_no_start(self):
        with self.assertRaisesRegex(server.ServerError, r"ended with 1 .*\n.*sandbox: /proc/self/task: No such file or directory"):
            NoProc()
        with NoProc("sandbox.mode=off") as served:
            self.assertEqual(served.ctl("status")["sandbox"], "off")


class Captures(unittest.TestCase):
    def test_captures_go_where_they_may_and_nowhere_else(self):
        with contextlib.ExitStack() as stack:
            wire = stack.enter_context(netns.Wire())
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-captures-")))
            served = stack.enter_context(netns.EthernetServer(wire, f"sandbox.captures={folder}"))
            command = [str(server.BUILD / "sluicectl"), "-S", served.ctl_path, "capture", "ethernet"]
            refused = subprocess.run([*command, str(served.folder / "seen.pcap"), "--seconds", "1"], capture_output=True, text=True, timeout=30)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("sandbox.captures", refused.stderr)
            subprocess.run([*command, str(folder / "seen.pcap"), "--seconds", "1"], check=True, timeout=30, stdout=subprocess.DEVNULL)
            self.assertGreaterEqual((folder / "seen.pcap").stat().st_size, 24)


# ---- the proof by strace ----

def table():
    """Rows of sandbox_calls.c: (need, call) to (check, reason why nobody makes it)."""
    out = subprocess.run([str(ROWS), "--rows"], capture_output=True, text=True, check=True, timeout=30).stdout
    rows = (line.split("\t") for line in out.splitlines())
    return {(need, call): (check, unseen) for need, call, check, unseen in rows}


def kinds_of(served):
    """Kind of every thread, and the needs of every kind."""
    lcores = {row["tid"] for row in served.ctl("lcores")["lcores"]}
    kinds = {}
    for tid, fields in threads(served.process.pid):
        kinds[tid] = ("management" if tid == served.process.pid else "lcore" if tid in lcores else
                      "helper" if fields["Name"].startswith("helper") else "library")
    return kinds, {row["kind"]: row["needs"].split() for row in served.ctl("status")["sandbox_threads"]}


@contextlib.contextmanager
def traced(pid, path):
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-s", "64", "-e", "signal=none", "-o", str(path), "-p", str(pid)])
    deadline = time.monotonic() + ATTACH_S
    while any(fields["TracerPid"] == "0" for _, fields in threads(pid)):
        if tracer.poll() is not None or time.monotonic() > deadline:
            raise server.ServerError("strace does not attach")
        time.sleep(0.05)
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait(60)


CALL = re.compile(r"^(\d+)\s+(\w+)\((.*)$")
CHECKS = {"any": lambda line, pid: True, "no-exec": lambda line, pid: "PROT_EXEC" not in line,
          "own": lambda line, pid: line.startswith(f"{pid},"), "self": lambda line, pid: line.startswith("0,"),
          "fatal": lambda line, pid: line.startswith(("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")),
          "name": lambda line, pid: line.startswith("PR_GET_NAME"), "unix": lambda line, pid: line.startswith(("AF_UNIX", "AF_LOCAL")),
          "refused": lambda line, pid: True}


class Proof:
    """What threads called, held against the table."""

    def __init__(self, rows):
        self.rows, self.made, self.findings = rows, collections.Counter(), {}

    def look(self, name, lines, pid, kinds, needs):
        """Lines of strace about one server. Calls by kind of thread."""
        calls = collections.defaultdict(collections.Counter)
        for line in lines:
            if not (found := CALL.match(line)):
                continue
            tid, call, rest = int(found.group(1)), found.group(2), found.group(3)
            kind = kinds.get(tid, "unknown")
            calls[kind][call] += 1
            listed = [need for need in needs.get(kind, ()) if (need, call) in self.rows]
            for need in listed:
                self.made[need, call] += 1
            if not any(CHECKS[self.rows[need, call][0]](rest, pid) for need in listed):
                self.findings.setdefault((name, kind, call), line[:200])
        return calls

    def idle_rows(self):
        """Rows that nobody used: (need, call), reason."""
        return [(row, unseen) for row, (_, unseen) in self.rows.items() if not self.made[row]]


class ProofFails(unittest.TestCase):
    rows = {("base", "write"): ("any", "-"), ("base", "mmap"): ("no-exec", "-"), ("socket", "recvfrom"): ("any", "a reason")}

    def look(self, *lines):
        proof = Proof(self.rows)
        proof.look("x", lines, 10, {10: "management", 11: "lcore"}, {"management": ["base"], "lcore": ["base", "socket"]})
        return proof

    def test_what_is_listed_is_fine_and_what_is_idle_is_known(self):
        proof = self.look('11 write(3, "x", 1) = 1', "11 recvfrom(4, 0x7f, 10, 0, NULL, NULL) = 10", "11 +++ exited with 0 +++")
        self.assertEqual(proof.findings, {})
        self.assertEqual(proof.idle_rows(), [(("base", "mmap"), "-")])

    def test_planted_calls_are_found(self):
        for line, found in (("11 openat(AT_FDCWD, \"/\", O_RDONLY <unfinished ...>", ("x", "lcore", "openat")),
                            ("10 recvfrom(4, 0x7f, 10, 0, NULL, NULL) = 10", ("x", "management", "recvfrom")),
                            ("11 mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, 3, 0) = 0x7f", ("x", "lcore", "mmap")),
                            ('12 write(3, "x", 1) = 1', ("x", "unknown", "write"))):
            self.assertEqual(list(self.look(line).findings), [found])


def trace(names, keep):
    """Whether anything is wrong. `keep`: a folder for what strace wrote."""
    proof = Proof(table())
    for name in names:
        with notified(), contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(keep or folder) / f"{name}.calls"
            served = SERVERS[name](stack, "sandbox.mode=off")
            kinds, needs = kinds_of(served)
            with traced(served.process.pid, log):
                use(name, served)
                served.process.send_signal(signal.SIGTERM)
                served.process.wait(30)
            served.stop = lambda check=False: server.Server.stop(served, check=False)  # it has ended
            calls = proof.look(name, log.read_text(errors="replace").splitlines(), served.process.pid, kinds, needs)
            for kind, counts in sorted(calls.items()):
                print(f"{name}: {kind}: " + ", ".join(f"{call} {count}" for call, count in counts.most_common()), flush=True)
    for (name, kind, call), line in sorted(proof.findings.items()):
        print(f"not listed: {name}: {kind}: {call}: {line}")
    idle = proof.idle_rows() if set(names) == set(SERVERS) else []
    for (need, call), unseen in idle:
        print(f"listed, but nobody made it: {need}: {call}: {unseen}")
    return bool(proof.findings) or any(unseen == "-" for _, unseen in idle)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", nargs="*", metavar="SERVER", help="one or more of " + " ".join(SERVERS))
    parser.add_argument("--keep", metavar="FOLDER", help="for what strace writes")
    options, rest = parser.parse_known_args()
    netns.skip_unless_possible()
    if options.trace is not None:
        if os.geteuid() != 0 and subprocess.run(["strace", "true"], capture_output=True).returncode != 0:
            server.skip("strace may not trace here")
        sys.exit(1 if trace(options.trace or list(SERVERS), options.keep) else 0)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
