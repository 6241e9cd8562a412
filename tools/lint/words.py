"""What is tracked is finished source: no generated file, no file too long to read in one sitting, no note of unfinished
work, no debris of an editor or a merge."""

import re

import tree

GENERATED = re.compile(r".*\.(o|a|so|d|gcno|gcda|log|out|orig|rej|core|pyc|swp|rpm|deb|tmp)|.*~|(.*/)?(core|a\.out|compile_commands\.json)")
LINES_MOST = 700
# Spelled apart, or this file would find itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|not (yet )?imple" r"mented|^(<{7}|>{7}|={7})( |$)")
CODE = {".c", ".h", ".py", ".sh", ".build", ".xml", ".pml", ".conf", ""}


def check(root):
    paths = tree.files(root)
    findings = []
    for path in paths:
        if GENERATED.fullmatch(str(path)) or path.parts[0].startswith("build"):
            findings.append(f"{path}: looks generated")
            continue
        if path.suffix not in CODE or path.name == "LICENSE":
            continue
        try:
            lines = (root / path).read_text().splitlines()
        except UnicodeDecodeError:
            if not path.is_relative_to("test"):
                findings.append(f"{path}: not text")
            continue
        if path.suffix in (".c", ".h") and len(lines) > LINES_MOST:
            findings.append(f"{path}: {len(lines)} lines, more than {LINES_MOST}")
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                findings.append(f"{path}:{number}: {line.strip()}")
            if line != line.rstrip() and path.suffix in (".c", ".h", ".py"):
                findings.append(f"{path}:{number}: ends in blanks")
    return findings, len(paths)


if __name__ == "__main__":
    tree.run(check, __doc__)
