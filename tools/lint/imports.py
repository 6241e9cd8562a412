"""Hot objects import nothing that allocates, locks, prints or enters the kernel: what codec, store and dataplane (all but
*_boot.c) leave undefined must come from another hot object or stand in imports.allow with its reason."""

import fnmatch
import pathlib
import re
import subprocess

import tree

HOT = ("codec", "store", "dataplane")
COLD = ("config", "mgmt")
ALLOW = "tools/lint/imports.allow"
# Made by the compiler and the linker, not by the source.
LINKAGE = re.compile(r"_GLOBAL_OFFSET_TABLE_|__tls_get_addr|__stack_chk_fail|__popcount[ds]i2|__u?(div|mod)ti3|__aarch64_(cas|swp|ldadd|ldclr|ldeor|ldset)\d.*")


def objects(root):
    """(source, object file) for every object of the release build that belongs to one of the folders above."""
    found = []
    for folder in HOT + COLD:
        for path in sorted((root / "build" / folder).rglob("*.o")):
            name = path.name.removesuffix(".o")
            if name.startswith("meson-generated_"):
                name = name.removeprefix("meson-generated_").lstrip("._")
            found.append((f"{folder}/{name}", path))
    return found


def symbols(path):
    """(defined, undefined); weak undefined ones count."""
    text = subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout
    defined, undefined = set(), set()
    for line in text.splitlines():
        kind, name = line.split()[-2:]
        if kind in "Uw":
            undefined.add(name.split("@")[0])
        elif kind.isupper() or kind == "v":
            defined.add(name)
    return defined, undefined


def allow_read(root):
    rows, findings = [], []
    for number, line in enumerate((root / ALLOW).read_text().splitlines(), 1):
        entry, _, reason = line.partition("#")
        if not entry.strip():
            continue
        source, *names = entry.split()
        if not names or not reason.strip():
            findings.append(f"{ALLOW}:{number}: expected source, symbols and # reason")
        rows.extend((number, source, name) for name in names)
    return rows, findings


def is_hot(source):
    return source.split("/")[0] in HOT and not pathlib.PurePosixPath(source).stem.endswith("_boot")


def check(root):
    read = [(source, path, *symbols(path)) for source, path in objects(root)]
    hot = set().union(*(defined for source, _, defined, _ in read if is_hot(source)))
    rows, findings = allow_read(root)
    used = set()
    looked_at = [row for row in read if is_hot(row[0])]
    for source, path, _, undefined in looked_at:
        for name in sorted(undefined - hot):
            if LINKAGE.fullmatch(name):
                continue
            matching = [row for row in rows if row[2] == name and fnmatch.fnmatchcase(source, row[1])]
            used.update(matching)
            if not matching:
                findings.append(f"{source}: imports {name} ({path.relative_to(root)})")
    present = {source for source, *_ in read}
    for row in rows:
        # assert() is compiled out of a release build, and a source may not be built everywhere.
        if row not in used and row[1] in present:
            findings.append(f"{ALLOW}:{row[0]}: {row[1]} does not import {row[2]}")
    return sorted(set(findings)), len(looked_at)


if __name__ == "__main__":
    tree.run(check, __doc__)
