"""watched.py - what watching costs: throughput with `latency --watch=0.1` and a scrape every second, against without, and
what recording adds to a request.

One lcore spins on the first CPU; the client, management and all that watches share the others. One client sends for the
whole time; slices with and without watchers take turns, and every pair of neighbours is one sample: what was lost, less
the CPU time that management and the watchers used meanwhile, as a share of one CPU. The median of the samples may be 1%
at most; samples are taken until its interval of confidence says whether it is. A pair during which something else had the
lcore's CPU does not count."""

import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, Server, skip  # noqa: E402

SLICE_S, SETTLE_S = 1.5, 0.2
PAIRS_LEAST, PAIRS_MOST = 20, 45
MOST_BEYOND_CPU = 0.01
UNDISTURBED = 0.98  # of a CPU that a spinning lcore has while nothing else wants it
RECORDING_MOST_NS = 25


def cpu_ns(pid):
    """CPU time of each thread of a process in nanoseconds: /proc/PID/stat counts in hundredths of a second."""
    return {int(task.name): int((task / "schedstat").read_text().split()[0])
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}


class Watchers:
    """They are stopped, not ended, between their slices: starting them is not watching."""

    def __init__(self, server, port):
        self.url = f"http://127.0.0.1:{port}/metrics"
        self.ctl = subprocess.Popen([BUILD / "sluicectl", "-S", server.ctl_path, "latency", "--watch=0.1"],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.watching, self.over = threading.Event(), False
        self.scraped_ns = 0
        self.thread = threading.Thread(target=self.scrape)
        self.thread.start()
        time.sleep(0.5)
        self.set(False)

    def scrape(self):
        while not self.over:
            if self.watching.wait(0.1):
                urllib.request.urlopen(self.url, timeout=10).read()
                self.scraped_ns = time.thread_time_ns()
                time.sleep(1)

    def set(self, on):
        self.ctl.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
        self.watching.set() if on else self.watching.clear()

    def used_ns(self):
        return self.scraped_ns + sum(cpu_ns(self.ctl.pid).values())

    def close(self):
        self.over = True
        self.set(True)
        self.ctl.terminate()
        self.ctl.wait()
        self.thread.join()


class Rig:
    def __init__(self, server, port):
        self.server = server
        self.lcore = json.loads(server.sluicectl("-j", "lcores"))["lcores"][0]["tid"]
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(server.ctl_path)
        self.lines = self.control.makefile("rb")
        self.watchers = Watchers(server, port)

    def requests(self):
        """(when, requests so far)"""
        begun = time.monotonic()
        self.control.sendall(b'{"version":1,"command":"status"}\n')
        count = json.loads(self.lines.readline())["result"]["requests"]
        return (begun + time.monotonic()) / 2, count

    def used_ns(self):
        """CPU time so far: the lcore's; that of management and watchers."""
        threads = cpu_ns(self.server.process.pid)
        lcore = threads.pop(self.lcore)
        return lcore, sum(threads.values()) + self.watchers.used_ns()

    def slice(self, watch):
        """(requests a second, CPUs that management and watchers used, whether the lcore had its own)"""
        self.watchers.set(watch)
        time.sleep(SETTLE_S)
        before_ns, (begun, before) = self.used_ns(), self.requests()
        time.sleep(SLICE_S)
        ended, after = self.requests()
        lcore, others = ((now - then) / 1e9 / (ended - begun) for now, then in zip(self.used_ns(), before_ns))
        return (after - before) / (ended - begun), others, lcore >= UNDISTURBED

    def pair(self, watched_first):
        """(lost, CPU time used for it), both as shares; None: disturbed"""
        at = {watch: self.slice(watch) for watch in (watched_first, not watched_first)}
        if not (at[True][2] and at[False][2]):
            return None
        return 1 - at[True][0] / at[False][0], at[True][1] - at[False][1]

    def close(self):
        self.watchers.close()
        self.lines.close()
        self.control.close()


def median_interval(samples):
    """What holds the median with 95% confidence, whatever the samples' distribution."""
    ordered, count = sorted(samples), len(samples)
    outside = int((count - 1.96 * count ** 0.5) / 2)
    return ordered[max(outside, 0)], ordered[min(count - 1 - outside, count - 1)]


def watching(server, port, client_cpu):
    rig = Rig(server, port)
    client = subprocess.Popen([BUILD / "sluice-bench", "throughput", "-p", str(server.port), "-t", "get", "-c", "1", "-P", "64",
                               "-r", "100000", "--seconds", "3600", "--cpu", str(client_cpu), "--csv"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pairs, low, high = [], 0, 0
    try:
        time.sleep(1)
        for tried in range(PAIRS_MOST):
            pair = rig.pair(tried % 2 == 0)
            if client.poll() is not None:
                sys.exit("the client ended early")
            if pair is None:
                continue
            pairs.append(pair)
            low, high = median_interval([lost - used for lost, used in pairs])
            if len(pairs) >= PAIRS_LEAST and not low <= MOST_BEYOND_CPU <= high:
                break
    finally:
        client.kill()
        client.wait()
        rig.close()
    if len(pairs) < PAIRS_LEAST:
        sys.exit(f"not decided: {len(pairs)} of {PAIRS_MOST} pairs were undisturbed, load {os.getloadavg()[0]:.1f}")
    lost, used = (statistics.median(column) for column in zip(*pairs))
    print(f"watched: {lost:.2%} of the throughput lost, management and watchers used {used:.2%} of a CPU; lost beyond that "
          f"{statistics.median(lost - used for lost, used in pairs):.2%} (95%: {low:.2%} to {high:.2%}), at most "
          f"{MOST_BEYOND_CPU:.0%}; {len(pairs)} pairs, load {os.getloadavg()[0]:.1f}")
    if low > MOST_BEYOND_CPU:
        sys.exit("watching costs more than its own CPU time")
    if high > MOST_BEYOND_CPU:
        sys.exit("not decided: the machine is not quiet enough")


def recording():
    worst = 0.0
    for operation in ("ping", "get", "zadd"):
        for burst in (1, 16):
            done = subprocess.run([BUILD / "test/dataplane/bench_request", operation, "10000", str(burst), "2000000", "recording"],
                                  capture_output=True, text=True, check=True)
            cost = float(done.stdout.split()[3])
            print(f"recording: {cost:5.1f} ns a request, {operation} in bursts of {burst}, at most {RECORDING_MOST_NS}")
            worst = max(worst, cost)
    if worst > RECORDING_MOST_NS:
        sys.exit("recording costs too much")


def main():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        skip("needs two CPUs")
    recording()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Server(f"metrics.port={port}", f"lcores.cpus={cpus[0]}", "lcores.idle=spin") as server:
        watching(server, port, cpus[1])


if __name__ == "__main__":
    main()
