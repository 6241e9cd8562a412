"""check.py - the samples of config/deploy and what their pages say, held to the programs: samples.py and commands.py.

    check.py [--root TREE] [--cfn-lint]

Nothing is started beyond `--help`, `--check` and `--list`. What is not valid, or says what the programs do not, is a line of
`file:line: cause`, and the exit code 1."""

import argparse
import pathlib
import sys

import commands
import samples


def check(root):
    return samples.check(root) + commands.check(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=commands.SOURCE, help="the tree to look at")
    parser.add_argument("--cfn-lint", action="store_true", help="its opinion too, where it is installed")
    options = parser.parse_args()
    root = options.root.resolve()
    if not (root / "config/deploy").is_dir():
        parser.error(f"{root} has no config/deploy")
    missing = [name for name in commands.PROGRAMS if not commands.program_path(name).exists()]
    if missing:
        print(f"not built: {', '.join(missing)}")
        return 1
    findings = check(root)
    lint = samples.cfn_lint(root) if options.cfn_lint else []
    for finding in findings + (lint or []):
        print(finding)
    if lint is None:
        print("cfn-lint is not installed here: its opinion was left out")
    files = len(commands.places(root))
    print(f"{files} files looked at, {len(findings) + len(lint or [])} findings")
    return 1 if findings or lint or files < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
