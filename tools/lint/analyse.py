"""cppcheck finds nothing: errors, warnings, performance, portability. Exceptions stand in analyse.suppress, each with its
reason, and nowhere in the sources."""

import os
import pathlib
import subprocess
import tempfile

import tree

SUPPRESS = pathlib.Path(__file__).with_suffix(".suppress")
FOLDERS = ("config", "codec", "store", "dataplane", "mgmt", "tools")


def check(root):
    sources = [path for path in tree.files(root, ".c") if path.parts[0] in FOLDERS]
    if not sources:
        return [], 0
    with tempfile.TemporaryDirectory(prefix="sluice-lint-") as scratch:
        listed = pathlib.Path(scratch) / "files"
        listed.write_text("".join(f"{path}\n" for path in sources))
        result = subprocess.run(
            ["cppcheck", f"-j{os.cpu_count()}", "--enable=warning,performance,portability", "--std=c11", "--quiet",
             "-D_GNU_SOURCE", "-D__x86_64__", "-D__linux__", "-DNDEBUG", "-I.", f"--suppressions-list={SUPPRESS}",
             "--error-exitcode=1", "--template={file}:{line}: {severity}: {message} [{id}]",
             f"--file-list={listed}"], cwd=root, capture_output=True, text=True)
    findings = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
    if result.returncode != 0 and not findings:
        findings = [f"cppcheck: exit code {result.returncode}"]
    return findings, len(sources)


if __name__ == "__main__":
    tree.run(check, __doc__)
