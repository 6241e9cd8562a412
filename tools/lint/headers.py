"""Every header compiles alone, with gcc and with clang: whoever includes one need not know what it needs."""

import concurrent.futures
import os
import subprocess

import tree

COMPILERS = ("gcc", "clang")
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Werror",
         "-Wno-unused-parameter", "-x", "c"]
GENERATED = ("build", "build/codec")  # where meson puts headers made from the SBE schema


def compile_alone(root, compiler, path):
    includes = ["-I."] + [f"-I{dir}" for dir in GENERATED if (root / dir).is_dir()]
    # Included twice: a missing #pragma once is an error, too.
    text = f'#include "{path}"\n#include "{path}"\n'
    result = subprocess.run([compiler, *FLAGS, *includes, "-"], input=text, cwd=root, capture_output=True, text=True)
    return None if result.returncode == 0 else f"{path}: does not compile alone with {compiler}\n{result.stderr.rstrip()}"


def check(root):
    headers = tree.files(root, ".h")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(compile_alone, root, compiler, path) for path in headers for compiler in COMPILERS]
        findings = [found for job in jobs if (found := job.result())]
    return findings, len(headers)


if __name__ == "__main__":
    tree.run(check, __doc__)
