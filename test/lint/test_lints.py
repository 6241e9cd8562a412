"""Every lint fails on the fault it is there for, and passes when the fault is gone."""

import contextlib
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools" / "lint"), str(ROOT / "tools")]

GOOD_C = "#include \"config/base.h\"\n\nint\nbase_twice(int n)\n{\n    return n * 2;\n}\n"
GOOD_H = "/* base.h - a header. */\n#pragma once\n\nint base_twice(int n);\n"


class Lint(unittest.TestCase):
    """A small tree with a header and a source that every lint accepts; tests plant faults in it."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="sluice-lint-test-")
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.plant("config/base.h", GOOD_H)
        self.plant("config/base.c", GOOD_C)
        shutil.copy(ROOT / ".clang-format", self.root)

    def plant(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def compile(self, path, text, object_path):
        source = self.plant(path, text)
        target = self.root / "build" / object_path
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-c", "-O2", "-w", str(source), "-o", str(target)], check=True)

    def findings(self, lint, *arguments):
        found, looked_at = importlib.import_module(lint).check(self.root, *arguments)
        self.assertGreater(looked_at, 0)
        return found

    def assert_passes(self, lint):
        self.assertEqual(self.findings(lint), [])

    def assert_finds(self, lint, *texts):
        found = "\n".join(self.findings(lint))
        for text in texts:
            self.assertIn(text, found)


class Includes(Lint):
    def test_codec_may_not_include_store(self):
        self.plant("codec/resp.c", '#include "store/store.h"\n')
        self.assert_finds("includes", "codec/resp.c:1")

    def test_store_may_not_include_codec(self):
        self.plant("store/store.c", '#  include   "codec/resp.h"\n')
        self.assert_finds("includes", "store/store.c:1")

    def test_data_plane_may_not_include_mgmt(self):
        self.plant("dataplane/lcore.c", '\n#include "mgmt/ctl_wire.h"\n')
        self.assert_finds("includes", "dataplane/lcore.c:2")

    def test_tools_may_not_include_store(self):
        self.plant("tools/sluicectl.c", '#include "store/store.h"\n')
        self.assert_finds("includes", "tools/sluicectl.c:1")

    def test_only_the_client_shares_the_endpoint_with_the_data_plane(self):
        self.plant("tools/client/client.c", '#include "dataplane/endpoint.h"\n')
        self.assert_passes("includes")
        self.plant("tools/client/client.c", '#include "dataplane/session.h"\n')
        self.assert_finds("includes", "dataplane/session.h")
        self.plant("tools/client/client.c", "")
        self.plant("tools/sluicectl.c", '#include "dataplane/endpoint.h"\n')
        self.assert_finds("includes", "tools/sluicectl.c:1")

    def test_angle_brackets_do_not_hide_a_project_header(self):
        self.plant("codec/resp.c", "#include <store/store.h>\n")
        self.assert_finds("includes", "codec/resp.c:1")

    def test_a_path_without_its_folder_is_refused(self):
        self.plant("codec/resp.c", '#include "resp.h"\n#include "../store/store.h"\n')
        self.assert_finds("includes", "codec/resp.c:1", "codec/resp.c:2")

    def test_the_stated_directions_pass(self):
        self.plant("mgmt/main.c", '#include "config/base.h"\n#include "dataplane/lcore.h"\n#include <stdio.h>\n')
        self.plant("tools/sluicectl.c", '#include "mgmt/ctl_wire.h"\n#include "codec/resp.h"\n')
        self.assert_passes("includes")


class Headers(Lint):
    def test_a_header_that_needs_another_one_first_is_found_by_both_compilers(self):
        self.plant("config/needy.h", "#pragma once\nuint32_t needy(void);\n")
        self.assert_finds("headers", "needy.h: does not compile alone with gcc", "alone with clang")

    def test_a_header_without_a_guard_is_found(self):
        self.plant("config/twice.h", "struct twice {\n    int a;\n};\n")
        self.assert_finds("headers", "twice.h")

    def test_a_warning_is_an_error(self):
        self.plant("config/warns.h", "#pragma once\nstatic inline int f(void) { int unused; return 1; }\n")
        self.assert_finds("headers", "warns.h")

    def test_a_good_header_passes(self):
        self.assert_passes("headers")


class Imports(Lint):
    def setUp(self):
        super().setUp()
        self.allow("")

    def allow(self, text):
        self.plant("tools/lint/imports.allow", text)

    def hot(self, name, text):
        self.compile(f"store/{name}", text, f"store/libstore.a.p/{name}.o")

    def test_malloc_in_a_hot_object_is_found(self):
        self.hot("index.c", "#include <stdlib.h>\nvoid *f(int n) { return malloc(n); }\n")
        self.assert_finds("imports", "store/index.c: imports malloc")

    def test_a_system_call_in_a_nested_object_is_found(self):
        self.compile("dataplane/ports/a.c", "#include <unistd.h>\nlong f(int n) { return write(n, 0, 0); }\n",
                     "dataplane/libdataplane.a.p/ports_a.c.o")
        self.assert_finds("imports", "imports write")

    def test_boot_code_may_allocate_but_hot_code_may_not_call_it(self):
        self.hot("index_boot.c", "#include <stdlib.h>\nvoid *index_open(int n) { return malloc(n); }\n")
        self.hot("other.c", "int other(int n) { return n; }\n")
        self.assert_passes("imports")
        self.hot("index.c", "void *index_open(int); void *f(void) { return index_open(8); }\n")
        self.assert_finds("imports", "store/index.c: imports index_open")

    def test_hot_code_may_call_hot_code(self):
        self.hot("index.c", "int record(int); int f(void) { return record(8); }\n")
        self.hot("record.c", "int record(int n) { return n + 1; }\n")
        self.assert_passes("imports")

    def test_an_entry_allows_one_source_and_needs_a_reason(self):
        self.hot("idle.c", "#include <sched.h>\nvoid f(void) { sched_yield(); }\n")
        self.allow("store/idle.c sched_yield\n")
        self.assert_finds("imports", "# reason")
        self.allow("store/idle.c sched_yield  # the idle policy\n")
        self.assert_passes("imports")
        self.hot("index.c", "#include <sched.h>\nvoid g(void) { sched_yield(); }\n")
        self.assert_finds("imports", "store/index.c: imports sched_yield")

    def test_an_entry_that_nothing_needs_is_found(self):
        self.hot("idle.c", "void f(void) { }\n")
        self.allow("store/idle.c sched_yield  # the idle policy\n")
        self.assert_finds("imports", "does not import sched_yield")

    def test_an_unbuilt_tree_is_no_pass(self):
        self.assertEqual(importlib.import_module("imports").check(self.root)[1], 0)


class Format(Lint):
    def test_a_wrong_indent_is_found_and_mended(self):
        self.plant("config/base.c", GOOD_C.replace("    return", "  return"))
        self.assert_finds("format", "config/base.c:5")
        self.findings("format", True)
        self.assert_passes("format")


class Analyse(Lint):
    def test_a_null_dereference_is_found(self):
        self.plant("config/base.c", "int f(void)\n{\n    int *p = 0;\n    return *p;\n}\n")
        self.assert_finds("analyse", "nullPointer")

    def test_a_read_past_an_array_is_found(self):
        self.plant("config/base.c", "int f(void)\n{\n    int a[2] = { 0, 1 };\n    return a[2];\n}\n")
        self.assert_finds("analyse", "arrayIndexOutOfBounds")

    def test_a_good_source_passes(self):
        self.assert_passes("analyse")


class Shell(Lint):
    def test_an_unquoted_variable_is_found(self):
        self.plant("tools/go", "#!/usr/bin/env bash\nrm -r $1\n")
        self.assert_finds("shell", "SC2086")

    def test_a_good_script_passes(self):
        self.plant("tools/go", '#!/usr/bin/env bash\nrm -r "$1"\n')
        self.assert_passes("shell")


class Words(Lint):
    def test_unfinished_work_is_found(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X"):
            self.plant("config/base.c", f"/* {word}: later */\n")
            self.assert_finds("words", "config/base.c:1")

    def test_generated_files_are_found_even_when_ignored_names_are_forced_in(self):
        self.plant("codec/resp.o", "x")
        self.plant("build/sluiced", "x")
        self.assert_finds("words", "codec/resp.o", "build/sluiced")

    def test_a_long_file_is_found(self):
        self.plant("config/base.c", "int a;\n" * 701)
        self.assert_finds("words", "701 lines")
        self.plant("config/base.c", "int a;\n" * 700)
        self.assert_passes("words")

    def test_merge_debris_is_found(self):
        self.plant("config/base.c", "<" * 7 + " HEAD\n")
        self.assert_finds("words", "config/base.c:1")


class Readme(Lint):
    def setUp(self):
        super().setUp()
        for path in ("config/limits.h", "config/settings_table.h", "codec/command_table.h", "README.md"):
            self.plant(path, (ROOT / path).read_text())
        self.findings("readme_limits", True)

    def test_a_changed_limit_is_found_and_mended(self):
        self.assert_passes("readme_limits")
        text = (self.root / "config/limits.h").read_text()
        self.plant("config/limits.h", text.replace("LIMIT_KEY_BYTES, 65535", "LIMIT_KEY_BYTES, 65534"))
        self.assert_finds("readme_limits", "limits", "65534")
        self.findings("readme_limits", True)
        self.assert_passes("readme_limits")

    def test_a_changed_default_is_found(self):
        text = (self.root / "config/settings_table.h").read_text()
        self.plant("config/settings_table.h", text.replace('"6379"', '"6380"'))
        self.assert_finds("readme_limits", "settings", "6380")

    def test_a_command_that_the_readme_lacks_is_found(self):
        text = (self.root / "README.md").read_text()
        self.plant("README.md", "".join(line for line in text.splitlines(True) if "| GET |" not in line))
        self.assert_finds("readme_limits", "commands", "| GET |")

    def test_a_readme_without_the_table_is_found(self):
        self.plant("README.md", "# Sluice\n")
        self.assert_finds("readme_limits", "no table 'limits'")


class Suites(unittest.TestCase):
    """tools/check itself: a suite that fails, hangs, leaves processes or says nothing does not pass."""

    def setUp(self):
        self.suites = importlib.import_module("suites")
        scratch = tempfile.TemporaryDirectory(prefix="sluice-suites-test-")
        self.addCleanup(scratch.cleanup)
        self.table = pathlib.Path(scratch.name) / "suites.tsv"
        self.logs, self.suites.LOGS = self.suites.LOGS, pathlib.Path(scratch.name)
        self.root, self.suites.ROOT = self.suites.ROOT, pathlib.Path(scratch.name)
        self.addCleanup(setattr, self.suites, "LOGS", self.logs)
        self.addCleanup(setattr, self.suites, "ROOT", self.root)
        self.report = self.suites.Report()

    def step(self, command, budget_s=5):
        with contextlib.redirect_stdout(open(os.devnull, "w")) as out:
            self.addCleanup(out.close)
            self.suites.step_run(self.report, "step", budget_s, [command], dict(os.environ))
        return self.report.passed, self.report.failed, self.report.skipped

    def test_exit_codes(self):
        self.assertEqual(self.step("exit 0"), (1, 0, 0))
        self.assertEqual(self.step("exit 1"), (1, 1, 0))
        self.assertEqual(self.step("kill -SEGV $$"), (1, 2, 0))
        self.assertEqual(self.step("echo no device here; exit 77"), (1, 2, 1))

    def test_above_its_budget_a_suite_fails_even_if_it_would_pass(self):
        self.assertEqual(self.step("sleep 1.2", budget_s=1), (0, 1, 0))

    def test_processes_left_behind_fail_the_suite_and_are_ended(self):
        self.assertEqual(self.step("sleep 600 & echo $! > left; exit 0"), (0, 1, 0))
        left = int((self.suites.ROOT / "left").read_text())
        try:
            state = pathlib.Path(f"/proc/{left}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            state = "Z"
        self.assertEqual(state, "Z", "ended, whether collected or not")

    def refuse(self, text):
        self.table.write_text(text)
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(open(os.devnull, "w")) as err:
            self.addCleanup(err.close)
            self.suites.budgets_check(self.suites.suites_read(self.table))

    def test_a_bad_row_is_refused(self):
        self.refuse("name\t1\tyes\n")
        self.refuse("name\tsoon\tyes\ttrue\n")
        self.refuse("name\t0\tyes\ttrue\n")
        self.refuse("name\t1\tmaybe\ttrue\n")
        self.refuse("name\t1\tyes\ttrue\nname\t1\tyes\ttrue\n")

    def test_budgets_that_add_up_to_too_much_are_refused(self):
        self.refuse("slow\t9000\tno\ttrue\n")
        self.table.write_text("slow\t2000\tno\ttrue\nsoak\t90000\tsoak\ttrue\n")
        self.suites.budgets_check(self.suites.suites_read(self.table))

    def test_sanitizer_builds_are_made_only_for_suites_that_name_them(self):
        suite = self.suites.Suite
        self.assertEqual(self.suites.builds_needed([suite("a", 1, "no", "build/test/a")]), ["build"])
        self.assertEqual(self.suites.builds_needed([suite("a", 1, "no", "build/asan/test/a")]), ["build", "build/asan"])
        self.assertEqual(self.suites.builds_needed([suite("a", 1, "no", "B=build/tsan test/a")]), ["build", "build/tsan"])


if __name__ == "__main__":
    unittest.main()
