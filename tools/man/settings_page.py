"""settings_page.py TEMPLATE OUTPUT - the manual page of the settings: the template, with the tables of
config/settings_table.h in the places of @SETTINGS@, @PORTS@ and @USERS@. The compiler expands them, so that no second
parser can read the header differently. CC names another compiler."""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

PROGRAM = r"""
#include "config/settings_table.h"
#include <stdio.h>
#define SETTING(field, name, kind, value, min, max, when, help) \
    printf("settings\t%s\t%s\t%s\t%llu\t%llu\t%s\t%s\n", name, #kind, value, (unsigned long long)(min), (unsigned long long)(max), #when, help);
#define ENTRY(list, name, kind, value, min, max, help) \
    printf("%s\t%s\t%s\t%s\t%llu\t%llu\tBOOT\t%s\n", list, name, #kind, value, (unsigned long long)(min), (unsigned long long)(max), help);
#define PORT(field, ...) ENTRY("ports", __VA_ARGS__)
#define USER(field, ...) ENTRY("users", __VA_ARGS__)
#define WORDS(list, field, ...) do { const char *words[] = { __VA_ARGS__ }; printf("words\t%s\t%s", list, #field); \
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) printf("\t%s", words[i]); puts(""); } while (0);
#define SETTING_WORDS(field, ...) WORDS("settings", field, __VA_ARGS__)
#define PORT_WORDS(field, ...) WORDS("ports", field, __VA_ARGS__)
#define FIELD(field, name, ...) printf("field\tsettings\t%s\t%s\n", name, #field);
#define PORT_FIELD(field, name, ...) printf("field\tports\t%s\t%s\n", name, #field);
int main(void)
{
    SETTINGS_TABLE(SETTING) PORT_SETTINGS_TABLE(PORT) USER_SETTINGS_TABLE(USER)
    SETTING_CHOICES(SETTING_WORDS) PORT_SETTING_CHOICES(PORT_WORDS)
    SETTINGS_TABLE(FIELD) PORT_SETTINGS_TABLE(PORT_FIELD)
    return 0;
}
"""

SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIMES = ((86400000, "d"), (3600000, "h"), (60000, "m"), (1000, "s"), (1, "ms"))


def rows_expand():
    with tempfile.TemporaryDirectory(prefix="sluice-man-") as scratch:
        program = pathlib.Path(scratch) / "tables"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run([*compiler, "-std=gnu11", f"-I{ROOT}", "-w", "-x", "c", "-", "-o", str(program)], input=PROGRAM,
                       check=True, text=True)
        text = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return [line.split("\t") for line in text.splitlines()]


def escape(text):
    """scdoc takes these for markup."""
    for sign in "\\_*`<>#[]|":
        text = text.replace(sign, "\\" + sign)
    return text


def measure(value, units):
    for each, name in units:
        if value >= each and value % each == 0:
            return f"{value // each}{name}"
    return f"{value}{units[-1][1] if units is TIMES else 'B'}" if value else ("0s" if units is TIMES else "0B")


def expectation(kind, least, most, words):
    if kind == "SIZE":
        return f"a size from {measure(least, SIZES)} to {measure(most, SIZES)}"
    if kind == "TIME":
        return f"a time from {measure(least, TIMES)} to {measure(most, TIMES)}"
    if kind == "COUNT":
        return f"a whole number from {least} to {most}"
    if kind == "BOOL":
        return "true or false"
    if kind == "CHOICE":
        return " or ".join(f'"{word}"' for word in words)
    return f"text of {least} to {most} bytes" if most else "text"


def page_list(rows, which):
    fields = {(row[1], row[2]): row[3] for row in rows if row[0] == "field"}
    words = {(row[1], row[2]): row[3:] for row in rows if row[0] == "words"}
    lines = []
    for row in rows:
        if row[0] != which:
            continue
        _, name, kind, value, least, most, when, text = row
        expected = expectation(kind, int(least), int(most), words.get((which, fields.get((which, name))), ()))
        given = f"default {value}" if value else "must be given" if which != "settings" else "default empty"
        lines += [f"*{escape(name)}*", f"\t{escape(text[0].upper() + text[1:])}.",
                  f"\t{escape(expected[0].upper() + expected[1:])}; {escape(given)}"
                  f"{'; changes while the appliance runs' if when == 'LIVE' else ''}.", ""]
    return "\n".join(lines).rstrip()


def main(template, output):
    rows = rows_expand()
    text = pathlib.Path(template).read_text()
    for which in ("settings", "ports", "users"):
        mark = f"@{which.upper()}@"
        if mark not in text:
            sys.exit(f"{template}: no {mark}")
        text = text.replace(mark, page_list(rows, which))
    pathlib.Path(output).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
