"""tools_run.py - sluice-cli and sluice-bench against a running sluiced: every transport, every wire, every mode; and
sluice-cli's output compared with redis-cli's, byte for byte, on the same server."""

import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, Server  # noqa: E402

# libfabric never frees what fi_getinfo() found: its own affair, in a sanitizer build.
SUPPRESSIONS = pathlib.Path(__file__).with_name("lsan.supp")
os.environ.setdefault("LSAN_OPTIONS", f"suppressions={SUPPRESSIONS}:print_suppressions=0")
CLI, BENCH = str(BUILD / "sluice-cli"), str(BUILD / "sluice-bench")
TIMEOUT_S = 60
FABRICS = ("shm", "net")
WIRES = ("-2", "-3", "--sbe")
failures = 0


def expect(what, got, wanted):
    global failures
    if got != wanted:
        failures += 1
        print(f"FAILED {what}\n  got    {got!r}\n  wanted {wanted!r}")


def expect_match(what, got, pattern):
    global failures
    if not re.search(pattern, got):
        failures += 1
        print(f"FAILED {what}\n  got    {got!r}\n  wanted {pattern}")


def run(*words, stdin=b"", env=None, timeout_s=TIMEOUT_S):
    """Exit code, stdout, stderr."""
    result = subprocess.run(words, input=stdin, capture_output=True, timeout=timeout_s, env={**os.environ, **(env or {})})
    return result.returncode, result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")


def cli(server, *words, **how):
    return run(CLI, "-p", str(server.port), *words, **how)


def transports(server):
    yield "tcp", ["-p", str(server.port)]
    yield "unix", ["-s", server.unix]
    for provider in FABRICS:
        yield provider, ["-p", str(server.port), "--fabric", provider]


def check_transports(server):
    """Values written and read on every transport and wire; one larger than any frame among them."""
    large = "x" * 100000
    for name, where in transports(server):
        for wire in WIRES:
            key = f"{name}{wire}"
            lines = f'set {key} "a b"\nget {key}\nincr {key}\nappend {key} c\nget {key}\n'
            expect(f"lines {key}", run(CLI, *where, wire, "--no-raw", stdin=lines.encode())[1],
                   'OK\n"a b"\n(error) ERR value is not an integer or out of range\n(integer) 4\n"a bc"\n')
            expect(f"SET -x {key}", run(CLI, *where, wire, "-x", "set", key, stdin=large.encode())[1], "OK\n")
            expect(f"GET large {key}", run(CLI, *where, wire, "get", key)[1], large + "\n")


def check_modes(server):
    expect("lines of stdin", cli(server, stdin=b"set a 1\nincr a\n3 incr a\n\nget 'a\nquit\nincr a\n")[1],
           "OK\n2\n3\n4\n5\nInvalid argument(s)\n")
    expect("-r", cli(server, "-r", "3", "incr", "a")[1], "6\n7\n8\n")
    expect("-e", cli(server, "-e", "hget", "a", "f")[::2],
           (1, "WRONGTYPE Operation against a key holding the wrong kind of value\n"))
    expect("error without -e", cli(server, "hget", "a", "f")[0], 0)
    expect("--quoted-input", cli(server, "--quoted-input", "set", r'"q\x00\n"', "1")[1], "OK\n")
    expect("quoted key", cli(server, "--quoted-input", "exists", r'"q\x00\n"')[1], "1\n")
    expect("empty argument", cli(server, "set", "", "")[1], "OK\n")
    expect("-u", run(CLI, "-u", f"redis://127.0.0.1:{server.port}/0", "ping")[1], "PONG\n")
    expect("bad database", cli(server, "-n", "1", "ping")[2], "SELECT 1 failed: ERR DB index is out of range\n")
    expect_match("--latency", cli(server, "--latency", "-i", "0.2")[1], r"^\d+\.\d+ \d+\.\d+ \d+\.\d+ \d+\n$")
    expect_match("--stat", cli(server, "--stat", "-r", "2", "-i", "0.1")[1], r"keys .*\n\d+ +\S+ +\d+ +\d+ +\d+ \(\+0\)")
    for option in ("--bigkeys", "--cluster", "--eval"):
        code, _, error = cli(server, option)
        expect(option, (code, error), (2, f"sluice-cli: {option} is not available in this version\n"))
    expect("unknown option", cli(server, "--nonsense")[0], 2)
    expect("port out of range", run(CLI, "-p", "65536", "ping")[0], 2)
    expect("option without value", run(CLI, "-p")[0], 2)
    code, _, error = run(CLI, "-p", "1", "ping")
    expect("nobody there", (code, error), (1, "sluice-cli: could not connect to 127.0.0.1:1: Connection refused\n"))
    code, _, error = cli(server, "--fabric", "nonsense", "ping")
    expect("no such provider", code, 1)
    expect_match("no such provider is named", error, "nonsense")


def check_scan(server):
    keys = {f"scan:{i}" for i in range(500)} | {"two words"}
    cli(server, stdin="".join(f"SET {key} v\n" for key in keys if " " not in key).encode() + b"SET 'two words' v\n")
    for name, where in transports(server):
        code, out, _ = run(CLI, *where, "--scan", "--pattern", "scan:*")
        expect(f"--scan {name}", (code, sorted(out.split())), (0, sorted(key for key in keys if " " not in key)))
    expect("--scan --count", cli(server, "--scan", "--count", "1000", "--pattern", "two*")[1], "two words\n")
    expect("--scan --no-raw", cli(server, "--no-raw", "--scan", "--pattern", "two*")[1], '"two words"\n')
    expect("--scan of a bad pattern", cli(server, "-e", "--scan", "--pattern", "x" * 257)[0], 1)
    expect("--count 0", cli(server, "--scan", "--count", "0")[0], 2)


def check_pipe(server):
    requests = b"".join(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$1\r\nv\r\n" % (len(key), key)
                        for key in (b"pipe:%d" % i for i in range(20000)))
    for name, where in transports(server):
        code, out, _ = run(CLI, *where, "--pipe", stdin=requests)
        expect(f"--pipe {name}", (code, out.splitlines()[-1]), (0, "errors: 0, replies: 20000"))
    code, out, error = cli(server, "--pipe", stdin=b"GET pipe:1\r\nHGET pipe:1 f\r\n")
    expect("--pipe with an error", (code, out.splitlines()[-1]), (1, "errors: 1, replies: 2"))
    expect_match("--pipe shows the error", error, "WRONGTYPE")
    expect("--pipe of nothing", cli(server, "--pipe")[1].splitlines()[-1], "errors: 0, replies: 0")


def check_subscribe(server):
    for name, where in transports(server):
        for wire in WIRES:
            subscriber = subprocess.Popen([CLI, *where, wire, "--raw", "subscribe", "news"], stdout=subprocess.PIPE)
            try:
                confirmed = [subscriber.stdout.readline() for _ in range(3)]
                expect(f"SUBSCRIBE {name} {wire}", confirmed, [b"subscribe\n", b"news\n", b"1\n"])
                expect(f"PUBLISH to {name} {wire}", cli(server, "publish", "news", "hi")[1], "1\n")
                expect(f"message {name} {wire}", [subscriber.stdout.readline() for _ in range(3)],
                       [b"message\n", b"news\n", b"hi\n"])
                subscriber.send_signal(signal.SIGINT)
                expect(f"Ctrl-C {name} {wire}", subscriber.wait(20), 0)
            finally:
                subscriber.kill()
                subscriber.wait()


class Terminal:
    """sluice-cli at a pseudo-terminal."""

    def __init__(self, *words, env):
        self.process_id, self.fd = pty.fork()
        if self.process_id == 0:
            os.environ.update(env)
            os.execv(CLI, [CLI, *words])
        self.seen = b""

    def wait_for(self, what, text):
        deadline = time.monotonic() + 20
        while text not in self.seen:
            if time.monotonic() > deadline or not self._read():
                expect(what, self.seen, text)
                break
        self.seen = self.seen.partition(text)[2]

    def _read(self):
        if not select.select([self.fd], [], [], 1)[0]:
            return True
        try:
            piece = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += piece
        return bool(piece)

    def type(self, text):
        os.write(self.fd, text)

    def end(self):
        """Exit code; the terminal stays until the program is gone."""
        deadline = time.monotonic() + 20
        while self._read() and time.monotonic() < deadline:
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.process_id, 0)[1])


def check_prompt(server):
    with tempfile.TemporaryDirectory() as home:
        history = os.path.join(home, "history")
        env = {"TERM": "xterm", "SLUICECLI_HISTFILE": history}
        prompt = f"127.0.0.1:{server.port}> ".encode()
        terminal = Terminal("-p", str(server.port), env=env)
        terminal.wait_for("prompt", prompt)
        for line, answer in ((b"set p \"a b\"", b"OK"), (b"get p", b'"a b"'), (b"exists p q", b"(integer) 1"),
                             (b"help get", b"Reads a string"), (b"auth topsecret", b"(error)")):
            terminal.type(line + b"\r")
            terminal.wait_for(f"answer to {line}", answer)
            terminal.wait_for("prompt", prompt)
        terminal.type(b"\x1b[A\x1b[A\r")  # two up: help, exists; the password is not there
        terminal.wait_for("history", b"(integer) 1")
        terminal.wait_for("prompt", prompt)
        terminal.type(b"half a line")
        terminal.wait_for("half a line", b"line")
        time.sleep(0.2)  # the prompt is printed a moment before the terminal is the editor's
        terminal.type(b"\x03")
        terminal.wait_for("prompt after Ctrl-C", prompt)
        terminal.type(b"subscribe c\r")
        terminal.wait_for("subscribed", b"Reading messages...")
        expect("publish", cli(server, "publish", "c", "m")[1], "1\n")
        terminal.wait_for("message", b'"m"')
        terminal.type(b"\x03")
        terminal.wait_for("prompt after messages", prompt)
        terminal.type(b"get p\r")
        terminal.wait_for("a command after messages", b'"a b"')
        terminal.wait_for("prompt", prompt)
        terminal.type(b"quit\r")
        expect("quit", terminal.end(), 0)
        kept = pathlib.Path(history).read_text()
        expect("history holds lines", "exists" in kept, True)
        expect("history holds no secrets", "topsecret" in kept, False)
        expect("history is private", os.stat(history).st_mode & 0o077, 0)


def check_password():
    with Server("auth.password=topsecret") as server:
        for wire in WIRES:
            expect(f"no password {wire}", "NOAUTH" in "".join(cli(server, wire, "get", "a")[1:]), True)
            code, _, error = cli(server, wire, "-a", "wrong", "get", "a")
            expect(f"wrong password {wire}", (code, "WRONGPASS" in error), (1, True))
            expect(f"-a {wire}", cli(server, wire, "-a", "topsecret", "--no-raw", "get", "a")[1], "(nil)\n")
            expect(f"REDISCLI_AUTH {wire}",
                   cli(server, wire, "--no-raw", "get", "a", env={"REDISCLI_AUTH": "topsecret"})[1], "(nil)\n")
            expect(f"--user {wire}",
                   cli(server, wire, "--user", "default", "--pass", "topsecret", "--no-raw", "get", "a")[1], "(nil)\n")


COMPARED = ("ping", "get no", "get s", "mget s no s", "hgetall h", "hgetall no", "zrange z 0 -1 withscores", "zscore z b",
            "zscore z no", "incr s", "nonsense", "set", "exists s h", "command count", "config get maxmemory", "strlen s",
            "type z", "ttl s", "command info get nosuch", "command docs get", "client getname", "quit", "echo \u00e9")


def check_redis_cli(server):
    redis_cli = shutil.which("redis-cli")
    if redis_cli is None:
        print("redis-cli is not here: nothing to compare with")
        return
    for line in ('set s "a\\"b\\n\\x01"', "hset h f v g w", "zadd z 1.5 a 2 b 1e100 c"):
        cli(server, stdin=line.encode() + b"\n")
    for terminal in ({}, {"FAKETTY": "1"}):
        for wire in ("-2", "-3"):
            for form in ([], ["--raw"], ["--no-raw"], ["--json"], ["-e"]):
                for command in COMPARED:
                    words = [wire, *form, *command.split()]
                    theirs = run(redis_cli, "-p", str(server.port), *words, env=terminal)
                    ours = cli(server, *words, env=terminal)
                    expect(f"{' '.join(words)} {terminal}", ours[:2], theirs[:2])


def check_bench(server):
    for name, where in transports(server):
        where = ["--provider" if word == "--fabric" else word for word in where]
        for wire in ("resp2", "resp3", "sbe"):
            code, out, error = run(BENCH, "latency", *where, "--wire", wire, "--samples", "60", "--warmup", "10", "--csv",
                                   "--floor", "--pause", str(server.process.pid), "-d", "200")
            rows = [line.split(",") for line in out.splitlines()]
            expect(f"latency {name} {wire}: {error}", (code, len(rows), {len(row) for row in rows}), (0, 17, {14}))
            label = f"{'kernel-tcp' if name == 'tcp' else name}-{wire.replace('resp2', 'resp')}"
            label += "-auto" if name in FABRICS else ""
            expect(f"latency {name} {wire}: labels", {row[0] for row in rows[1:]}, {label, f"{label}-floor"})
            expect(f"latency {name} {wire}: samples", {row[13] for row in rows[1:]}, {"60"})
            for row in rows[1:]:
                ranks = [float(value) for value in row[2:11]]
                expect(f"latency {row[:2]}: ranks grow", ranks, sorted(ranks))
    for name, where in transports(server):
        where = ["--provider" if word == "--fabric" else word for word in where]
        for wire in ("resp2", "resp3", "sbe"):
            code, out, error = run(BENCH, "throughput", *where, "--wire", wire, "-c", "2", "-P", "8", "-n", "2000", "-r",
                                   "100", "--load", "--csv")
            rows = [line.split(",") for line in out.splitlines()[1:]]
            expect(f"throughput {name} {wire}: {error}", (code, len(rows)), (0, 8))
            for row in rows:
                expect(f"throughput {name} {wire} {row[0]}: requests, misses, errors", (row[2], row[4], row[5]),
                       ("2000", "0", "0"))
    port = ["-p", str(server.port)]
    code, out, _ = run(BENCH, "throughput", *port, "--mix", "get:9,set:1", "-c", "20", "-P", "4", "-n", "5000", "--threads",
                       "2", "-r", "100", "-q")
    expect_match(f"mix {code}", out, r"^mix: \d+ requests per second, p50=")
    code, out, error = run(BENCH, "throughput", *port, "-n", "100", "-c", "1", "hget", "key:__rand_int__", "f")
    expect("errors are told", (code, "WRONGTYPE" in error), (1, True))
    code, out, _ = run(BENCH, "throughput", *port, "-n", "100", "-r", "1000000000", "-t", "get", "--csv")
    expect("misses are counted", out.splitlines()[1].split(",")[4], "100")
    for wire in ("resp2", "sbe"):
        code, out, error = run(BENCH, "throughput", "--ceiling", "--wire", wire, "-c", "3", "-P", "16", "-n", "20000",
                               "--mix", "get:3,set:2,incr:1,zscore:1", "--csv")
        expect(f"ceiling {wire}: {error}", (code, out.splitlines()[-1].split(",")[2:6:2]), (0, ["20000", "0"]))
    code, out, error = run(BENCH, "latency", "-p", "1")
    expect("nobody there", (code, "Connection refused" in error), (3, True))


def check_interrupt(server):
    """Ctrl-C keeps what was measured."""
    bench = subprocess.Popen([BENCH, "latency", "-p", str(server.port), "--samples", "5m", "--warmup", "0", "--only", "GET",
                              "--csv"], stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    bench.send_signal(signal.SIGINT)
    rows = bench.communicate(timeout=TIMEOUT_S)[0].splitlines()
    expect("interrupted latency ends well", (bench.returncode, len(rows)), (130, 2))
    expect_match("interrupted latency has a row", rows[-1], r"^kernel-tcp-resp,GET,.*,\d+$")


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write('ports = ( { type = "fabric"; provider = "shm"; },'
                     ' { type = "fabric"; provider = "net"; node = "127.0.0.1"; } );\n')
        config.flush()
        with Server(config=config.name) as server:
            for check in (check_transports, check_modes, check_scan, check_pipe, check_subscribe, check_prompt, check_redis_cli,
                          check_bench, check_interrupt):
                begun = time.monotonic()
                check(server)
                print(f"{check.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    check_password()
    print(f"{failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
