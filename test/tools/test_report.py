"""test_report.py - sluice-bench report: a folder of made-up results of every kind becomes one page that is whole, needs
nothing from anywhere, and takes hostile names for text. `test_report.py DIR` leaves that folder there instead."""

import base64
import csv
import html.parser
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "external"))
from server import BUILD  # noqa: E402

OPERATIONS = "PING SET GET HSET HGET ZADD ZSCORE PUBSUB".split()
HOSTILE = "<script>alert('x')</script>&\"`id`|{}@$0\\"
EVIL = "\u202e\x1b]0;x\x07\nplot sin(x)"
STDOUT = "/proc/self/fd/1"
SKIPPED = 77
failures = 0


def expect(what, got, wanted):
    global failures
    if got != wanted:
        failures += 1
        print(f"FAILED {what}\n  got    {str(got)[:2000]!r}\n  wanted {str(wanted)[:2000]!r}")


# ---- made-up results ----

def leb128(number):
    left = (number << 1 ^ number >> 63) & (1 << 64) - 1
    out = bytearray()
    while left >= 0x80 and len(out) < 8:
        out.append(left & 0x7f | 0x80)
        left >>= 7
    return bytes(out) + bytes([left])


def bucket(value):
    power = max(value.bit_length() - 11, 0)
    return power * 1024 + (value >> power)


def histogram_log(values):
    """As HdrHistogram writes it: V2, compressed, 3 digits."""
    counts = {}
    for value in values:
        counts[bucket(value)] = counts.get(bucket(value), 0) + 1
    body, at = b"", 0
    for index in sorted(counts):
        if index > at:
            body += leb128(at - index)
        body += leb128(counts[index])
        at = index + 1
    plain = struct.pack(">IIIIQQd", 0x1c849313, len(body), 0, 3, 1, 3600 * 10**9, 1.0) + body
    packed = zlib.compress(plain)
    text = base64.b64encode(struct.pack(">II", 0x1c849314, len(packed)) + packed).decode()
    return ("#[Histogram log format version 1.3]\n"
            '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
            f"0.000,1.000,{max(values) / 1e6:.3f},{text}\n")


def rows_write(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def latency_make(folder, labels):
    (folder / "hlog").mkdir()
    chance, rows = random.Random(1), []
    for index, label in enumerate(labels):
        for number, operation in enumerate(OPERATIONS):
            middle = (8 + 5 * index + number / 4) * 1000
            values = sorted(int(middle * (1 + chance.random() / 10) + (chance.paretovariate(1.1) * 400)) for _ in range(5000))
            at = [values[max(math.ceil(len(values) * share / 100 - 1e-9), 1) - 1] / 1000
                  for share in (0, 50, 75, 90, 95, 99, 99.9, 99.99, 100)]
            mean = sum(values) / len(values) / 1000
            rows.append([label, operation, *(f"{value:.4f}" for value in at), f"{mean:.4f}", f"{1e6 / mean:.0f}", len(values)])
            if "/" not in label:
                (folder / "hlog" / f"{label}-{operation}.hlog").write_text(histogram_log(values))
    rows_write(folder / "latency.csv", "label,operation,min_us,p50_us,p75_us,p90_us,p95_us,p99_us,p99_9_us,p99_99_us,max_us,"
               "mean_us,qps,samples", rows[:-5])
    rows_write(folder / "unavailable.csv", "label,error",
               [["verbs-sbe-auto", "fi_getinfo: No data available (-61)"], [HOSTILE + "2", HOSTILE]])


def load_make(folder, labels):
    rows_write(folder / "open.csv", "label,test,intended_per_second,achieved_per_second,samples,late,p50_us,p90_us,p99_us,"
               "p99_9_us,p99_99_us,max_us,mean_us",
               [[label, test, rate, rate - rate // 100, rate * 2, rate // 1000, *(f"{base * (1 + index) * 20 / (1.02 - rate / 5e5):.4f}"
                                                                    for base in (1, 1.2, 1.7, 3, 7, 9, 1.1))]
                for index, label in enumerate(labels[:4]) for test in ("get", "set") for rate in range(50000, 500001, 50000)])
    rows_write(folder / "throughput.csv", "label,test,connections,depth,lcores,value_bytes,keys,distribution,"
               "requests_per_second,requests,seconds,misses,errors,p50_us,p99_us,max_us,server_cpu_ns,instructions",
               [[label, test, connections, depth, 1, 32, 1000000, distribution,
                 int(1e6 * (3 - index) * (connections * depth) / (connections * depth + 12) * (1.2 if distribution == "zipf" else 1)),
                 1000000, "1.000", 0, 0, "12.0000", "40.0000", "900.0000", 412, "not here"]
                for index, label in enumerate(labels[:3]) for test in ("get", "set") for distribution in ("uniform", "zipf")
                for connections in (1, 4) for depth in (1, 4, 16, 64)])
    rows_write(folder / "sweep.csv", "label,operation,size_bytes,iterations,time_us,bytes_per_second",
               [[label, operation, 8 << 2 * step, 100, "1.0000", int((8 << 2 * step) / (1e-5 + (8 << 2 * step) / top))]
                for label, top in zip(labels, (2e10, 6e9, 1.1e9)) for operation in ("SET", "GET") for step in range(12)])
    rows_write(folder / "memory.csv", "label,kind,entries,bytes_per_entry",
               [[label, kind, 1000000, f"{(84, 88, 92)[at] * (1 + index / 8):.1f}"] for index, label in enumerate(labels[:3])
                for at, kind in enumerate(("string", "hash field", "sorted-set member"))])
    rows_write(folder / "goals.csv", "row,sense,must,stretch,measured,unit,verdict,detail",
               [["depth 1, shm", "at most", "1.3", "1.1", "1.2", "x", "must", HOSTILE], ["LPUSH", "", "", "", "", "", "later", ""]])


def results_make(folder):
    labels = ["efa-sbe-auto", "tcp-rxm-resp-auto", "kernel-tcp-resp", HOSTILE, EVIL] + [f"label-{at}" for at in range(10)]
    latency_make(folder, labels)
    load_make(folder, labels)
    machine = {"host": "made-up", "kernel": "Linux 6.1", "cpu": {"model": "some CPU", "count": 64}, "numa": [{"node": 0, "cpus": "0-63"}],
               "providers": [{"name": "efa", "version": "2.4"}], HOSTILE: HOSTILE}
    run = {"command": ["sluice-bench", "latency", "--label", HOSTILE, ""], "began": "2026-07-27T10:00:00Z", "load_before": [0.1, 0.2, 0.3],
           "warnings": ["the machine was busy: take the figures with care", HOSTILE], "ended": "2026-07-27T10:05:00Z"}
    (folder / "metadata.json").write_text(json.dumps({"machine": machine, "runs": [run, dict(run, warnings=[])]}))


# ---- what a page must be ----

class Page(html.parser.HTMLParser):
    """Every tag that is opened is closed; what it names, what it shows and what it would load is kept."""
    VOID = {"meta", "br", "rect", "path", "circle", "use"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.named, self.loads, self.handlers, self.texts = [], [], [], [], [], [], []
        self.tables = []
        self.feed(text)
        self.close()
        expect("every tag is closed", self.open, [])

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append(attributes.get("class", ""))
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.named += attributes.get("aria-labelledby", "").split()
        self.named += [value[1:] for name, value in attributes.items() if name in ("href", "xlink:href") and value[0] == "#"]
        self.loads += [value for name, value in attributes.items()
                       if name in ("src", "href", "xlink:href", "data", "action", "style") and value[0] != "#"]
        self.handlers += [name for name in attributes if name.startswith("on")]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            expect(f"</{tag}> closes what is open", self.open[-1:], [tag])
            self.open.pop()

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))


def report(folder, *words, env=None, timeout_s=60):
    result = subprocess.run([str(BUILD / "sluice-bench"), "report", *words, str(folder)], capture_output=True, timeout=timeout_s,
                            env={**os.environ, **(env or {})})
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def page_check(text):
    page = Page(text)
    expect("no script, and nothing that embeds", {"script", "iframe", "object", "embed", "img", "link", "base", "form"} & set(page.tags), set())
    expect("nothing is loaded", (page.loads, page.handlers, re.findall(r"url\(|@import|https?:", text)), ([], [], []))
    expect("each name once", sorted(set(page.ids)), sorted(page.ids))
    expect("what is referred to exists", [name for name in page.named if name not in page.ids], [])
    expect("no control character", re.findall(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]|[\u202a-\u202e]", text), [])
    count = {tag: page.tags.count(tag) for tag in ("svg", "figure", "figcaption", "desc", "caption")}
    expect("each plot is a figure with a caption, a title and a description", set(list(count.values())[:4]), {count["svg"]})
    expect("each table of figures has a caption", count["caption"], page.tables.count(""))
    return page


def check_page(folder):
    code, out, err = report(folder)
    expect("written", (code, out, err), (0, f"{folder}/report.html\n", ""))
    text = (folder / "report.html").read_bytes().decode()
    page = page_check(text)
    # 14 labels have logs: 12 and 2 of each operation; two tests of open and throughput, two operations of sweep; memory
    expect("plots", page.tags.count("svg"), 8 * 2 + 2 + 2 + 2 + 1)
    shown = [data for tag, data in page.texts]
    for label in ("efa-sbe-auto", HOSTILE, "????]0;x? plot sin(x)"):
        expect(f"{label} is in tables as it is", label in [data for tag, data in page.texts if tag == "th"], True)
        expect(f"{label} is in keys of plots", [label in data for tag, data in page.texts if tag == "text" and label in data][:1], [True])
    for part in ("14", "79181", "verbs-sbe-auto is unavailable: fi_getinfo: No data available (-61)", "some CPU",
                 "label-9 has no rank: 3 of 8 operations were measured, not HSET HGET ZADD ZSCORE PUBSUB", "412", "not here", "LPUSH"):
        expect(f"{part} is shown", part in shown, True)
    expect("warnings come first", text.index("take the figures with care") < text.index('id="ranks"'), True)
    expect("the command can be pasted", "sluice-bench latency --label '" + HOSTILE.replace("'", "'\\''") + "' ''" in "".join(shown), True)
    expect("the closed loop says what it does not show", "What clients with a schedule of their own would see" in text, True)
    expect("nothing else is left in the folder", sorted(path.name for path in folder.iterdir() if path.name.startswith("report")),
           ["report.html"])
    speed_up = 2e10 / 1.1e9 * (1.1e9 * 1e-5 + (8 << 22)) / (2e10 * 1e-5 + (8 << 22))
    expect("speed-ups", f"{speed_up:.2f}" in shown, True)


def check_absent(folder):
    makes = {"latency.csv": "latency -p PORT", "open.csv": "open -p PORT", "throughput.csv": "throughput -p PORT",
             "sweep.csv": "sweep -p PORT", "memory.csv": "goals", "goals.csv": "goals", "metadata.json": "latency -p PORT", "hlog": "latency -p PORT"}
    for name, command in makes.items():
        with tempfile.TemporaryDirectory(prefix="sluice-report-") as scratch:
            part = pathlib.Path(scratch) / "part"
            shutil.copytree(folder, part)
            shutil.rmtree(part / name) if name == "hlog" else (part / name).unlink()
            if name != "hlog":
                shutil.rmtree(part / "hlog") # fewer plots: faster
            code, out, err = report(part)
            text = (part / "report.html").read_text()
            page_check(text)
            said = re.findall(r"there is no ([^ ]+?)(?: in hlog/)?\. This makes it: <code>sluice-bench ([^<]*)</code>", text)
            expect(f"without {name}", (code, err, any(command in how for what, how in said)), (0, "", True))
            expect(f"only that is said without {name}", {what for what, how in said} - {name, "log"}, set())


def check_bad_files(folder):
    cases = (("latency.csv", "label,operation\nx,GET\n", ":1: no column 'p50_us'"),
             ("open.csv", "label,test,intended_per_second,p50_us,p99_9_us\nx,get,1,2,three\n", ":2: p99_9_us is 'three', expected a number"),
             ("throughput.csv", "label\n\"<b>\n", ":2: a quoted cell begins here and does not end"),
             ("sweep.csv", "label,operation,size_bytes,bytes_per_second\nx,GET,8.5,1\n", ":2: size_bytes is '8.5', expected a whole number"),
             ("memory.csv", "label,kind,entries,bytes_per_entry\nx,string,1\n", ":2: 3 cells, the header has 4"),
             ("goals.csv", "row,row\n", ":1: two columns are called 'row'"),
             ("metadata.json", "{\"runs\": [\n<b>", ":2: invalid token near '<'"))
    with tempfile.TemporaryDirectory(prefix="sluice-report-") as scratch:
        for name, content, why in cases:
            (pathlib.Path(scratch) / name).write_text(content)
        code, out, err = report(scratch)
        text = (pathlib.Path(scratch) / "report.html").read_text()
        page_check(text)
        expect("files that cannot be read: the exit code", code, 1)
        shown = html.unescape(text)
        for name, content, why in cases:
            expect(f"a bad {name} is said", (f"sluice-bench: {scratch}/{name}{why}\n" in err, f"{scratch}/{name}{why}<" in shown), (True, True))
    with tempfile.TemporaryDirectory(prefix="sluice-report-") as scratch:
        shutil.copy(folder / "latency.csv", scratch)
        (pathlib.Path(scratch) / "hlog").mkdir()
        good = (folder / "hlog" / "efa-sbe-auto-GET.hlog").read_text()
        bad = {"PING": "", "SET": "nonsense\n", "GET": good.replace("AAA", "A!A"), "HSET": good[:-40] + "\n",
               "HGET": "0,1,1," + base64.b64encode(b"\x1c\x84\x93\x14\x00\x00\x00\x04abcd").decode() + "\n"}
        for operation, content in bad.items():
            (pathlib.Path(scratch) / "hlog" / f"efa-sbe-auto-{operation}.hlog").write_text(content)
        code, out, err = report(scratch)
        expect("damaged logs", (code, err.count("\n"), [operation in err for operation in bad]), (1, 5, [True] * 5))


def gnuplot_fake(scratch, script):
    path = pathlib.Path(scratch) / "bin"
    path.mkdir(exist_ok=True)
    (path / "gnuplot").write_text(f"#!/bin/sh\n{script}\n")
    (path / "gnuplot").chmod(0o755)
    return {"PATH": f"{path}:/usr/bin:/bin"}


def check_gnuplot_failures(folder):
    with tempfile.TemporaryDirectory(prefix="sluice-report-") as scratch:
        part = pathlib.Path(scratch) / "part"
        part.mkdir()
        shutil.copy(folder / "memory.csv", part)
        (part / "report.html").write_text("an earlier page")
        for what, env, wanted in (
                ("no gnuplot", {"PATH": "/nonexistent"}, "sluice-bench: report: gnuplot: No such file or directory: plots need it: apt-get install gnuplot-nox\n"),
                ("a failing one", gnuplot_fake(scratch, "echo 'line 1: no such terminal' >&2; exit 1"),
                 "sluice-bench: report: gnuplot failed (exit code 1): line 1: no such terminal \n")):
            expect(what, report(part, env=env), (1, "", wanted))
        expect("one that draws nothing", report(part, env=gnuplot_fake(scratch, "cat"))[::2], (1, "sluice-bench: report: gnuplot wrote no SVG\n"))
        expect("one that draws otherwise", report(part, env=gnuplot_fake(scratch, "echo '<svg><defs></defs></svg>'"))[::2],
               (1, "sluice-bench: report: gnuplot wrote no SVG\n"))
        expect("one that is silent", report(part, env=gnuplot_fake(scratch, ":"))[::2], (1, "sluice-bench: report: gnuplot wrote 0 bytes\n"))
        process = subprocess.Popen([str(BUILD / "sluice-bench"), "report", str(part)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, **gnuplot_fake(scratch, f"echo $$ >{scratch}/pid; exec sleep 60")})
        deadline = time.monotonic() + 20
        while not (pathlib.Path(scratch) / "pid").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        expect("Ctrl-C", (process.returncode, err), (1, b"sluice-bench: report: interrupted\n"))
        expect("Ctrl-C ends gnuplot", pathlib.Path(f"/proc/{(pathlib.Path(scratch) / 'pid').read_text().strip()}").exists(), False)
        expect("the earlier page stays", ((part / "report.html").read_text(), sorted(os.listdir(part))),
               ("an earlier page", ["memory.csv", "report.html"]))


def check_usage(folder):
    with tempfile.TemporaryDirectory(prefix="sluice-report-") as scratch:
        expect("an empty folder", report(scratch)[::2],
               (1, f"sluice-bench: {scratch}: no results: latency, open, throughput, sweep, goals and matrix leave some with --out\n"))
        (pathlib.Path(scratch) / "memory.csv").write_text("label,kind,entries,bytes_per_entry\n")
        with open("/dev/full", "w") as full:
            result = subprocess.run([str(BUILD / "sluice-bench"), "report", "-o", STDOUT, scratch], stdout=full, stderr=subprocess.PIPE, timeout=60)
        expect("a full disk", (result.returncode, result.stderr.decode()), (1, f"sluice-bench: {STDOUT}: No space left on device\n"))
        expect("no such folder for the page", report(scratch, "-o", f"{scratch}/no/x.html")[::2],
               (1, f"sluice-bench: {scratch}/no/x.html: No such file or directory\n"))
        code, out, err = report(scratch, "-o", STDOUT)
        expect("to a pipe", (code, err), (0, f"{STDOUT}\n"))
        page_check(out)
        expect("another place", (report(scratch, "-o", f"{scratch}/x.html")[0], sorted(os.listdir(scratch))), (0, ["memory.csv", "x.html"]))
    expect("no folder named", report("--help")[0], 0)
    expect("an unknown option", report(folder, "--nonsense")[0], 2)
    expect("two folders", report(folder, "another")[0], 2)


def main():
    if shutil.which("gnuplot") is None:
        print("gnuplot is not here: apt-get install gnuplot-nox")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="sluice-report-") as scratch:
        folder = pathlib.Path(scratch) / "results"
        folder.mkdir()
        results_make(folder)
        check_page(folder)
        check_absent(folder)
        check_bad_files(folder)
        check_gnuplot_failures(folder)
        check_usage(folder)
    print(f"{failures} failures")
    return failures != 0


if __name__ == "__main__":
    if len(sys.argv) == 2:
        os.makedirs(sys.argv[1])
        results_make(pathlib.Path(sys.argv[1]))
    else:
        sys.exit(main())
