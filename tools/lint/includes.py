"""Includes point one way: config <- codec, store <- dataplane <- mgmt; tools use codec, config's headers and mgmt's
socket header. Every project include names its folder, so that this can be read off the line."""

import re

import tree

FOLDERS = {
    "config": {"config"},
    "codec": {"config", "codec"},
    "store": {"config", "store"},
    "dataplane": {"config", "codec", "store", "dataplane"},
    "mgmt": {"config", "codec", "store", "dataplane", "mgmt"},
    "tools": {"config", "codec", "tools"},
}
HEADERS = {
    "tools": {"mgmt/ctl_wire.h"},
    # Both ends of a fabric stream share one libfabric module.
    "tools/client": {"dataplane/endpoint.h"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed(path, target):
    top = path.parts[0]
    if target.split("/")[0] in FOLDERS[top]:
        return True
    return any(target in headers and path.is_relative_to(folder) for folder, headers in HEADERS.items())


def check(root):
    sources = [path for path in tree.files(root, ".c", ".h") if path.parts[0] in FOLDERS]
    findings = []
    for path in sources:
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            where = f"{path}:{number}"
            if quote == "<":
                if target.split("/")[0] in FOLDERS or target.startswith("test/"):
                    findings.append(f'{where}: <{target}>: the project\'s own headers take quotes')
            elif "/" not in target or ".." in target:
                findings.append(f'{where}: "{target}": name the folder, as in "config/base.h"')
            elif not allowed(path, target):
                findings.append(f'{where}: "{target}": {path.parts[0]}/ may not include it')
    return findings, len(sources)


if __name__ == "__main__":
    tree.run(check, __doc__)
