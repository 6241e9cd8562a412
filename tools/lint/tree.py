"""tree.py - what every lint needs: the files of the project and one way to report."""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def files(root, *suffixes):
    """Tracked files and new ones that git does not ignore, relative to root, sorted; all suffixes when none is given."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True).stdout.decode().split("\0")
    paths = sorted({pathlib.PurePosixPath(name) for name in listed if name})
    return [path for path in paths if (root / path).is_file() and (not suffixes or path.suffix in suffixes)]


def arguments(description, **flags):
    """--root, and a switch for each flag given with its help."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the tree to look at")
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    options = parser.parse_args()
    options.root = options.root.resolve()
    return options


def report(findings, looked_at):
    """Exit status. A lint that looked at nothing has proved nothing."""
    for finding in findings:
        print(finding)
    if not looked_at:
        print("nothing to look at: wrong --root, or not built?")
    elif not findings:
        print(f"{looked_at} looked at, nothing found")
    return 1 if findings or not looked_at else 0


def run(check, description):
    """main() of a lint without switches: check(root) returns (findings, number of things looked at)."""
    options = arguments(description)
    sys.exit(report(*check(options.root)))
