"""package.py [facts|arm64] - the Debian packages and the container image, from the sources to a server that serves and is gone again.

Without arguments: does what the Dockerfile says in chroots, runs the image as user 10001 without a capability on a read-only
root, then takes the package that its first stage built, checks it with lintian, installs it in a Debian of its own, starts
it as its unit does, removes and purges it. facts: only what is said in two places, which takes no root. arm64: cross-builds
that package and looks at it; its programs run under qemu-user."""

import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import debian_root
import dockerfile
from debian_root import Root, RootError
from server import READY_S, ROOT, skip

DEBIAN, DOCKER = ROOT / "config/deploy/debian", ROOT / "config/deploy/docker"
UID = 10001  # samples rely on it
APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "Dpkg::Use-Pty=0")
PROGRAMS = ("sluiced", "sluicectl", "sluice-cli", "sluice-bench")
# Build tools that Debian's build-essential or another package of the list brings along.
IMPLIED = {"gcc", "libc6-dev", "dpkg-dev", "ninja-build"}
# What dpkg, apt and programs of the system keep for themselves; a user stays when its package goes.
NOT_OURS = re.compile(r"/(var/(lib/(dpkg|apt|systemd|ucf)|cache|log|backups)|etc/(ld\.so\.cache|(passwd|group|g?shadow|sub[ug]id)-|"
                      r"\.pwd\.lock|machine-id)|run|tmp|dev)(/|$)")

failures = 0


def expect(what, got, wanted):
    global failures
    if got != wanted:
        failures += 1
        print(f"{what}: {got!r}, expected {wanted!r}", flush=True)


def text_of(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# ---- what is said in two places


def check_facts():
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    expect("version of the changelog", re.match(r"sluice \(([^)]+)\)", (DEBIAN / "changelog").read_text())[1], version)
    needed = {line.split()[0] for line in (ROOT / "tools/packages.run").read_text().splitlines() if line and line[0] != "#"}
    control = re.search(r"^Build-Depends:((?:.|\n )*)", (DEBIAN / "control").read_text(), re.MULTILINE)[1]
    named = {word.split()[0].partition(":")[0] for word in control.split(",")}
    expect("of tools/packages.run, missing in Build-Depends", needed - IMPLIED - named, set())


# ---- the image


def readme_settings(folder):
    """The file of settings that the image's page tells one to make, made by its own words."""
    page = (DOCKER / "README.md").read_text()
    subprocess.run(["sh", "-ec", re.search(r"^    (cat >sluice\.conf (?:.|\n)*?\n    CONF)$", page, re.MULTILINE)[1]
                    .replace("\n    ", "\n")], cwd=folder, check=True)
    return folder / "sluice.conf"


def ready_wait(running, log, *command):
    deadline = time.monotonic() + READY_S
    try:
        while running.exec(*command)[0] != 0:
            if time.monotonic() > deadline:
                raise RootError("it is not ready")
            time.sleep(0.05)
    except RootError as error:
        raise RootError(f"{error}:\n{log.read_text()}") from None


def image_start(image, log, *arguments, binds=(), tmpfs=True):
    """As the page says: docker run --read-only --tmpfs /run/sluice --cap-drop ALL --security-opt no-new-privileges."""
    mode = os.stat(image.root.at("/run/sluice")).st_mode & 0o7777
    return image.root.start(*image.entrypoint, *arguments, log=log.open("wb"), alone=True, read_only=True, env=image.env,
                            binds=binds, tmpfs=[("/run/sluice", f"mode={mode:o},nosuid,nodev,noexec")] if tmpfs else [],
                            user=int(image.user.partition(":")[0]))


def refused(image, log, *arguments, tmpfs=True):
    """What it says when it does not start: it must end by itself, and badly."""
    with image_start(image, log, *arguments, tmpfs=tmpfs) as running:
        code = running.process.wait(READY_S)
    expect(f"exit code with {arguments}", code in (1, 2), True)
    return log.read_text()


def check_image(image, folder):
    log = folder / "log"
    settings = readme_settings(folder)
    expect("user of the image", image.user, f"{UID}:{UID}")
    expect("process 1", image.entrypoint, ["/usr/bin/sluiced"])
    expect("what ends it", image.stop_signal, "SIGTERM")
    expect("its port", image.exposed, ["6379"])
    installed = text_of(["chroot", image.root.path, "dpkg-query", "-W", "-f", "${Package}\n"]).split()
    expect("left from building", [name for name in installed if re.fullmatch(r"gcc(-\d+)?|.*-dev|.*-dbgsym|debhelper|meson|python3", name)], [])
    expect("package lists left", os.listdir(image.root.at("/var/lib/apt/lists")), [])
    expect("the user's name", re.search(rf"^(\w+):x:{UID}:{UID}:", image.root.at("/etc/passwd").read_text(), re.MULTILINE)[1], "sluice")
    print(f"the image: {len(installed)} packages,", text_of(["du", "-sh", image.root.path]).split()[0])

    expect("without a password", "protected_mode" in refused(image, log, "--set", "streams.address=0.0.0.0"), True)
    expect("nowhere to write", "/run/sluice" in refused(image, log, tmpfs=False), True)

    binds = [(settings, "/etc/sluice/sluice.conf")]
    with image_start(image, log, "--set", 'ports=({type="fabric"; provider="shm";})', binds=binds) as running:
        ready_wait(running, log, *image.healthcheck)
        status = dict(re.findall(r"^(\w+):[ \t]*(.*)$", pathlib.Path(f"/proc/{running.pid}/status").read_text(), re.MULTILINE))
        expect("uids", status["Uid"].split(), [str(UID)] * 4)
        expect("gids", (status["Gid"].split(), status["Groups"].split()), ([str(UID)] * 4, []))
        for sort in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            expect(sort, int(status[sort], 16), 0)
        expect("new privileges", status["NoNewPrivs"], "1")
        expect("process 1", status["NSpid"].split()[-1], "1")
        cli = ["sluice-cli", "-e", "-a", "the password"]
        expect("SET", running.exec(*cli, "SET", "k", "v")[1], "OK\n")
        expect("GET over SBE", running.exec(*cli, "--sbe", "GET", "k")[1], "v\n")
        expect("GET over shm", running.exec(*cli, "--fabric", "shm", "GET", "k")[1], "v\n")
        expect("GET without the password", "NOAUTH" in "".join(running.exec("sluice-cli", "GET", "k")[1:]), True)
        expect("sluicectl alive", running.exec("sluicectl", "alive")[0], 0)
        inside = pathlib.Path(f"/proc/{running.pid}/root")
        expect("written", sorted(os.listdir(inside / "run/sluice")), ["ctl.sock", "sluice.sock"])
        for place in ("/", "/tmp", "/var/tmp", "/etc/sluice", "/usr/bin"):
            expect(f"a file in {place}", running.exec("touch", f"{place}/file")[0], 1)
        with subprocess.Popen(["nsenter", f"--target={running.pid}", "--net", "bash", "-c",
                               "exec 3<>/dev/tcp/127.0.0.1/6379 && echo open && cat <&3"], stdout=subprocess.PIPE, text=True) as client:
            expect("a client", client.stdout.readline(), "open\n")
            begun = time.monotonic()
            expect("exit code after SIGTERM", running.stop(), 0)
            expect("it drained, in time", time.monotonic() - begun < 7, True)
    return image


# ---- the package


def lintian(*packages):
    result = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", "--display-info", *map(str, packages)],
                            capture_output=True, text=True)
    print(result.stdout, result.stderr, flush=True)
    expect("lintian", result.returncode, 0)


def packages_in(folder, architecture):
    """The package, and that of its symbols."""
    found = {path.name.partition("_")[0]: path for path in folder.glob(f"*_{architecture}.deb")}
    expect("packages", sorted(found), ["sluice", "sluice-dbgsym"])
    return found["sluice"], found["sluice-dbgsym"]


def check_contents(package, triplet):
    listed = text_of(["dpkg-deb", "-c", str(package)])
    paths = {line.split()[5].removeprefix(".") for line in listed.splitlines()}
    wanted = {f"/usr/bin/{name}" for name in PROGRAMS}
    wanted |= {f"/usr/lib/{triplet}/sluice/sluice_{name}.so" for name in ("fabric", "ethernet")}
    wanted |= {f"/usr/share/man/man{name[-1]}/{name}.gz" for name in
               ("sluiced.8", "sluice-appliance.8", "sluicectl.1", "sluice-cli.1", "sluice-bench.1", "sluice.conf.5")}
    wanted |= {f"/lib/systemd/system/{unit}" for unit in
               ("sluiced.service", "sluice-appliance.service", "sluice-appliance.target")}
    wanted |= {"/etc/sluice/sluice.conf", "/usr/sbin/sluice-appliance", "/usr/lib/sysusers.d/sluice.conf",
               "/usr/share/doc/sluice/examples/hpc7g.conf", "/usr/share/bash-completion/completions/sluicectl"}
    expect("missing in the package", wanted - paths, set())
    expect("its conffiles", text_of(["dpkg-deb", "-I", str(package), "conffiles"]).split(), ["/etc/sluice/sluice.conf"])


def listing(root):
    found = set()
    for folder, folders, files in os.walk(root.path):
        found.update("/" + os.path.relpath(os.path.join(folder, name), root.path) for name in folders + files)
    return {path for path in found if not NOT_OURS.match(path)}


def unit_read(root):
    """{key: values} of the unit's section Service."""
    unit = {}
    for line in root.at("/lib/systemd/system/sluiced.service").read_text().split("[Service]")[1].splitlines():
        if "=" in line and line[0] not in "#;":
            unit.setdefault(line.partition("=")[0], []).append(line.partition("=")[2])
    return unit


def check_service(root, folder):
    """The unit's command, as the unit's user, in the unit's runtime directory; systemd itself cannot run here."""
    unit, log = unit_read(root), folder / "log"
    uid = int(re.search(rf"^{unit['User'][0]}:x:(\d+):", root.at("/etc/passwd").read_text(), re.MULTILINE)[1])
    env = dict(word.split("=", 1) for words in unit.get("Environment", []) for word in shlex.split(words))
    directory = f"/run/{unit['RuntimeDirectory'][0]}"
    root.at(directory).mkdir(exist_ok=True)
    with root.start(*shlex.split(unit["ExecStart"][-1]), log=log.open("wb"), alone=True, env=env, user=uid,
                    tmpfs=[(directory, f"mode={unit['RuntimeDirectoryMode'][0]},uid={uid},gid={uid}")]) as running:
        ready_wait(running, log, "sluicectl", "ready")
        print(running.exec("sluicectl", "status")[1])
        for words, answer in ((["SET", "k", "v"], "OK\n"), (["HSET", "h", "f", "v"], "1\n"), (["GET", "k"], "v\n")):
            expect(words[0], running.exec("sluice-cli", *words)[1], answer)
        expect("sluicectl stats", "requests" in running.exec("sluicectl", "stats")[1], True)
        code, out, error = running.exec("sluice-bench", "latency", "-s", f"{directory}/sluice.sock", "--samples", "100", "--warmup", "10",
                                        "--csv")
        expect(f"sluice-bench: {error}", (code, out.count("\n")), (0, 9))
        expect("exit code after SIGTERM", running.stop(), 0)
    root.at(directory).rmdir()


def check_installed(root):
    """Every program starts, finds its libraries and modules, and says the package's version."""
    version = text_of(["dpkg-query", f"--admindir={root.at('/var/lib/dpkg')}", "-W", "-f", "${Version}", "sluice"])
    for program in PROGRAMS:
        shown = text_of(["chroot", root.path, program, "--version"])
        expect(f"{program} --version", version in shown, True)
    for module in root.at("/usr/lib").glob("*/sluice/*.so"):
        missing = text_of(["chroot", root.path, "ldd", "-r", "/" + str(module.relative_to(root.path))])
        expect(f"{module.name} lacks", re.findall(r".*not found.*", missing), [])
    expect("the file of settings", subprocess.run(["chroot", root.path, "sluiced", "--check"]).returncode, 0)
    completion = text_of(["chroot", root.path, "bash", "-c",
                          ". /usr/share/bash-completion/completions/sluicectl && complete -p sluicectl"])
    expect("completion", "_sluicectl" in completion, True)
    expect("enabled", list(root.at("/etc/systemd/system").rglob("sluice*")), [])


def services_watch(root):
    """Let maintainer scripts believe that systemd runs; what they would tell it is in the file returned."""
    told = root.at("/var/log/told")
    told.write_text("")
    root.at("/run/systemd/system").mkdir(parents=True, exist_ok=True)
    root.at("/usr/bin/deb-systemd-invoke").write_text('#!/bin/sh\necho "$@" >>/var/log/told\n')
    return told


def check_package(package, folder):
    with Root.made("installed") as root:
        root.run(*APT, "update")
        root.run(*APT, "install", "--no-install-recommends", "systemd")
        services = services_watch(root)
        before = listing(root)
        target = root.at("/var/cache") / package.name
        target.write_bytes(package.read_bytes())
        root.run(*APT, "install", "--no-install-recommends", f"/var/cache/{package.name}")
        check_installed(root)
        check_service(root, folder)
        root.run("systemctl", "enable", "sluiced", env={"SYSTEMD_OFFLINE": "1"})
        root.at("/etc/sluice/sluice.conf").write_text("streams: { port = 7000; };\n")
        root.run("dpkg", "-i", f"/var/cache/{package.name}")  # again, as an upgrade
        expect("services touched by installing and upgrading", services.read_text(), "")
        expect("settings after an upgrade", "7000" in root.at("/etc/sluice/sluice.conf").read_text(), True)
        root.run(*APT, "remove", "sluice")
        expect("services touched by removing", services.read_text(), "stop sluiced.service sluice-appliance.service\n")
        expect("settings after remove", root.at("/etc/sluice/sluice.conf").exists(), True)
        expect("programs after remove", [name for name in PROGRAMS if root.at(f"/usr/bin/{name}").exists()], [])
        root.run(*APT, "purge", "--auto-remove", "sluice")
        expect("left behind", sorted(listing(root) - before), [])
        expect("taken along", sorted(before - listing(root)), [])


# ---- arm64


def check_arm64():
    built = subprocess.run([ROOT / "tools/package", "arm64"], stdin=subprocess.DEVNULL)
    if built.returncode != 0:
        sys.exit("tools/package arm64 fails")
    package, symbols = packages_in(ROOT / "build/package", "arm64")
    lintian(package, symbols)
    check_contents(package, "aarch64-linux-gnu")
    expect("architecture", text_of(["dpkg-deb", "-f", str(package), "Architecture"]).strip(), "arm64")
    if subprocess.run(["tools/sysroot"], cwd=ROOT).returncode != 0:
        skip("no arm64 libraries to run it with: tools/sysroot needs Debian's mirror once")
    with tempfile.TemporaryDirectory(prefix="sluice-arm64-") as folder:
        subprocess.run(["dpkg-deb", "-x", str(package), folder], check=True)
        for program in PROGRAMS:
            path = f"{folder}/usr/bin/{program}"
            expect(f"{program} is for", re.search(r"Machine: +(\S+)", text_of(["readelf", "-h", path]))[1], "AArch64")
            shown = text_of(["qemu-aarch64", "-L", str(ROOT / "build/sysroot-arm64"), path, "--version"])
            print(shown, end="")


def check_native():
    architecture = text_of(["dpkg", "--print-architecture"]).strip()
    with contextlib.ExitStack() as roots, tempfile.TemporaryDirectory(prefix="sluice-package-") as name:
        folder = pathlib.Path(name)
        image, stages = dockerfile.build(DOCKER / "Dockerfile", ROOT, roots, {"TARGETARCH": architecture})
        check_image(image, folder)
        package, symbols = packages_in(stages["build"].root.at("/src/build/package"), architecture)
        lintian(package, symbols)
        check_contents(package, text_of(["dpkg-architecture", "-qDEB_HOST_MULTIARCH"]).strip())
        check_package(package, folder)


def main():
    what = {"facts": None, "arm64": check_arm64, "native": check_native}[sys.argv[1] if len(sys.argv) > 1 else "native"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and with it the roots
    check_facts()
    try:
        if what is not None:
            debian_root.skip_unless_possible()
            what()
    except (RootError, dockerfile.DockerfileError) as error:
        sys.exit(str(error))
    print(f"{failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
