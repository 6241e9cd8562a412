"""documents.py - how the checks read: YAML with its lines, the schemas beside this file, settings as sluiced takes them."""

import functools
import pathlib
import re
import subprocess
import tempfile

import jsonschema
import yaml

from commands import program_path

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1024 * 1024
# Instance type to its cores; each has one EFA device, which the schemas ask for, and the same memory.
HPC7G = {"hpc7g.4xlarge": 16, "hpc7g.8xlarge": 32, "hpc7g.16xlarge": 64}
HPC7G_BYTES = 128 * 1024 * MIB
FABRIC_HUGE_BYTES = 256 * MIB  # what libfabric and the port take of a pod's huge pages beside memory.reserve
DIGEST = "#" + "0" * 64


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms, and without keys that are there twice, which PyYAML takes in silence."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"'{key}' is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


Loader.add_constructor("!Ref", lambda loader, node: {"Ref": loader.construct_scalar(node)})
Loader.add_constructor("!GetAtt", lambda loader, node: {"GetAtt": loader.construct_scalar(node)})


def documents(path):
    """(first line, document) of each in a file."""
    return documents_of(path.read_text())


@functools.lru_cache(maxsize=None)
def documents_of(text):
    return tuple(documents_load(text))


def documents_load(text):
    loader = Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            yield node.start_mark.line + 1, loader.construct_document(node)
    finally:
        loader.dispose()


@functools.lru_cache(maxsize=None)
def schema(name):
    return yaml.safe_load((HERE / f"{name}.schema.yaml").read_text())


def mismatches(document, rules):
    """Where and why a document does not fit, in one line each."""
    for error in jsonschema.Draft202012Validator(rules).iter_errors(document):
        error = jsonschema.exceptions.best_match([error])
        at = ".".join(str(step) for step in error.absolute_path) or "it"
        yield f"{at}: {error.message[:200]}"


def size_bytes(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]i)B?", text).groups()
    return int(number) * 1024 ** ("KMG".index(unit[0]) + 1)


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


# ---- settings ----

@functools.lru_cache(maxsize=None)
def settings_read(text, *assignments):
    """What sluiced makes of a file's text: (settings, None), or (None, why not). Includes are given the digest of a password."""
    with tempfile.TemporaryDirectory() as folder:
        included = pathlib.Path(folder) / "auth.conf"
        included.write_text(f'auth: {{ password = "{DIGEST}"; }};\n')
        path = pathlib.Path(folder) / "sluice.conf"
        path.write_text(re.sub(r'@include "[^"]*"', f'@include "{included}"', text))
        words = [program_path("sluiced"), "--check", "-c", path] + [w for set_ in assignments for w in ("--set", set_)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip().replace(folder + "/", "")
    return Settings(text), None


class Settings:
    """Values as they are written; sluiced has read the text and found it good."""

    def __init__(self, text):
        self.text = re.sub(r"\s#.*|^#.*", "", text, flags=re.MULTILINE)

    def get(self, name, default=None):
        group, _, key = name.partition(".")
        block = re.search(rf"\b{group}\s*:\s*\{{(.*?)\}}", self.text, re.DOTALL)
        value = block and re.search(rf'\b{key}\s*=\s*"?([^";]*)"?\s*;', block[1])
        return value[1] if value else default

    def cpus(self):
        """Those that it names; None: auto."""
        words = self.get("lcores.cpus", "auto")
        if words == "auto":
            return None
        named = set()
        for part in words.split(","):
            first, _, last = part.partition("-")
            named |= set(range(int(first), int(last or first) + 1))
        return named


    def serve(self):
        """What keeps another host from attaching over EFA, or nothing."""
        if 'provider = "efa"' not in self.text:
            yield "ports: no fabric port of provider efa"
        if self.get("streams.address", "127.0.0.1").startswith(("127.", "[::1]")):
            yield "streams.address: clients attach from other hosts"
        if self.get("lcores.idle") != "spin":
            yield "lcores.idle: the CPUs are this server's alone, and sleeping costs latency"
