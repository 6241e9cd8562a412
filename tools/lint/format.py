"""C sources are laid out as .clang-format says; --write lays them out."""

import subprocess
import sys

import tree


def check(root, write=False):
    sources = tree.files(root, ".c", ".h")
    if not sources:
        return [], 0
    mode = ["-i"] if write else ["--dry-run", "-Werror"]
    result = subprocess.run(["clang-format", "--style=file", *mode, *map(str, sources)], cwd=root, capture_output=True,
                            text=True)
    findings = [line for line in result.stderr.splitlines() if ": error: " in line]
    if result.returncode != 0 and not findings:
        findings = [result.stderr.strip() or f"clang-format: exit code {result.returncode}"]
    return findings, len(sources)


if __name__ == "__main__":
    options = tree.arguments(__doc__, write="change the files")
    sys.exit(tree.report(*check(options.root, options.write)))
