"""test_rank.py - sluice-bench rank: known answers, to the last digit and in every form, and what it refuses.

  test_rank.py               the made-up figures of test/tools/rank, whose answers were computed with decimal fractions
  test_rank.py --published   a published set, where this checkout has it beside it"""

import csv
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "external"))
from server import BUILD  # noqa: E402

MADE_UP = HERE / "rank"
SHARED = ROOT.parent / "shared"
PUBLISHED = SHARED / "data" / "efa-hpc7g-2026-07-27"
FORMS = {"text": "txt", "csv": "csv", "markdown": "md"}
SKIPPED = 77
failures = 0


def expect(what, got, wanted):
    global failures
    if got != wanted:
        failures += 1
        print(f"FAILED {what}\n--- got\n{got}\n--- wanted\n{wanted}")


def rank(*words):
    result = subprocess.run([str(BUILD / "sluice-bench"), "rank", *map(str, words)], capture_output=True, timeout=30)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def check_known_answers():
    for name, options in (("aggregate", []), ("operations", ["--operations"])):
        for form, suffix in FORMS.items():
            wanted = (MADE_UP / f"{name}.{suffix}").read_text()
            code, out, err = rank(*options, "--format", form, MADE_UP / "latency.csv")
            expect(f"{name} as {form}", (code, out), (0, wanted))
            notes = (MADE_UP / f"{name}.txt").read_text().partition("\n\n")[2]
            expect(f"what is said beside {name} as {form}", err.replace("sluice-bench: ", ""), notes if form == "csv" else "")
        expect(f"{name}, text by default, of a folder", rank(*options, MADE_UP)[1], (MADE_UP / f"{name}.txt").read_text())


def latency(scratch, edit):
    """The made-up figures with something changed, alone in a folder. Returns the file."""
    path = pathlib.Path(scratch) / "latency.csv"
    path.write_bytes(edit((MADE_UP / "latency.csv").read_text()).encode(errors="surrogateescape"))
    return path


def columns(text, *indices):
    rows = [[row[i].replace('"', "") for i in indices] for row in csv.reader(text.splitlines())]
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def check_refusals():
    row = "fast,GET,9.0050,10.0050,10.1050,10.2050,10.3050,10.4050,10.5050,12.3451,20.0050,10.5001,95237,1000\n"
    cases = (
        ("no such column", lambda text: text.replace("p99_99_us", "p99_98_us", 1), 1, "no column 'p99_99_us'"),
        ("another operation", lambda text: text.replace("fast,GET", "fast,INCR"), 12,
         "operation is 'INCR', none of the eight"),
        ("a small letter", lambda text: text.replace("fast,GET", "fast,get"), 12, "operation is 'get', none of the eight"),
        ("no label", lambda text: text.replace("fast,GET", ",GET"), 12, "a row without a label"),
        ("a row twice", lambda text: text.replace("cut,PING", row + "cut,PING"), 53,
         "fast GET again: it is on line 12 already"),
        ("no number", lambda text: text.replace(row, row.replace("12.3451", "-12.3451")), 12,
         "p99_99_us is '-12.3451', expected a number"),
        ("not a finite number", lambda text: text.replace(row, row.replace("10.5001", "nan")), 12,
         "mean_us is 'nan', expected a number"),
        ("no sample", lambda text: text.replace(row, row.replace(",1000\n", ",0\n")), 12, "samples is 0"),
        ("half a sample", lambda text: text.replace(row, row.replace(",1000\n", ",0.5\n")), 12,
         "samples is '0.5', expected a whole number"),
        ("no time", lambda text: text.replace(row, row.replace("10.5001", "0.0000")), 12, "mean_us is 0"),
        ("a year", lambda text: text.replace(row, row.replace("20.0050", "31557600000000")), 12,
         "max_us is '31557600000000', more than 1000000000000"),
        ("p50 above p99.99", lambda text: text.replace(row, row.replace("10.0050", "13.0000")), 12,
         "its figures contradict each other: p50 <= p99.99 <= max and mean <= max"),
        ("p99.99 above max", lambda text: text.replace(row, row.replace("12.3451", "20.0051")), 12,
         "its figures contradict each other: p50 <= p99.99 <= max and mean <= max"),
        ("half a row", lambda text: text[:-3], 60, "the line has no end: the file was cut off"),
    )
    with tempfile.TemporaryDirectory(prefix="sluice-rank-") as scratch:
        for what, edit, line, wanted in cases:
            path = latency(scratch, edit)
            expect(what, rank(path), (1, "", f"sluice-bench: {path}:{line}: {wanted}\n"))
        path = pathlib.Path(scratch) / "no.csv"
        expect("no file", rank(path), (1, "", f"sluice-bench: {path}: No such file or directory\n"))
        latency(scratch, lambda text: text)
        beside = pathlib.Path(scratch) / "unavailable.csv"
        beside.write_text("label\nx\n")
        expect("a bad file beside it", rank(scratch), (1, "", f"sluice-bench: {beside}:1: no column 'error'\n"))
    expect("no file named", rank()[0], 2)
    expect("two files named", rank("a", "b")[0], 2)
    expect("another form", rank("--format", "html", MADE_UP)[::2],
           (2, "sluice-bench: --format is 'html', expected text, csv or markdown\n"))
    expect("help", rank("--help")[0], 0)
    full = subprocess.run([str(BUILD / "sluice-bench"), "rank", str(MADE_UP)], stdout=open("/dev/full", "w"),
                          stderr=subprocess.PIPE, timeout=30)
    expect("a full disk", (full.returncode, full.stderr.decode()),
           (1, "sluice-bench: the output cannot be written: No space left on device\n"))


def check_other_files():
    with tempfile.TemporaryDirectory(prefix="sluice-rank-") as scratch:
        wanted = rank("--format", "csv", latency(scratch, lambda text: text))[1]
        expect("CR LF", rank("--format", "csv", latency(scratch, lambda text: text.replace("\n", "\r\n")))[1], wanted)
        reordered = latency(scratch, lambda text: columns(text, 13, 0, 9, 8, 10, 11, 1, 3))
        expect("columns in another order, and only those needed", rank("--format", "csv", reordered)[1],
               wanted.replace('"slow, ""quoted"""', '"slow, quoted"'))
        head = latency(scratch, lambda text: text.partition("\n")[0] + "\n")
        expect("no row", rank(head)[1].splitlines()[2:], ["no label has all eight operations: nothing is ranked"])
        hostile = latency(scratch, lambda text: text.replace("\nfast,", "\nf\x1b[31m\x07\x9b\udcff\u00e9,"))
        expect("only what is seen reaches a terminal", rank(hostile)[1].splitlines()[1].split()[:2], ["1", "f?[31m????\u00e9"])


def check_published():
    if not PUBLISHED.is_dir():
        print(f"{PUBLISHED} is not here")
        return SKIPPED
    path = PUBLISHED / "comparison-latency.csv"
    expect("CSV", rank("--format", "csv", path), (0, (PUBLISHED / "aggregate.csv").read_text(), ""))
    tables = (SHARED / "seed-tables.md").read_text()
    for what, options in (("averages", []), ("operations", ["--operations"])):
        code, out, err = rank("--format", "markdown", *options, path)
        expect(f"the published table of {what} holds what is printed, in that order",
               (code, out.count("\n"), out.partition("\n")[2] in tables, err), (0, 12, True, ""))
        cells = [line.strip("| ").split(" | ") for line in out.splitlines()[2:]]
        text = [line.split("  ") for line in rank(*options, path)[1].splitlines()[1:]]
        expect(f"text of {what} has the same figures", [[cell.strip() for cell in line if cell.strip()] for line in text], cells)
    return 0


def main():
    if sys.argv[1:] == ["--published"]:
        if check_published() == SKIPPED:
            return SKIPPED
    else:
        check_known_answers()
        check_refusals()
        check_other_files()
    print(f"{failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
