"""demo.py - `tools/run demo` works beside a taken port 6379 and another sluiced, shows what it promises and leaves nothing."""

import glob
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import server

# libfabric names a shm region PID:UID:INDEX.
PLACES = ("/tmp/sluice-demo*", "/run/sluice/*", "/dev/shm/*:*:*")


def files_now():
    return {path for place in PLACES for path in glob.glob(place)}


def programs_of(session):
    """Process ids in a session, which demo_run() made for the demo."""
    found = set()
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            if int(pathlib.Path(stat).read_text().rpartition(")")[2].split()[3]) == session:
                found.add(int(pathlib.Path(stat).parent.name))
        except (OSError, ValueError):
            pass
    return found


def left_behind(files, session):
    """What is there now and was not before, given a moment to go."""
    for _ in range(50):
        left = (files_now() - files) | programs_of(session)
        if not left:
            break
        time.sleep(0.1)
    return left


def demo_run(interrupt_after_s=None):
    command = ["tools/run", "demo"] if interrupt_after_s is None else ["tools/demo"]  # nothing is left to build
    demo = subprocess.Popen(command, cwd=server.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True)
    if interrupt_after_s is not None:
        time.sleep(interrupt_after_s)
        os.killpg(demo.pid, signal.SIGINT)
    shown, _ = demo.communicate(timeout=120)
    return demo.pid, demo.returncode, shown


def main():
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", 6379))
        taken.listen()
    except OSError:
        pass  # something else has it, which is as good
    with taken, server.Server():
        files = files_now()
        for after_s in (None, 0.5, 1.5, 3.0):
            session, code, shown = demo_run(after_s)
            if after_s is None:
                print(shown)
                missing = [word for word in ("p50", "p99", "PING", "requests", " ns |") if word not in shown]
                if code != 0 or missing:
                    print(f"exit code {code}, not shown: {missing}")
                    return 1
            if left := left_behind(files, session):
                print(f"left behind (interrupted after {after_s} s): {sorted(map(str, left))}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
