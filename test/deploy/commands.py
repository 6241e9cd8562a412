"""commands.py - what the samples, their pages and the README say of the programs: command lines, settings, files. Options come from
each program's own --help, settings from config/settings_table.h: what is renamed there is a finding here."""

import fnmatch
import functools
import os
import pathlib
import re
import shlex
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = SOURCE / os.environ.get("SLUICE_BUILD", "build")
PROGRAMS = ("sluiced", "sluicectl", "sluice-cli", "sluice-bench", "sluice-appliance")
APPLIANCE = "config/deploy/systemd/sluice-appliance"
# What a user puts beside a sample, or a program leaves in a result folder.
NOT_OURS = {"auth.conf", "ssh.conf", "report.html", "cluster.local"}
FOLDERS = "config|codec|store|dataplane|mgmt|tools|test"


def program_path(name):
    return SOURCE / APPLIANCE if name == "sluice-appliance" else BUILD / name


@functools.lru_cache(maxsize=None)
def run(name, *words):
    """Exit code and what it said."""
    done = subprocess.run([program_path(name), *words], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


# ---- options, from --help ----

def option_items(field):
    """"-a WORD, --pass" as [("-a", True), ("--pass", True)]: aliases share their value."""
    items = []
    for item in re.split(r", (?=-)", field):
        name, _, value = item.partition(" ")
        optional = name.partition("[=")
        items.append((optional[0].partition("=")[0], bool(value.strip()) or "=" in name and not optional[1]))
    valued = any(takes for _, takes in items)
    return [(name, valued) for name, _ in items]


@functools.lru_cache(maxsize=None)
def options(name, *command):
    """Option to whether it takes a value."""
    code, text = run(name, *command, "--help")
    assert code == 0, f"{name} {command} --help: {text}"
    found = {}
    for option, value in re.findall(r"(?<![\w-])(--[a-z][a-z-]*)( [A-Z][A-Z]+\b)?", text):  # in passing
        found.setdefault(option, bool(value))
    for line in text.splitlines():
        match = re.match(r"\s+(-{1,2}[A-Za-z0-9].*?)(?:\s{2,}|$)", line)
        if match:
            for option, takes in option_items(match[1]):
                found[option] = takes
    return found


@functools.lru_cache(maxsize=None)
def ctl_commands():
    """First word to its second words, of sluicectl."""
    found = {}
    for words in re.findall(r"^  ([a-z]+(?: [a-z|]+)?)\b", run("sluicectl", "--help")[1], re.MULTILINE):
        first, _, second = words.partition(" ")
        found.setdefault(first, set()).update(second.split("|") if second else [])
    return found


@functools.lru_cache(maxsize=None)
def bench_commands():
    return set(re.findall(r"^  ([a-z-]+)  ", run("sluice-bench", "--help")[1], re.MULTILINE))


@functools.lru_cache(maxsize=None)
def settings():
    names = set(re.findall(r'"([a-z]+\.[a-z_]+)"', (SOURCE / "config/settings_table.h").read_text()))
    assert len(names) > 20
    return names


@functools.lru_cache(maxsize=None)
def data_commands():
    return {name.upper() for name in re.findall(r'X\(\w+, +"([a-z]+)"', (SOURCE / "codec/command_table.h").read_text())}


def setting_name_is_wrong(name):
    if name in NOT_OURS:
        return False
    group = name.partition(".")[0]
    groups = {known.partition(".")[0] for known in settings()}
    return group in groups and name not in settings()


# ---- command lines ----

def text_words(text):
    """Words of a line of shell; separators (; | && > ...) are words of their own. None: its quotes do not match."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return None


def is_separator(word):
    return bool(re.fullmatch(r"[;|&()<>]+|[{}]", word)) or word.startswith("#")


def command_lines(text):
    """(program, arguments) of every program of ours that a line starts, within quotes too."""
    if not any(name in text for name in PROGRAMS):
        return
    words = text_words(text)
    if words is None:
        if re.match(rf"(sudo |exec )?({'|'.join(PROGRAMS)})\b", text):
            yield None, text
        return
    for index, word in enumerate(words):
        if " " in word and any(name in word for name in PROGRAMS):
            yield from command_lines(word)
        name = word.lstrip("$(\"'").rpartition("/")[2]
        if name in PROGRAMS and not (index > 0 and words[index - 1] == "--sluiced"):
            arguments = []
            for argument in words[index + 1:]:
                if is_separator(argument):
                    break
                arguments.append(argument)
            yield name, [word.rstrip(")") for word in arguments]


def arguments_split(arguments, known):
    """Positional words, and (option, value or None) in order; the first unknown option as the third."""
    positional, taken = [], []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if not re.match(r"--?[A-Za-z0-9]", word):
            positional.append(word)
        elif word in known:
            taken.append((word, next(rest, None) if known[word] else None))
        elif equals and name in known:
            taken.append((name, value))
        elif len(word) > 2 and known.get(word[:2]):
            taken.append((word[:2], word[2:]))
        else:
            return positional, taken, name
    return positional, taken, None


@functools.lru_cache(maxsize=None)
def setting_check(assignment):
    """What is wrong in NAME=VALUE, or None."""
    name = assignment.partition("=")[0]
    if "$" not in assignment and "..." not in assignment:
        code, said = run("sluiced", "--check", "--set", assignment, *(
            [] if name.startswith("auth.") else ["--set", "auth.password=x"]))
        return None if code == 0 else said.strip().splitlines()[-1]
    return None if name in settings() or name in ("ports", "users") else f"no setting '{name}'"


@functools.lru_cache(maxsize=None)
def command_check(name, arguments):
    """What is wrong in a command line, or None."""
    known = dict(options(name))
    command = []
    if name == "sluice-bench":
        if not arguments or arguments[0].startswith("-"):
            return None if not arguments or arguments[0] == "--help" else "sluice-bench: no command"
        if arguments[0] == "COMMAND":
            return None
        if arguments[0] not in bench_commands():
            return f"sluice-bench has no command '{arguments[0]}'"
        command, arguments = [arguments[0]], arguments[1:]
        known = options(name, *command)
    positional, taken, unknown = arguments_split(arguments, known)
    if unknown is not None and name != "sluice-cli":
        return f"{' '.join([name, *command])} has no option {unknown}"
    for option, value in taken:
        if option in ("--set", "-s") and name in ("sluiced", "sluice-bench") and value and "=" in value:
            wrong = setting_check(value)
            if wrong:
                return f"{name} {option} {value}: {wrong}"
    if name == "sluicectl":
        return ctl_check(positional)
    if name == "sluice-cli":
        return cli_check(positional, unknown)
    if name == "sluice-appliance" and positional and positional[0] not in ("plan", "apply", "revert", "status"):
        return f"sluice-appliance has no command '{positional[0]}'"
    if command == ["matrix"]:
        return matrix_check(arguments)
    return None


def ctl_check(positional):
    if not positional:
        return None
    first, second = positional[0], positional[1] if len(positional) > 1 else None
    if first not in ctl_commands():
        return f"sluicectl has no command '{first}'"
    if ctl_commands()[first] and second is not None and second not in ctl_commands()[first]:
        return f"sluicectl {first} has no '{second}'"
    if first == "config" and second in ("get", "set") and len(positional) > 2 and setting_name_is_wrong(positional[2]):
        return f"no setting '{positional[2]}'"
    return None


def cli_check(positional, unknown):
    """What follows the data command is its own."""
    if positional and re.fullmatch(r"[A-Z]+", positional[0]) and positional[0] not in data_commands() | {"COMMAND"}:
        return f"no data command {positional[0]}"
    return f"sluice-cli has no option {unknown}" if unknown and not positional else None


def matrix_check(arguments):
    """It reads its whole command line before --list prints the rows."""
    if not any(word.startswith("--out") for word in arguments):
        return None
    words = [re.sub(r"\$\{?\w+(\[.\])?\}?|\$\(.*", "x", word) for word in arguments if "[@]" not in word]
    code, said = run("sluice-bench", "matrix", *words, "--list")
    return None if code == 0 else said.strip().splitlines()[-1]


def forget():
    """What programs said, when others stand in their place."""
    for cached in (run, options, ctl_commands, bench_commands, setting_check, command_check):
        cached.cache_clear()


# ---- where they are said ----

def joined(lines):
    """Lines that end in a backslash, together with the next ones; (number of the first, text)."""
    number, text = 0, ""
    for at, line in enumerate(lines, 1):
        number = number or at
        if line.endswith("\\"):
            text += line[:-1] + " "
            continue
        yield number, text + line
        number, text = 0, ""


def code_of(path, text):
    """(line, code) of a file: a page's indented blocks and `code`, a script's lines, a comment's indented lines."""
    lines = text.splitlines()
    if path.suffix == ".md":
        for number, line in joined(lines):
            if line.startswith("    "):
                yield number, re.sub(r"^\s*\$ ", "", line).strip()
        prose = re.sub(r"(?m)^    .*$", "", text)
        for match in re.finditer(r"`([^`]+)`", prose):
            yield prose.count("\n", 0, match.start()) + 1, " ".join(match[1].split())
        return
    script = path.suffix in (".sh", ".sbatch", ".in", "")
    for number, line in joined([re.sub(r"^(\s*)#( {4,})", r"\1#\2", line) for line in lines]):
        comment = re.match(r"\s*#\s{4,}(\S.*)", line)
        if comment:
            yield number, re.sub(r"\s+#\s{4,}", " ", comment[1]).strip()
        elif script and not line.lstrip().startswith("#"):
            yield number, line.strip()


def blocks(path, text):
    """(line, script) of a page's indented blocks; of README.md only the page that is a walk-through, others are no shell."""
    start = 0
    if path.parent.name != "deploy" and path.parent.parent.name != "deploy":
        start = text.index("## On hpc7g\n")
        text = text[:text.index("\n## ", start + 1)]
    for match in re.finditer(r"(?m)(?:^    .*\n)+", text + "\n"):
        if match.start() >= start:
            yield text.count("\n", 0, match.start()) + 1, re.sub(r"(?m)^    ", "", match[0])


@functools.lru_cache(maxsize=None)
def shell_complaint(script):
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=20, check=False)
    return "" if done.returncode == 0 and not done.stderr else done.stderr.strip().splitlines()[0]


def places(root):
    """The files whose words are checked."""
    deploy = root / "config/deploy"
    found = [root / "README.md", *sorted((root / "config").glob("*.conf"))]
    for folder in [deploy, *(deploy / name for name in ("skypilot", "kubernetes", "parallelcluster", "ec2", "docker", "systemd"))]:
        found += [path for path in sorted(folder.glob("*")) if path.is_file() and "python" not in path.read_text()[:40]]
    return found


def check(root):
    findings = []
    for path in places(root):
        text = path.read_text()
        where = path.relative_to(root)
        for number, code in code_of(path, text):
            for name, arguments in command_lines(code):
                wrong = "quotes do not match" if name is None else command_check(name, tuple(arguments))
                if wrong:
                    findings.append(f"{where}:{number}: {wrong}")
            findings += [f"{where}:{number}: {wrong}" for wrong in (*tools_check(code), *package_words(code))]
            findings += [f"{where}:{number}: {wrong}" for wrong in beside_check(root, path, code)]
        if path.suffix == ".md":
            links = re.findall(r"\]\(([^)#:]+)\)", text)
            findings += [f"{where}: no file {name}" for name in links if not (path.parent / name).exists()]
            wrong = [(number, shell_complaint(script)) for number, script in blocks(path, text)]
            findings += [f"{where}:{number}: not shell: {complaint}" for number, complaint in wrong if complaint]
        findings += words_check(root, where, text)
    return findings


@functools.lru_cache(maxsize=None)
def suites():
    return [line.split("\t")[0] for line in (SOURCE / "test/suites.tsv").read_text().splitlines()]


def tools_check(code):
    match = re.match(r"tools/check ([a-z][\w-]*)$", code)
    if match and match[1] not in ("fast", "soak") and not fnmatch.filter(suites(), match[1]):
        yield f"tools/check has no suite '{match[1]}'"


def package_words(code):
    """Architectures, options and versions of what tools/package and meson make."""
    match = re.match(r"tools/package (\w+)", code)
    if match and match[1] not in ("amd64", "arm64"):
        yield f"tools/package makes none for {match[1]}"
    known = set(re.findall(r"^option\('(\w+)'", (SOURCE / "meson_options.txt").read_text(), re.MULTILINE))
    for name in re.findall(r"\s-D([a-z]\w*)=", code) if "meson setup" in code else ():
        if name not in known and not name.startswith(("b_", "build")):
            yield f"meson.build has no option {name}"


def version_words(line):
    version = re.search(r"version: '([^']+)'", (SOURCE / "meson.build").read_text())[1]
    for said in re.findall(r"(?:REGISTRY/sluice[\w-]*:|sluice_)(\d+(?:\.\d+)+)", line):
        if said != version:
            yield f"version {said}: it is {version}"


def beside_check(root, path, code):
    """Files that a page names without a folder lie beside it."""
    if path.parent == root or path.suffix == "":
        return
    for name in re.findall(r"(?<![\w./~$}*-])([a-z][\w-]*\.(?:yaml|sh|sbatch|conf|md))(?![\w./])", code):
        if name not in NOT_OURS and not (path.parent / name).exists() and name != "sluice.conf":
            yield f"no file {name} beside it"


def words_check(root, where, text):
    """Paths and settings anywhere in a file."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from (f"{where}:{number}: {wrong}" for wrong in version_words(line))
        for name in re.findall(rf"(?<![\w./~$}}-])(?:{FOLDERS})/[\w./*-]*\w", line):
            if not re.search(r"[A-Z]{4,}(?!ADME|ICENSE)", name.replace("README", "").replace("LICENSE", "")) and not any(
                    root.glob(name)) and not any(SOURCE.glob(name)):
                yield f"{where}:{number}: no file {name}"
        for name in re.findall(r"(?<![\w./-])([a-z]+\.[a-z_]+)(?![\w/(-]|\.\w)", line):
            if setting_name_is_wrong(name):
                yield f"{where}:{number}: no setting '{name}'"
