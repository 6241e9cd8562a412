"""peers.py - tools/peers starts what Sluice is compared with on loopback, knows it again, and stops nothing else."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from server import ROOT, SKIPPED, skip

PEERS = ROOT / "tools/peers"
STATE = ROOT / "build/peers"
QUESTIONS = {"redis": (b"PING\r\n", b"+PONG"), "memcached": (b"version\r\n", b"VERSION ")}
failures = 0


def expect(what, good):
    global failures
    if not good:
        failures += 1
        print(f"FAILED {what}")


def peers(*words):
    return subprocess.run([PEERS, *map(str, words)], capture_output=True, text=True, timeout=60)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def answers(port, question):
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(question)
            return connection.recv(100)
    except OSError:
        return b""


def check_peer(name):
    question, answer = QUESTIONS[name]
    port = free_port()
    cpu = min(os.sched_getaffinity(0))
    started = peers("start", name, port, cpu)
    if started.returncode == SKIPPED:
        skip(started.stderr.splitlines()[-1])
    expect(f"start {name}: {started.stderr}", (started.returncode, started.stdout) == (0, f"127.0.0.1:{port}\n"))
    pid_file = STATE / f"{name}-{port}.pid"
    pid = pid_file.read_text().split()[0]
    try:
        expect(f"{name} answers", answers(port, question).startswith(answer))
        listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
        own = [line.split()[3] for line in listening.splitlines() if f"pid={pid}," in line]
        expect(f"{name} listens on loopback only: {own}", own == [f"127.0.0.1:{port}"])
        expect(f"{name} is pinned", f"Cpus_allowed_list:\t{cpu}\n" in pathlib.Path(f"/proc/{pid}/status").read_text())
        for again in QUESTIONS:
            refused = peers("start", again, port)
            expect(f"start {again} on a taken port", refused.returncode == 1 and str(port) in refused.stderr)
        expect(f"{name} still answers", answers(port, question).startswith(answer))
    finally:
        stopped = peers("stop", name, port)
    expect(f"stop {name}: {stopped.stderr}", stopped.returncode == 0 and not pid_file.exists())
    expect(f"{name} answers no more", answers(port, question) == b"")
    expect(f"stop {name} again", peers("stop", name, port).returncode == 1)
    (STATE / f"{name}-{port}.log").unlink()


def check_stranger():
    """A process that has the number of one that ended is left alone."""
    port = free_port()
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        pid_file = STATE / f"redis-{port}.pid"
        for text in (f"{stranger.pid} 1\n", f"{stranger.pid}\n", "", "x y\n"):
            pid_file.write_text(text)
            expect(f"stop of {text!r}", peers("stop", "redis", port).returncode == 0)
            time.sleep(0.2)
            expect(f"a stranger named by {text!r} lives", stranger.poll() is None)
    finally:
        stranger.send_signal(signal.SIGKILL)
        stranger.wait()


def check_mistakes():
    for words in (["start"], ["start", "redis"], ["start", "redis", 0], ["start", "redis", 65536], ["start", "redis", "08"],
                  ["start", "postgres", 7000], ["start", "redis", 7000, "x"], ["stop"], ["stop", "redis"], ["nonsense"], []):
        expect(f"refused: {words}", peers(*words).returncode == 1)
    port = free_port()
    failed = peers("start", "redis", port, 1023)  # a CPU that is not here
    expect(f"a start that fails: {failed.stderr}", failed.returncode == 1 and "ended before it answered" in failed.stderr)
    expect("and leaves no number", not (STATE / f"redis-{port}.pid").exists())
    (STATE / f"redis-{port}.log").unlink()


def main():
    for name in QUESTIONS:
        check_peer(name)
    check_stranger()
    check_mistakes()
    print(f"{failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
