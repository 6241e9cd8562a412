"""run.py - replays the conversations of test/session/*.txt against a sluiced of their own.

    = key=value        a setting of the server of this file
    @name              the lines that follow are on this connection; opened at its first line
    > word word        a request as a RESP array; "quoted words" take escapes
    >> bytes           exactly these bytes
    < text             expected: these bytes and \\r\\n
    << bytes           expected: exactly these bytes
    <~ regex           expected: a line that matches
    <!                 expected: the server closes the connection and says nothing before
    <! any             expected: it closes, and what it could still say may be lost on the way
    + counter n        the counter has moved by n since the file began; >=n is at least n
    wait n             n milliseconds pass

Escapes: \\r \\n \\t \\0 \\\\ \\" \\xHH, and \\{text*n} for n times text. A file ends when every connection has answered all
there is: bytes that were not expected fail it."""

import argparse
import pathlib
import re
import socket
import sys
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "external"))
import server as booted  # noqa: E402

TIMEOUT_S = 20
ESCAPE = re.compile(r'\\(?:x([0-9a-fA-F]{2})|\{(.*?)\*(\d+)\}|(.))', re.DOTALL)
PLAIN = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\", '"': b'"'}
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"(?=\s|$)|(\S+)')


class Wrong(Exception):
    pass


class Step(NamedTuple):
    line: int
    kind: str
    value: object


def unescape(text):
    out, at = b"", 0
    for match in ESCAPE.finditer(text):
        out += text[at:match.start()].encode()
        at = match.end()
        hexadecimal, repeated, times, plain = match.groups()
        if hexadecimal:
            out += bytes([int(hexadecimal, 16)])
        elif times:
            out += unescape(repeated) * int(times)
        elif plain in PLAIN:
            out += PLAIN[plain]
        else:
            raise Wrong(f"unknown escape \\{plain}")
    return out + text[at:].encode()


def request(text):
    """RESP array of the words of a line."""
    words, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = WORD.match(text, at)
        quoted, bare = match.groups()
        words.append(unescape(bare if quoted is None else quoted))
        at = match.end()
    if not words:
        raise Wrong("an empty request")
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def line_parse(text):
    """(kind, value) of one line, or None for a comment."""
    if not text.strip() or text.startswith("#"):
        return None
    if text.startswith("@"):
        return "connection", text[1:].strip()
    mark, _, rest = text.partition(" ")
    if mark == "=" and "=" in rest:
        return "setting", rest.strip()
    if mark == ">":
        return "send", request(rest)
    if mark == ">>":
        return "send", unescape(rest)
    if mark == "<":
        return "expect", unescape(rest) + b"\r\n"
    if mark == "<<":
        return "expect", unescape(rest)
    if mark == "<~":
        return "match", re.compile(rest.encode(), re.DOTALL)
    if mark == "<!" and rest in ("", "any"):
        return "closed", rest
    if mark == "+" and (match := re.fullmatch(r"(\w+) (>=)?(\d+)", rest.strip())):
        return "counter", (match[1], bool(match[2]), int(match[3]))
    if mark == "wait" and rest.strip().isdigit():
        return "wait", int(rest) / 1000
    raise Wrong("not a line of a conversation")


def conversation_read(path):
    settings, steps = [], []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            parsed = line_parse(text)
        except Wrong as wrong:
            raise Wrong(f"{path.name}:{number}: {wrong}: {text}") from None
        if parsed and parsed[0] == "setting":
            settings.append(parsed[1])
        elif parsed:
            steps.append(Step(number, *parsed))
    if not any(step.kind in ("expect", "match", "closed") for step in steps):
        raise Wrong(f"{path.name}: expects nothing")
    return settings, steps


class Connection:
    def __init__(self, opened, split):
        self.socket, self.split, self.pending = opened, split, b""
        self.reset = False

    def send(self, data):
        step = self.split or len(data)
        try:
            for at in range(0, len(data), step):
                self.socket.sendall(data[at:at + step])
        except (BrokenPipeError, ConnectionResetError):
            self.reset = True  # the server may refuse the rest; what it answered is still to be read

    def receive(self):
        """Once more bytes into pending; False at the end of the stream."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        except TimeoutError:
            raise Wrong(f"nothing more within {TIMEOUT_S} s, after {self.pending[-80:]!r}") from None
        self.pending += data
        return bool(data)

    def expect(self, wanted):
        while len(self.pending) < len(wanted):
            if self.pending != wanted[:len(self.pending)] or not self.receive():
                break
        got = self.pending[:len(wanted)]
        if got != wanted:
            at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
            raise Wrong(f"expected {wanted[at:at + 120]!r}, got {self.pending[at:at + 120]!r} (at byte {at})")
        self.pending = self.pending[len(wanted):]

    def match(self, pattern):
        while b"\r\n" not in self.pending:
            if not self.receive():
                raise Wrong(f"closed before a line that matches {pattern.pattern!r}: {self.pending[:120]!r}")
        line, self.pending = self.pending.split(b"\r\n", 1)
        if not pattern.fullmatch(line):
            raise Wrong(f"{line[:200]!r} does not match {pattern.pattern!r}")

    def closed(self, before=""):
        while self.receive():
            pass
        if self.pending and before != "any":
            raise Wrong(f"not expected: {self.pending[:200]!r}")
        self.socket.close()

    def finish(self):
        """Everything that the server had to say has been expected."""
        if self.socket.fileno() >= 0:
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            self.closed()


def counter_check(server, before, name, at_least, wanted):
    """A counter is published by its lcore, so it may lag behind the reply."""
    deadline = time.monotonic() + 2
    while True:
        now = server.counters()
        if name not in now:
            raise Wrong(f"no counter '{name}'")
        moved = now[name] - before[name]
        if moved == wanted or (at_least and moved >= wanted):
            return
        if time.monotonic() > deadline:
            raise Wrong(f"counter {name} moved by {moved}, expected {'at least ' if at_least else ''}{wanted}")
        time.sleep(0.02)


def conversation_play(steps, connect, server):
    connections, current = {}, "1"
    before = server.counters() if any(step.kind == "counter" for step in steps) else None
    line = 0
    try:
        for line, kind, value in steps:
            if kind == "connection":
                current = value
                continue
            if kind == "wait":
                time.sleep(value)
                continue
            if kind == "counter":
                counter_check(server, before, *value)
                continue
            if current not in connections or connections[current].socket.fileno() < 0:
                connections[current] = connect()
            getattr(connections[current], kind)(value)
        for name, connection in connections.items():
            current = name
            connection.finish()
    except Wrong as wrong:
        raise Wrong(f"line {line}, connection {current}: {wrong}") from None
    finally:
        for connection in connections.values():
            connection.socket.close()


def address_connect(address, split):
    host, _, port = address.rpartition(":")
    return Connection(socket.create_connection((host, int(port)), TIMEOUT_S), split)


def file_run(path, options):
    settings, steps = conversation_read(path)
    if options.parse:
        return
    if options.address:
        steps = [step for step in steps if step.kind != "counter"]
        flush = address_connect(options.address, 0)
        flush.send(request("FLUSHALL"))
        flush.expect(b"+OK\r\n")
        flush.finish()
        conversation_play(steps, lambda: address_connect(options.address, options.split), None)
        return
    with booted.Server(*settings, *options.set) as server:
        conversation_play(steps, lambda: Connection(server.connect(options.over, TIMEOUT_S), options.split), server)


def main():
    parser = argparse.ArgumentParser(description="Replay conversations against a server.")
    parser.add_argument("--over", choices=("tcp", "unix"), default="tcp")
    parser.add_argument("--split", type=int, default=0, metavar="N", help="send N bytes at a time")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for every server")
    parser.add_argument("--address", metavar="HOST:PORT", help="a server that runs already; it is flushed before each file")
    parser.add_argument("--parse", action="store_true", help="only read the files")
    parser.add_argument("file", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    failed = 0
    paths = options.file or sorted(HERE.glob("*.txt"))
    for path in paths:
        begun = time.monotonic()
        try:
            file_run(path, options)
            print(f"{path.stem:<24} {time.monotonic() - begun:6.2f} s  ok", flush=True)
        except (Wrong, booted.ServerError) as wrong:
            failed += 1
            print(f"{path.stem:<24} FAILED: {wrong}", flush=True)
    print(f"{len(paths) - failed} conversations held, {failed} did not")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
