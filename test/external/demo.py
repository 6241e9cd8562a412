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

PLACES = ("/tmp/sluice*", "/dev/shm/*sluice*", "/run/sluice/*", "/dev/shm/fi_shm*")


def files_now():
    return {path for place in PLACES for path in glob.glob(place)}


def programs_now():
    """Process ids that run a program of this build folder."""
    found = set()
    for exe in glob.glob("/proc/[0-9]*/exe"):
        try:
            if os.readlink(exe).removesuffix(" (deleted)").startswith(str(server.ROOT / "build") + "/"):
                found.add(int(pathlib.Path(exe).parent.name))
        except OSError:
            pass
    return found


def left_behind(files, programs):
    """What is there now and was not before, given a moment to go."""
    for _ in range(50):
        left = (files_now() - files) | (programs_now() - programs)
        if not left:
            break
        time.sleep(0.1)
    return left


def demo_run(interrupt_after_s=None):
    demo = subprocess.Popen([server.ROOT / "tools" / "run", "demo"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True)
    if interrupt_after_s is not None:
        time.sleep(interrupt_after_s)
        os.killpg(demo.pid, signal.SIGINT)
    shown, _ = demo.communicate(timeout=120)
    return demo.returncode, shown


def main():
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", 6379))
        taken.listen()
    except OSError:
        pass  # something else has it, which is as good
    with taken, server.Server():
        files, programs = files_now(), programs_now()
        code, shown = demo_run()
        print(shown)
        missing = [word for word in ("p50", "p99", "PING", "requests") if word.lower() not in shown.lower()]
        if code != 0 or missing:
            print(f"exit code {code}, not shown: {missing}")
            return 1
        for after_s in (None, 1.0, 2.0):
            if after_s is not None:
                demo_run(after_s)
            if left := left_behind(files, programs):
                print(f"left behind (interrupted after {after_s} s): {sorted(map(str, left))}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
