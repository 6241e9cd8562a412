"""Shell scripts pass shellcheck."""

import re
import subprocess

import tree

SHELL = re.compile(rb"#!.*\b(ba|da)?sh\b|# shellcheck shell=")


def check(root):
    scripts = []
    for path in tree.files(root):
        with open(root / path, "rb") as file:
            if SHELL.match(file.readline(200)):
                scripts.append(str(path))
    if not scripts:
        return [], 0
    result = subprocess.run(["shellcheck", "-x", "-f", "gcc", *scripts], cwd=root, capture_output=True, text=True)
    return (result.stdout + result.stderr).splitlines(), len(scripts)


if __name__ == "__main__":
    tree.run(check, __doc__)
