"""watched.py - what watching costs: throughput with `latency --watch=0.1` and a scrape every second, against without.

One lcore on CPU 0, the client and all that watches on the other CPUs, alternating. What is lost may be at most the CPU time
that management and the watchers used, as a share of one CPU, and 1%."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, Server  # noqa: E402

ROUNDS, SECONDS = 7, 4


def cpu_s(pid, task=None):
    """CPU seconds of a process, or of one of its threads."""
    path = f"/proc/{pid}/stat" if task is None else f"/proc/{pid}/task/{task}/stat"
    fields = pathlib.Path(path).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watchers:
    def __init__(self, server, port):
        self.url = f"http://127.0.0.1:{port}/metrics"
        self.ctl = subprocess.Popen([BUILD / "sluicectl", "-S", server.ctl_path, "latency", "--watch=0.1"],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.going = True
        self.used = 0.0
        self.thread = threading.Thread(target=self.scrape)
        self.thread.start()

    def scrape(self):
        while self.going:
            before = time.thread_time()
            urllib.request.urlopen(self.url, timeout=10).read()
            self.used += time.thread_time() - before
            time.sleep(1)

    def stop(self):
        self.going = False
        self.thread.join()
        used = self.used + cpu_s(self.ctl.pid)
        self.ctl.terminate()
        self.ctl.wait()
        return used


def throughput(server, port, watch):
    """(requests a second, CPU seconds of management and watchers a second)"""
    lcore = json.loads(server.sluicectl("-j", "lcores"))["lcores"][0]["tid"]
    watchers = Watchers(server, port) if watch else None
    pid = server.process.pid
    before, begun = cpu_s(pid) - cpu_s(pid, lcore), time.monotonic()
    done = subprocess.run([BUILD / "sluice-bench", "throughput", "-p", str(server.port), "-t", "get", "-c", "1", "-P", "64",
                           "-r", "100000", "--seconds", str(SECONDS), "--cpu", "1", "--csv"], capture_output=True,
                          text=True, check=True)
    used = cpu_s(pid) - cpu_s(pid, lcore) - before
    used += watchers.stop() if watch else 0
    rows = [line.replace('"', "").split(",") for line in done.stdout.splitlines()]
    rate = next(float(row[1]) for row in rows if row[0].lower() == "get")
    return rate, used / (time.monotonic() - begun)


def main():
    if len(os.sched_getaffinity(0)) < 2:
        print("needs two CPUs")
        sys.exit(77)
    port = 19121
    rates, used = {False: [], True: []}, {False: [], True: []}
    with Server(f"metrics.port={port}", "lcores.cpus=0", "lcores.idle=spin") as server:
        for _ in range(ROUNDS):
            for watch in (False, True):
                rate, cpu = throughput(server, port, watch)
                rates[watch].append(rate)
                used[watch].append(cpu)
    alone, watched = statistics.median(rates[False]), statistics.median(rates[True])
    more = statistics.median(used[True]) - statistics.median(used[False])
    lost = 1 - watched / alone
    print(f"{alone:.0f} requests/s unwatched, {watched:.0f} watched: {lost:.1%} lost; management and watchers used "
          f"{more:.1%} of a CPU; load {os.getloadavg()[0]:.1f}")
    if lost > max(more, 0) + 0.01:
        sys.exit("watching costs more than its own CPU time")


if __name__ == "__main__":
    main()
