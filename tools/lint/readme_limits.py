"""The tables of README.md say what the headers say: limits, settings, commands. --write brings README.md up to date.

Each table stands between `<!-- NAME: ... -->` and `<!-- end NAME -->`. The compiler expands it, so that no second parser
can read a header differently."""

import pathlib
import re
import subprocess
import sys
import tempfile

import tree

README = "README.md"
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

PROGRAMS = {
    "limits": ("config/limits.h", r"""
#define ROW(name, value, unit, why) printf("%s\t%llu\t%s\t%s\n", #name, (unsigned long long)(value), unit, why);
LIMIT_TABLE(ROW)
"""),
    "settings": ("config/settings_table.h", r"""
#define ROW(field, name, kind, value, min, max, when, help) printf("%s\t%s\t%s\t%s\n", name, value, #when, help);
SETTINGS_TABLE(ROW)
"""),
    "commands": ("codec/command_table.h", r"""
#define ROW(id, name, template_id, min, max, flags, first, last, step, handler, group, summary) \
    printf("%s\t%s\t%d\t%d\t%d\t%s\n", group, name, template_id, (int)(min), (int)(max), summary);
COMMAND_TABLE(ROW)
"""),
}


def rows_expand(root, name):
    header, body = PROGRAMS[name]
    source = f'#include "{header}"\n#include <stdio.h>\nint main(void)\n{{{body}return 0;\n}}\n'
    with tempfile.TemporaryDirectory(prefix="sluice-lint-") as scratch:
        program = pathlib.Path(scratch) / "table"
        subprocess.run(["gcc", "-std=gnu11", "-I.", "-w", "-x", "c", "-", "-o", str(program)], input=source, cwd=root,
                       check=True, text=True)
        text = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return [line.replace("|", "\\|").split("\t") for line in text.splitlines()]


def value_text(value, unit):
    if unit == "bytes":
        for bytes_each, name in UNITS:
            if value >= bytes_each and value % bytes_each == 0:
                return f"{value // bytes_each} {name}"
    return f"{value} {unit}"


def limits_table(root):
    lines = ["| limit | value | what it bounds, and why this value |", "|---|---|---|"]
    for name, value, unit, why in rows_expand(root, "limits"):
        lines.append(f"| {name.removeprefix('LIMIT_').lower().replace('_', ' ')} | {value_text(int(value), unit)} | {why} |")
    return lines


def settings_table(root):
    lines = ["| setting | default | changes | meaning |", "|---|---|---|---|"]
    for name, value, when, text in rows_expand(root, "settings"):
        changes = {"LIVE": "live", "BOOT": "at boot"}[when]
        lines.append(f"| {name} | {f'`{value}`' if value else 'empty'} | {changes} | {text} |")
    return lines


def arguments_text(least, most, unlimited):
    if least == most:
        return str(least)
    return f"{least}+" if most == unlimited else f"{least}-{most}"


def commands_table(root):
    unlimited = next(int(value) for name, value, *_ in rows_expand(root, "limits") if name == "LIMIT_REQUEST_ARGS")
    lines = ["| group | command | arguments | SBE | what it does |", "|---|---|---|---|---|"]
    for group, name, template, least, most, summary in sorted(rows_expand(root, "commands"), key=lambda row: row[0]):
        arguments = arguments_text(int(least), int(most), unlimited)
        lines.append(f"| {group} | {name.upper()} | {arguments} | {template if template != '0' else 'generic'} | {summary} |")
    return lines


TABLES = {"limits": limits_table, "settings": settings_table, "commands": commands_table}


def check(root, write=False):
    path = root / README
    text = path.read_text()
    findings = []
    for name, table in TABLES.items():
        section = re.compile(rf"(<!-- {name}:[^\n]*-->\n)(.*?)(<!-- end {name} -->)", re.DOTALL)
        match = section.search(text)
        if not match:
            findings.append(f"{README}: no table '{name}'")
            continue
        wanted = "".join(f"{line}\n" for line in table(root))
        if match.group(2) != wanted and not write:
            missing = [line for line in wanted.splitlines() if line not in match.group(2).splitlines()][:10]
            extra = [line for line in match.group(2).splitlines() if line not in wanted.splitlines()][:10]
            findings.append(f"{README}: table '{name}' has drifted; tools/lint/readme_limits.py --write mends it")
            findings.extend(f"  missing: {line}" for line in missing)
            findings.extend(f"  not so:  {line}" for line in extra)
        text = text[:match.start(2)] + wanted + text[match.end(2):]
    if write:
        path.write_text(text)
    return findings, len(TABLES)


if __name__ == "__main__":
    options = tree.arguments(__doc__, write="bring README.md up to date")
    sys.exit(tree.report(*check(options.root, options.write)))
