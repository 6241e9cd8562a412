"""Every header compiles alone, with gcc and with clang: whoever includes one need not know what it needs."""

import concurrent.futures
import os
import subprocess

import tree

COMPILERS = ("gcc", "clang")
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror",
         "-Wno-unused-parameter", "-x", "c"]
GENERATED = ("build", "build/codec")  # where meson puts headers made from the SBE schema
PIECES = {"dataplane/lwip/lwippools.h"}  # lwIP expands it in its own middle
LWIP = ["-isystem", "build/lwip/source/src/include", "-Idataplane/lwip"]


def dpdk_flags():
    found = subprocess.run(["pkg-config", "--cflags", "libdpdk"], capture_output=True, text=True)
    return [flag.replace("-I", "-isystem", 1) if flag.startswith("-I") else flag for flag in found.stdout.split()]


def flags_of(path):
    """What only the headers below the ethernet port's module need; not built where DPDK or lwIP's source is not there."""
    name = path.name
    return dpdk_flags() if name == "ethernet_dpdk_private.h" else LWIP if name == "ethernet_stack_private.h" else []


def is_buildable(root, path):
    if path.as_posix() in PIECES:
        return False
    if path.name == "ethernet_dpdk_private.h":
        return bool(dpdk_flags())
    return path.name != "ethernet_stack_private.h" or (root / LWIP[1]).is_dir()


def compile_alone(root, compiler, path):
    includes = ["-I."] + [f"-I{dir}" for dir in GENERATED if (root / dir).is_dir()]
    # Included twice: a missing #pragma once is an error, too.
    text = f'#include "{path}"\n#include "{path}"\n'
    result = subprocess.run([compiler, *FLAGS, *includes, *flags_of(path), "-"], input=text, cwd=root, capture_output=True, text=True)
    return None if result.returncode == 0 else f"{path}: does not compile alone with {compiler}\n{result.stderr.rstrip()}"


def check(root):
    headers = [path for path in tree.files(root, ".h") if is_buildable(root, path)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(compile_alone, root, compiler, path) for path in headers for compiler in COMPILERS]
        findings = [found for job in jobs if (found := job.result())]
    return findings, len(headers)


if __name__ == "__main__":
    tree.run(check, __doc__)
