"""samples.py - the files of config/deploy themselves: YAML, the schemas beside this file, settings as sluiced reads them, and the
numbers and names that must agree between a sample, its page, its settings and the image."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import jsonschema
import yaml
import yamllint.config
import yamllint.linter

from commands import SOURCE, program_path

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1024 * 1024
# Instance type to its cores; each has one EFA device, which the schemas ask for, and the same memory.
HPC7G = {"hpc7g.4xlarge": 16, "hpc7g.8xlarge": 32, "hpc7g.16xlarge": 64}
HPC7G_BYTES = 128 * 1024 * MIB
# What SkyPilot's network_tier: best gives EFA to, in the version read.
SKYPILOT_EFA = ("g4dn.", "g5.", "g6.", "gr6.", "g6e.", "p4d.", "p4de.", "p5.", "p5e.", "p5en.", "p6-b200.")
FABRIC_HUGE_BYTES = 256 * MIB  # what libfabric and the port take of a pod's huge pages beside memory.reserve
PORT_HUGE_PAGES = 128  # what README.md adds for the ethernet port
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


def conf_files(root):
    findings = []
    for path in [*sorted((root / "config").glob("*.conf")), *sorted((root / "config/deploy").glob("*/sluice.conf"))]:
        text = path.read_text()
        # A password that comes from elsewhere when it starts; config/dev.conf is for loopback and needs none.
        _, wrong = settings_read(text, *([] if "password" in text and "auth:" in text else [f"auth.password={DIGEST}"]))
        if wrong:
            findings.append(f"{path.relative_to(root)}: {wrong}")
    return findings


def huge_pages_of_readme(root):
    """README.md counts config/hpc7g.conf's pages by hand."""
    conf = (root / "config/hpc7g.conf").read_text()
    wanted = size_bytes(Settings(conf).get("memory.reserve")) // (2 * MIB) + PORT_HUGE_PAGES
    for path in (root / "README.md", root / "config/hpc7g.conf"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.search(r"vm\.nr_hugepages=(\d+)", line)
            if match and int(match[1]) != wanted:
                yield f"{path.relative_to(root)}:{number}: vm.nr_hugepages={match[1]}, but memory.reserve of config/hpc7g.conf asks for {wanted}"


def hosts_of_settings(root):
    """Files for a whole host: its CPUs but the first, and its memory."""
    template = documents(root / "config/deploy/ec2/launch-template.yaml")[0][1]
    types = {"config/hpc7g.conf": "hpc7g.16xlarge", "config/deploy/ec2/sluice.conf": template["Parameters"]["InstanceType"]["Default"]}
    for name, instance in types.items():
        settings = Settings((root / name).read_text())
        if not settings.cpus() <= set(range(1, HPC7G[instance])):
            yield f"{name}: lcores.cpus {settings.get('lcores.cpus')}: {instance} has 0-{HPC7G[instance] - 1}, and 0 takes interrupts"
        yield from (f"{name}: {wrong}" for wrong in (settings.serve() if "ec2" in name else ()))
        limit, reserve = (size_bytes(settings.get(f"memory.{key}").removesuffix("B")) for key in ("limit", "reserve"))
        if not limit <= reserve <= HPC7G_BYTES * 7 // 8:
            yield f"{name}: memory.limit {limit >> 30} GiB, memory.reserve {reserve >> 30} GiB: {instance} has {HPC7G_BYTES >> 30}"


# ---- Kubernetes ----

def kubernetes(root):
    folder = root / "config/deploy/kubernetes"
    page = (folder / "README.md").read_text()
    rules = schema("kubernetes")
    for path in sorted(folder.glob("*.yaml")):
        where = path.relative_to(root)
        objects = {}
        good = True
        for line, document in documents(path):
            kind = document.get("kind") if isinstance(document, dict) else None
            if kind not in rules["$defs"] or not str(kind)[:1].isupper():
                yield f"{where}:{line}: kind {kind}: not one of those that tests know"
                good = False
                continue
            for wrong in mismatches(document, {"$ref": f"#/$defs/{kind}", "$defs": rules["$defs"]}):
                yield f"{where}:{line}: {kind}.{wrong}"
                good = False
            objects[kind] = document
        if good:
            for wrong in stateful_set(root, path, objects, page):
                yield f"{where}: {wrong}"


def stateful_set(root, path, objects, page):
    config, service, workload = objects["ConfigMap"], objects["Service"], objects["StatefulSet"]
    pod = workload["spec"]["template"]["spec"]
    container = pod["containers"][0]
    labels = workload["spec"]["template"]["metadata"]["labels"]
    if not (workload["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels):
        yield "selectors and labels differ"
    if service["metadata"]["name"] != workload["spec"]["serviceName"]:
        yield f"serviceName {workload['spec']['serviceName']}: the Service is {service['metadata']['name']}"
    if "PodDisruptionBudget" in objects and objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] != labels:
        yield "the PodDisruptionBudget is of other pods"
    yield from resources(container["resources"], pod["nodeSelector"]["node.kubernetes.io/instance-type"])
    yield from identity(root, pod)
    yield from volumes(pod, container, config, page)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for port in service["spec"]["ports"]:
        if ports.get(port["targetPort"]) != port["port"]:
            yield f"port {port['port']} of the Service is none of the container's"
    if "sluice.conf" in config["data"]:
        yield from appliance(root, config["data"]["sluice.conf"], pod, container, ports)
    else:
        yield from matrix_pods(path.parent, config["data"], service, container, ports)


def resources(amounts, instance):
    if amounts["limits"] != amounts["requests"]:
        different = [key for key in amounts["limits"] if amounts["limits"][key] != amounts["requests"][key]]
        yield f"limits and requests differ in {', '.join(different)}"
    cores = HPC7G.get(instance.removeprefix("ml."))
    if cores is None:
        yield f"instance type {instance}: the EFA device plugin knows {', '.join(HPC7G)}"
    elif int(amounts["limits"]["cpu"]) >= cores:
        yield f"cpu {amounts['limits']['cpu']}: {instance} has {cores}, and the node's own pods need some"


def identity(root, pod):
    user = re.search(r"^USER (\d+):(\d+)", (root / "config/deploy/docker/Dockerfile").read_text(), re.MULTILINE)
    context = pod["securityContext"]
    if (str(context["runAsUser"]), str(context["runAsGroup"])) != user.groups() or context["fsGroup"] != context["runAsGroup"]:
        yield f"runAsUser {context['runAsUser']}: the image's user is {user[1]}:{user[2]}"


def volumes(pod, container, config, page):
    have = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        volume = have.get(mount["name"])
        if volume is None:
            yield f"no volume {mount['name']} for {mount['mountPath']}"
        elif "configMap" in volume:
            if volume["configMap"]["name"] != config["metadata"]["name"]:
                yield f"no ConfigMap {volume['configMap']['name']}"
            elif mount.get("subPath") not in config["data"]:
                yield f"the ConfigMap has no {mount.get('subPath')}"
        if volume and "emptyDir" not in volume and not mount.get("readOnly"):
            yield f"{mount['mountPath']} can be written to"
    for name in set(have) - {mount["name"] for mount in container["volumeMounts"]}:
        yield f"volume {name} is mounted nowhere"
    for volume in have.values():
        secret = volume.get("secret")
        if secret and f"kubectl create secret generic {secret['secretName']} " not in page:
            yield f"README.md does not create the secret {secret['secretName']}"
        for item in (secret or {}).get("items", []):
            if not re.search(rf"--from-(literal|file)={re.escape(item['key'])}=", page):
                yield f"README.md puts no {item['key']} into the secret {secret['secretName']}"


def probe_check(name, probe, word):
    command = (probe or {}).get("exec", {}).get("command", [])
    if command[:1] != ["sluicectl"] or command[-1] != word:
        yield f"{name}: expected sluicectl {word}, got {' '.join(command) or 'none'}"
    elif name == "startupProbe" and probe["periodSeconds"] * probe.get("failureThreshold", 3) < 60:
        yield f"{name}: a start with large memory takes longer than {probe['periodSeconds'] * probe.get('failureThreshold', 3)} s"
    elif command[1] != "-t" or int(command[2]) >= probe.get("timeoutSeconds", 1):
        yield f"{name}: timeoutSeconds must exceed sluicectl's -t {command[2]}"


def appliance(root, text, pod, container, ports):
    settings, wrong = settings_read(text)
    if wrong:
        yield f"sluice.conf: {wrong}"
        return
    docker = (root / "config/deploy/docker/Dockerfile").read_text()
    if 'ENTRYPOINT ["/usr/bin/sluiced"]' not in docker:
        yield "args are sluiced's, but the image's entry point is not /usr/bin/sluiced itself"
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    if container["args"][0] != "-c" or container["args"][1] not in mounts:
        yield f"args {container['args']}: expected -c and the settings that are mounted"
    included = re.findall(r'@include "([^"]*)"', text)
    for path in included:
        if os.path.dirname(path) not in mounts:
            yield f"{path} is included and mounted nowhere"
    if not included:
        yield "the password's digest is included from nowhere"
    if ports.get("resp") != int(settings.get("streams.port")):
        yield f"streams.port is {settings.get('streams.port')}, the container's port {ports.get('resp')}"
    ctl = {variable["name"]: variable["value"] for variable in container.get("env", [])}.get("SLUICE_CTL")
    if ctl != settings.get("management.socket") or os.path.dirname(ctl or "") not in mounts:
        yield f"SLUICE_CTL is {ctl}, management.socket {settings.get('management.socket')}"
    yield from (f"sluice.conf: {what}" for what in settings.serve())
    yield from memory(settings, size_bytes(container["resources"]["limits"]["hugepages-2Mi"]))
    cpus = int(container["resources"]["limits"]["cpu"])
    if settings.cpus() is not None and len(settings.cpus()) >= cpus:
        yield f"lcores.cpus names {len(settings.cpus())} CPUs of {cpus}: none is left to the management core"
    yield from probe_check("startupProbe", container.get("startupProbe"), "ready")
    yield from probe_check("readinessProbe", container.get("readinessProbe"), "ready")
    yield from probe_check("livenessProbe", container.get("livenessProbe"), "alive")
    stop = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
    if stop[:1] != ["timeout"] or stop[2:] != ["sluicectl", "drain", "--wait"]:
        yield f"preStop: expected timeout SECONDS sluicectl drain --wait, got {' '.join(stop) or 'none'}"
        return
    needed = int(stop[1]) + seconds(settings.get("shutdown.drain"))
    if pod["terminationGracePeriodSeconds"] <= needed + 5:
        yield (f"terminationGracePeriodSeconds {pod['terminationGracePeriodSeconds']}: preStop and shutdown.drain take {needed}, "
               "and ending some")


def memory(settings, huge_bytes):
    reserve = size_bytes(settings.get("memory.reserve").removesuffix("B"))
    if reserve + FABRIC_HUGE_BYTES > huge_bytes:
        yield (f"hugepages-2Mi: {huge_bytes // MIB}Mi, but memory.reserve {settings.get('memory.reserve')} and libfabric take "
               f"{(reserve + FABRIC_HUGE_BYTES) // MIB}Mi")


def matrix_pods(folder, data, service, container, ports):
    """The sshd of both pods, and the client that reaches it."""
    docker = (folder / "Dockerfile").read_text()
    entry = re.search(r'ENTRYPOINT \["/usr/sbin/sshd", "-D", "-e", "-f", "([^"]+)"\]', docker)
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    if entry is None or entry[1] not in mounts:
        yield "the image's sshd reads a file that is mounted nowhere"
    said = {name: dict(re.findall(r"^\s*(\w+) (\S.*)$", text, re.MULTILINE)) for name, text in data.items()}
    server, client = said["sshd_config"], said["ssh.conf"]
    if not (server["Port"] == client["Port"] == str(ports.get("ssh"))):
        yield f"ports of sshd, ssh and the container differ: {server['Port']}, {client['Port']}, {ports.get('ssh')}"
    wanted = {"AuthenticationMethods": "publickey", "StrictModes": "no", "UsePAM": "no", "AllowUsers": "sluice", "PidFile": "none"}
    for key in (key for key in wanted if server.get(key) != wanted[key]):
        yield f"sshd_config: {key} must be {wanted[key]}, for an sshd that is not root's"
    if client.get("User") != "sluice" or client.get("StrictHostKeyChecking") != "accept-new":
        yield "ssh.conf: nobody is there to be asked for a user or a host key"
    if client["Host"] != f"*.{service['metadata']['name']}":
        yield f"ssh.conf is for {client['Host']}, the pods are in {service['metadata']['name']}"
    for path in (server["HostKey"], server["AuthorizedKeysFile"], client["IdentityFile"], client["UserKnownHostsFile"]):
        if os.path.dirname(path) not in mounts:
            yield f"{path} is mounted nowhere"
    if "/tmp" not in mounts:
        yield "/tmp is read-only: matrix keeps each server's settings there"


# ---- SkyPilot ----

def skypilot(root):
    folder = root / "config/deploy/skypilot"
    settings = Settings((folder / "sluice.conf").read_text())
    rules = schema("skypilot")
    yield from (f"{(folder / 'sluice.conf').relative_to(root)}: {wrong}" for wrong in settings.serve())
    for path in sorted(folder.glob("*.yaml")):
        where = path.relative_to(root)
        for line, task in documents(path):
            wrong = list(mismatches(task, rules))
            yield from (f"{where}:{line}: {text}" for text in wrong or task_check(folder, path.stem, task, settings))


def task_check(folder, form, task, settings):
    for step in ("setup", "run"):
        script = folder / task[step].split()[-1]
        if not os.access(script, os.X_OK):
            yield f"{step}: no program {script.name} beside it"
    for name in task["envs"]:
        if not re.search(rf"\${name}\b", (folder / "run.sh").read_text() + (folder / "setup.sh").read_text()):
            yield f"envs.{name} is read by neither setup.sh nor run.sh"
    wanted = "10022" if form == "container" else "22"
    if task["envs"]["SSH_PORT"] != wanted:
        yield f"envs.SSH_PORT: this form's sshd listens on {wanted}"
    if "config" in task:
        spec = task["config"]["kubernetes"]["pod_config"]["spec"]
        amounts = spec["containers"][0]["resources"]
        amounts = {kind: {**amounts[kind], "cpu": str(task["resources"]["cpus"])} for kind in amounts}
        yield from resources(amounts, spec["nodeSelector"]["node.kubernetes.io/instance-type"])
        yield from memory(settings, size_bytes(amounts["limits"]["hugepages-2Mi"]))
        if task["envs"]["USE_EFA"] != "true":
            yield "envs.USE_EFA: the pods have EFA"
    else:
        listed = task["resources"]["instance_type"].startswith(SKYPILOT_EFA)
        if (task["envs"]["USE_EFA"] == "true") != listed:
            yield f"envs.USE_EFA: network_tier gives {task['resources']['instance_type']} {'' if listed else 'no '}EFA"


# ---- ParallelCluster ----

def parallelcluster(root):
    folder = root / "config/deploy/parallelcluster"
    path = folder / "cluster.yaml"
    where = path.relative_to(root)
    _, cluster = documents(path)[0]
    wrong = list(mismatches(cluster, schema("parallelcluster")))
    yield from (f"{where}: {text}" for text in wrong)
    if wrong:
        return
    queue = cluster["Scheduling"]["SlurmQueues"][0]
    script = queue["CustomActions"]["OnNodeConfigured"]["Script"]
    if not (folder / script.rpartition("/")[2]).exists():
        yield f"{where}: no {script.rpartition('/')[2]} beside it"
    if {"BucketName": script.split("/")[2], "KeyName": script.rpartition("/")[2]} not in queue["Iam"]["S3Access"]:
        yield f"{where}: nodes may not read {script}"
    job = (folder / "matrix.sbatch").read_text()
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", job, re.MULTILINE))
    if options.get("partition") != queue["Name"]:
        yield f"{where}: the queue is {queue['Name']}, matrix.sbatch asks for {options.get('partition')}"
    if int(options.get("nodes", 0)) > queue["ComputeResources"][0]["MaxCount"] or options.get("nodes") != "2":
        yield f"{where}: matrix.sbatch asks for {options.get('nodes')} nodes"
    listed = set(re.findall(r"^(lib[a-z0-9]+-dev|zlib1g-dev)\b", (SOURCE / "tools/packages.run").read_text(), re.MULTILINE))
    listed -= {"libc6-dev", "libfabric-dev", "libdpdk-dev"}  # the compiler's; Amazon's own; linked into the module
    asked = set(re.findall(r"\b(?:lib|zlib)[a-z0-9]+-dev\b", (folder / "node.sh").read_text()))
    for name in sorted(listed ^ asked):
        yield f"{folder.relative_to(root)}/node.sh: {name} is only in {'tools/packages.run' if name in listed else 'node.sh'}"


# ---- CloudFormation ----

def references(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("Ref", "GetAtt"):
                yield inner.partition(".")[0]
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def cloudformation(root):
    path = root / "config/deploy/ec2/launch-template.yaml"
    where = path.relative_to(root)
    _, template = documents(path)[0]
    rules = schema("cloudformation")
    wrong = list(mismatches(template, rules))
    for name, resource in template.get("Resources", {}).items() if not wrong else ():
        known = rules["$defs"]["properties"].get(resource["Type"])
        if known is None:
            wrong.append(f"{name}: type {resource['Type']}: not one of those that tests know")
            continue
        exact = {**known, "type": "object", "additionalProperties": False, "$defs": rules["$defs"]}
        wrong += [f"{name}.{text}" for text in mismatches(resource.get("Properties", {}), exact)]
    if not wrong:
        wrong = [*template_names(template), *template_hosts(template["Resources"]), *template_page(root, template)]
    return [f"{where}: {text}" for text in wrong]


def template_names(template):
    known = set(template["Parameters"]) | set(template["Resources"])
    for name in sorted(set(references(template)) - known):
        yield f"!Ref {name}: neither a parameter nor a resource"
    for name, resource in template["Resources"].items():
        for other in [resource.get("DependsOn", [])] if isinstance(resource.get("DependsOn"), str) else resource.get("DependsOn", []):
            if other not in template["Resources"]:
                yield f"{name}: DependsOn {other}: no such resource"
    for name in sorted(set(template["Parameters"]) - set(references(template))):
        yield f"parameter {name} is used nowhere"


def template_hosts(made):
    """What EFA needs: one group that lets itself through both ways, one placement group, interfaces of both kinds."""
    data = made["LaunchTemplate"]["Properties"]["LaunchTemplateData"]
    kinds = [(card["DeviceIndex"], card["InterfaceType"]) for card in data["NetworkInterfaces"]]
    if kinds != [(0, "efa"), (1, "interface")]:
        yield f"interfaces are {kinds}: expected 0 with EFA and an address, 1 of ENA"
    if "memlock unlimited" not in data["UserData"]["Fn::Base64"]:
        yield "UserData: servers that are started by ssh need locked memory"
    subnets = [card["SubnetId"] for card in data["NetworkInterfaces"]]
    if subnets[0] != subnets[1]:
        yield "both interfaces must be in one subnet"
    groups = {group["Ref"] for card in data["NetworkInterfaces"] for group in card["Groups"]}
    for kind, key in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        own = {rule["Properties"]["GroupId"]["Ref"] for rule in made.values()
               if rule["Type"] == f"AWS::EC2::SecurityGroup{kind}" and rule["Properties"]["GroupId"] == rule["Properties"][key]}
        for group in sorted(groups - own):
            yield f"{group} does not let its own traffic {'in' if kind == 'Ingress' else 'out'}: EFA needs it"
    if made[data["Placement"]["GroupName"]["Ref"]]["Type"] != "AWS::EC2::PlacementGroup":
        yield "Placement.GroupName is no placement group"
    hosts = [made_one for made_one in made.values() if made_one["Type"] == "AWS::EC2::Instance"]
    if len(hosts) < 2:
        yield "two hosts are needed"


def template_page(root, template):
    """Parameters and outputs that pages name."""
    for page in (root / "README.md", root / "config/deploy/ec2/README.md", root / "config/deploy/ec2/launch-template.yaml"):
        text = page.read_text()
        for words in re.findall(r"--parameter-overrides ((?:\w+=\S+\s*)+)", text):
            for name in re.findall(r"(\w+)=", words):
                if name not in template["Parameters"]:
                    yield f"{page.relative_to(root)} gives {name}, which is no parameter"
        for name in re.findall(r"OutputKey==`(\w+)`", text) + re.findall(r"\boutput ([A-Z]\w+)", text):
            if name not in template["Outputs"]:
                yield f"{page.relative_to(root)} asks for {name}, which is no output"


def cfn_lint(root):
    """Another's opinion, where it is installed; None: it is not."""
    program = shutil.which("cfn-lint")
    if program is None or subprocess.run([program, "--version"], capture_output=True, timeout=60, check=False).returncode != 0:
        return None
    done = subprocess.run([program, "--format", "parseable", "config/deploy/ec2/launch-template.yaml"], cwd=root, capture_output=True,
                          text=True, timeout=120, check=False)
    return (done.stdout + done.stderr).strip().splitlines() if done.returncode else []


# ---- the whole ----

@functools.lru_cache(maxsize=None)
def lint_problems(text, rules):
    return tuple(yamllint.linter.run(text, rules))


@functools.lru_cache(maxsize=None)
def lint_rules():
    return yamllint.config.YamlLintConfig(file=HERE / "yamllint.yaml")


def yaml_lint(root):
    for path in sorted((root / "config/deploy").glob("*/*.yaml")):
        for problem in lint_problems(path.read_text(), lint_rules()):
            yield f"{path.relative_to(root)}:{problem.line}: {problem.message}"


def check(root):
    findings = list(yaml_lint(root))
    for look in (conf_files, huge_pages_of_readme, hosts_of_settings, kubernetes, skypilot, parallelcluster, cloudformation):
        try:
            findings += look(root)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            findings.append(f"{look.__name__}: {mark.line + 1 if mark else '?'}: {getattr(error, 'problem', error)}")
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # what schemas or sluiced complained of
            findings.append(f"{look.__name__}: what it compares is not there: {error!r}")
    return findings
