"""dockerfile.py - does what a Dockerfile says in chroots, where there is no docker: enough of the language for ours, and
what it does not know is an error.

    with contextlib.ExitStack() as roots:
        image, stages = build(path, context, roots, {"TARGETARCH": "amd64"})
        image.root, image.env, image.user, image.entrypoint, image.healthcheck"""

import json
import re
import shlex
import subprocess

from debian_root import Root

# What a slim image leaves out.
SLIM = """path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
"""


class DockerfileError(Exception):
    pass


class Stage:
    def __init__(self, root):
        self.root = root
        self.env, self.labels, self.args = {}, {}, {}
        self.user = self.entrypoint = self.healthcheck = self.stop_signal = None
        self.exposed = []


def instructions(text):
    """(line number, instruction, the rest), continued lines joined."""
    begun, whole = None, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or (not whole and not line.strip()):
            continue
        begun = begun or number
        whole += line
        if whole.endswith("\\"):
            whole = whole[:-1]
            continue
        word, _, rest = whole.strip().partition(" ")
        yield begun, word.upper(), rest.strip()
        begun, whole = None, ""
    if whole:
        raise DockerfileError("the last line is continued")


def pairs(rest):
    return dict(word.split("=", 1) for word in shlex.split(rest))


def exec_form(rest):
    """A shell in between would be process 1, and SIGTERM would never arrive."""
    try:
        words = json.loads(rest)
    except ValueError:
        words = None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise DockerfileError(f"not the exec form: {rest}")
    return words


def copy_context(context, ignored, target):
    """The build context but for what Dockerfile.dockerignore names."""
    leave_out = []
    for pattern in ignored.read_text().split():
        leave_out += ["--no-anchored", f"--exclude={pattern[3:]}"] if pattern.startswith("**/") else \
            ["--anchored", f"--exclude=./{pattern}"]
    target.mkdir(parents=True, exist_ok=True)
    packed = subprocess.Popen(["tar", "-c", "-C", str(context), *leave_out, "."], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "--no-same-owner", "-C", str(target)], stdin=packed.stdout, check=True)
    if packed.wait() != 0:
        raise DockerfileError("the context cannot be read")


def run(stage, stages, rest):
    binds = []
    while mount := re.match(r"--mount=(\S+)\s+", rest):
        given = dict(word.split("=", 1) for word in mount[1].split(","))
        if set(given) != {"type", "from", "source", "target"} or given["type"] != "bind":
            raise DockerfileError(f"unknown mount: {mount[1]}")
        stage.root.at(given["target"]).mkdir(parents=True, exist_ok=True)
        binds.append((stages[given["from"]].root.at(given["source"]), given["target"]))
        rest = rest[mount.end():]
    if rest.startswith("["):
        raise DockerfileError(f"RUN in exec form is not known here: {rest}")
    if stage.user is not None:
        raise DockerfileError("RUN after USER is not known here")
    stage.root.run("/bin/sh", "-c", rest, binds=binds, env={**stage.env, **stage.args})
    for _, target in binds:
        stage.root.at(target).rmdir()


def build(path, context, roots, build_args):
    """The last stage, and all of them by name. `roots`, an ExitStack, ends them."""
    stages, stage = {}, None
    for number, word, rest in instructions(path.read_text()):
        print(f"{path.name}:{number}: {word} {rest}", flush=True)
        if word == "FROM":
            found = re.fullmatch(r"(?:--platform=\$BUILDPLATFORM )?debian:(\w+)-slim(?: AS (\w+))?", rest)
            stage = Stage(roots.enter_context(Root.made(found[2] or "image" if found else "unknown")))
            if not found or f"VERSION_CODENAME={found[1]}\n" not in stage.root.at("/etc/os-release").read_text():
                raise DockerfileError(f"{path}:{number}: {rest}, but the roots here are of this machine's own release")
            stage.root.at("/etc/dpkg/dpkg.cfg.d/docker").write_text(SLIM)
            stages[found[2] or str(len(stages))] = stage
        elif stage is None:
            raise DockerfileError(f"{path}:{number}: {word} before FROM is not known here")
        elif word == "ARG":
            stage.args[rest] = build_args[rest]
        elif word == "COPY":
            if rest.split()[0] != ".":
                raise DockerfileError(f"{path}:{number}: COPY of something else than the context")
            copy_context(context, path.with_name(f"{path.name}.dockerignore"), stage.root.at(rest.split()[1]))
        elif word == "RUN":
            run(stage, stages, rest)
        elif word == "ENV":
            stage.env.update(pairs(rest))
        elif word == "LABEL":
            stage.labels.update(pairs(rest))
        elif word == "USER":
            stage.user = rest
        elif word == "EXPOSE":
            stage.exposed += rest.split()
        elif word == "STOPSIGNAL":
            stage.stop_signal = rest
        elif word == "HEALTHCHECK":
            stage.healthcheck = exec_form(rest.partition("CMD ")[2])
        elif word == "ENTRYPOINT":
            stage.entrypoint = exec_form(rest)
        else:
            raise DockerfileError(f"{path}:{number}: {word} is not known here")
    return stage, stages
