"""ethernet_bench.py - an ethernet port beside the kernel's TCP: same server, same kind of veth, offloads off on both, in turns. Depth 1
(p50 of one request after the other) and 64 in flight on one connection. Prints medians and ratios.

    ethernet_bench.py [--rounds N] [--samples N]"""

import argparse
import contextlib
import csv
import io
import statistics
import subprocess
import sys
import time

import netns
import server

PLACES = (("port", netns.THERE), ("kernel", netns.KERNEL_THERE))


def bench(*words):
    done = subprocess.run([str(server.BUILD / "sluice-bench"), *map(str, words)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise server.ServerError(f"sluice-bench {words}: {done.stderr}")
    return list(csv.reader(io.StringIO(done.stdout)))


def depth_1_us(host, samples):
    rows = bench("latency", "-h", host, "-p", netns.PORT, "--only", "GET", "--samples", samples, "--warmup", 2000, "--cpu", 1, "--csv")
    named = dict(zip(rows[0], rows[1]))
    return float(named["p50_us"]), float(named["p99_us"])


def depth_64_per_second(host, seconds):
    rows = bench("throughput", "-h", host, "-p", netns.PORT, "-c", 1, "-P", 64, "-t", "get", "-r", 10000, "--load", "--seconds", seconds,
                 "--cpu", 1, "--csv")
    return next(float(cell) for cell in rows[-1][1:] if cell.replace(".", "").isdigit())


def row(name, values, unit, larger_is_better):
    port, kernel = (statistics.median(values[place]) for place, _ in PLACES)
    ratio = port / kernel
    print(f"{name:<24}{port:>12.1f}{kernel:>12.1f} {unit:<5} {ratio:>6.2f}x  {'more' if larger_is_better else 'less'} is better", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--seconds", type=int, default=1)
    options = parser.parse_args()
    netns.skip_unless_possible()
    p50, p99, rate = ({place: [] for place, _ in PLACES} for _ in range(3))
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(netns.Wire())
        begun = time.monotonic()
        stack.enter_context(netns.EthernetServer(wire, "lcores.cpus=0", "lcores.idle=spin"))
        print(f"exec to ready: {time.monotonic() - begun:.2f} s", flush=True)
        for _ in range(options.rounds):
            for place, host in PLACES:
                middle, tail = depth_1_us(host, options.samples)
                p50[place].append(middle)
                p99[place].append(tail)
                rate[place].append(depth_64_per_second(host, options.seconds))
    print(f"{'':<24}{'port':>12}{'kernel':>12}       port/kernel, medians of {options.rounds} turns")
    row("depth 1, GET, p50", p50, "us", False)
    row("depth 1, GET, p99", p99, "us", False)
    row("64 in flight, GET", {place: [value / 1000 for value in values] for place, values in rate.items()}, "k/s", True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
