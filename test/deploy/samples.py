"""samples.py - the files of config/deploy themselves: YAML, the schemas beside this file, settings as sluiced reads them, and the
numbers and names that must agree between a sample, its page, its settings and the image."""

import functools
import os
import re
import shutil
import subprocess

import yaml
import yamllint.config
import yamllint.linter

from commands import SOURCE
from documents import DIGEST, HERE, HPC7G, HPC7G_BYTES, MIB, Settings, documents, mismatches, schema, settings_read, size_bytes
from kubernetes import kubernetes, memory, resources

# What SkyPilot's network_tier: best gives EFA to, in the version read.
SKYPILOT_EFA = ("g4dn.", "g5.", "g6.", "gr6.", "g6e.", "p4d.", "p4de.", "p5.", "p5e.", "p5en.", "p6-b200.")
PORT_HUGE_PAGES = 128  # what README.md adds for the ethernet port


# ---- settings ----

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


# ---- SkyPilot ----

def skypilot(root):
    folder = root / "config/deploy/skypilot"
    settings = Settings((folder / "sluice.conf").read_text())
    rules = schema("skypilot")
    yield from (f"{(folder / 'sluice.conf').relative_to(root)}: {wrong}" for wrong in settings.serve())
    page = folder / "README.md"
    for kind, name in re.findall(r"--(env|secret) (\w+)", page.read_text()):
        if any(name not in task[kind + "s"] for path in folder.glob("*.yaml") for _, task in documents(path)):
            yield f"{page.relative_to(root)}: --{kind} {name}: not every task has it"
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
    if '--server "${nodes[1]}"' not in job:
        yield f"{where}: matrix.sbatch runs on the first node, and its server must be the second one"
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
        wrong = list(template_names(template))
    if not wrong:
        made = template["Resources"]
        wrong = [*template_kinds(made, made), *template_kinds(made, template["Outputs"]), *template_hosts(made), *template_page(root, template)]
        if not template["Parameters"]["ImageId"]["Default"].endswith("/arm64"):
            wrong.append("ImageId: hpc7g is arm64")
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


# What a property that names another resource may name, and which attributes there are of whom.
NAMED = {"SubnetId": "Subnet", "VpcId": "VPC", "RouteTableId": "RouteTable", "NatGatewayId": "NatGateway", "LaunchTemplateId": "LaunchTemplate",
         "GatewayId": "InternetGateway", "InternetGatewayId": "InternetGateway", "GroupId": "SecurityGroup",
         "SecurityGroupIds": "SecurityGroup", "Groups": "SecurityGroup"}
ATTRIBUTES = {("EIP", "AllocationId"), ("LaunchTemplate", "LatestVersionNumber"), ("Instance", "PrivateIp")}


def template_kinds(made, value):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for one in inner if isinstance(inner, list) else [inner]:
            if key in NAMED and made[one["Ref"]]["Type"] != f"AWS::EC2::{NAMED[key]}":
                yield f"{key} {one['Ref']}: no {NAMED[key]}"
        if key == "GetAtt":
            name, _, attribute = inner.partition(".")
            if (made[name]["Type"].rpartition(":")[2], attribute) not in ATTRIBUTES:
                yield f"!GetAtt {inner}: no such attribute"
        yield from template_kinds(made, inner)


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
    first = {name for name, made_one in made.items() if made_one["Type"].startswith("AWS::EC2::SecurityGroup") and name not in groups}
    first |= {name for name, made_one in made.items() if "NatGatewayId" in made_one.get("Properties", {})}
    for host in hosts:
        if not first <= set(host.get("DependsOn", [])):
            yield f"a host starts before {', '.join(sorted(first - set(host.get('DependsOn', []))))}"
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
