"""planted.py - a copy of the sources and its objects, in which one bug at a time is planted."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Tree:
    """What a bug touches is compiled again, and once more after it, when the next is planted."""

    def __init__(self, tree: pathlib.Path, parts: list[str], flags: dict[str, list[str]]):
        """`parts`: folders of the repository; `flags`: of each source."""
        self.tree = tree
        self.flags = flags
        for part in parts:
            shutil.copytree(ROOT / part, tree / part)
        (tree / "objects").mkdir()
        self.objects = {}
        self.stale = set()  # sources whose objects have the bug before
        self.compile(set(flags))

    def compile_one(self, source: str) -> pathlib.Path:
        target = self.tree / "objects" / (source.replace("/", "_") + ".o")
        subprocess.run(["gcc", *self.flags[source], "-MMD", "-c", source, "-o", target], cwd=self.tree, check=True)
        return target

    def compile(self, sources: set[str]) -> None:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = {source: pool.submit(self.compile_one, source) for source in sources}
            self.objects.update({source: job.result() for source, job in jobs.items()})

    def touched_by(self, file: str) -> set[str]:
        """Sources that include the file, or are it."""
        return {source for source, target in self.objects.items()
                if re.search(rf"[ /]{re.escape(file)}\b", target.with_suffix(".d").read_text())}

    def plant(self, name: str, file: str, edits: list[tuple[str, str]]) -> None:
        """Each of `edits` is a text that is in the file once, and what takes its place."""
        path = self.tree / file
        text = planted = path.read_text()
        for before, after in edits:
            if planted.count(before) != 1:
                sys.exit(f"{name}: {planted.count(before)} times in {file}, expected once: {before}")
            planted = planted.replace(before, after)
        path.write_text(planted)
        touched = self.touched_by(file)
        self.compile(touched | self.stale)
        self.stale = touched
        path.write_text(text)

    def link(self, name: str, sources: list[str], *arguments: str) -> pathlib.Path:
        program = self.tree / name
        objects = [self.objects[source] for source in sources]
        subprocess.run(["gcc", *objects, *arguments, "-o", program], cwd=self.tree, check=True)
        return program
