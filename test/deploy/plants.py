"""plants.py - drifts planted one at a time in a copy of the samples, and in what the programs say of themselves: each must be found, in
the file where it is, with its cause. A check that finds nothing proves nothing.

    plants.py [-v]"""

import pathlib
import shutil
import sys
import tempfile

import check
import commands
from commands import SOURCE

DEPLOY = "config/deploy/"
APPLIANCE = DEPLOY + "kubernetes/appliance.yaml"
MATRIX = DEPLOY + "kubernetes/matrix.yaml"
SKY = DEPLOY + "skypilot/"
CLUSTER = DEPLOY + "parallelcluster/"
EC2 = DEPLOY + "ec2/launch-template.yaml"

# File, what is there, what takes its place (once), words of the finding; the finding's file when it is another one.
PLANTS = [
    # YAML
    (APPLIANCE, "  replicas: 1", "  replicas: [1", "expected"),
    (APPLIANCE, "  replicas: 1", "  replicas: 1\n  replicas: 2", "duplicat"),
    (MATRIX, "kind: StatefulSet", "kind: StatefulSet  ", "trailing spaces"),
    # fields and values
    (APPLIANCE, "readOnlyRootFilesystem: true", "readonlyRootFilesystem: true", "readonlyRootFilesystem"),
    (APPLIANCE, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRootFilesystem: True was expected"),
    (APPLIANCE, "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot"),
    (APPLIANCE, 'drop: ["ALL"]', 'drop: ["NET_RAW"]', "capabilities"),
    (APPLIANCE, "kind: PodDisruptionBudget", "kind: PodDisruptionBudge", "PodDisruptionBudge"),
    (APPLIANCE, "type: RuntimeDefault", "type: Unconfined", "seccompProfile"),
    (MATRIX, "automountServiceAccountToken: false", "automountServiceAccountToken: true", "automountServiceAccountToken"),
    (SKY + "kubernetes.yaml", "num_nodes: 2", "num_node: 2", "num_node"),
    (SKY + "kubernetes.yaml", "num_nodes: 2", "num_nodes: 1", "num_nodes: 1 is less"),
    (SKY + "vm.yaml", "network_tier: best", "network_teir: best", "network_te"),
    (CLUSTER + "cluster.yaml", "Efa:\n            Enabled: true", "Efa:\n            Enabled: false", "Efa"),
    (CLUSTER + "cluster.yaml", "PlacementGroup:", "PlacementGroups:", "PlacementGroup"),
    (EC2, "DeleteOnTermination: true\n          - ", "DeleteOnTerminate: true\n          - ", "DeleteOnTerminat"),
    (EC2, "Strategy: cluster", "Strategy: spread", "Strategy"),
    (EC2, "AWS::EC2::NatGateway", "AWS::EC2::NATGateway", "NATGateway"),
    # resources
    (APPLIANCE, "vpc.amazonaws.com/efa: 1\n            requests", "vpc.amazonaws.com/efa: 2\n            requests", "efa: 1 was expected"),
    (APPLIANCE, "vpc.amazonaws.com/efa: 1", "aws.amazon.com/efa: 1", "efa"),
    (APPLIANCE, "memory: 16Gi", "memory: 32Gi", "limits and requests differ in memory"),
    (APPLIANCE, "              memory: 16Gi\n", "", "'memory' is a required property"),
    (MATRIX, 'cpu: "14"', 'cpu: "14500m"', "14500m"),
    (MATRIX, "instance-type: hpc7g.4xlarge", "instance-type: hpc7g.2xlarge", "hpc7g.2xlarge"),
    (APPLIANCE, 'reserve = "4GiB"', 'reserve = "5GiB"', "hugepages-2Mi"),
    (SKY + "sluice.conf", 'reserve = "4GiB"', 'reserve = "8GiB"', "hugepages-2Mi", SKY + "kubernetes.yaml"),
    (SKY + "kubernetes.yaml", "hugepages-2Mi: 5120Mi", "hugepages-2Mi: 4096Mi", "limits and requests differ"),
    (SKY + "kubernetes.yaml", "cpus: 14 ", "cpus: 16 ", "hpc7g.4xlarge has 16"),
    (APPLIANCE, 'cpus = "auto"', 'cpus = "0-13"', "none is left"),
    ("README.md", "vm.nr_hugepages=49280", "vm.nr_hugepages=49152", "asks for 49280"),
    (DEPLOY + "ec2/sluice.conf", 'cpus = "1-15"', 'cpus = "1-47"', "hpc7g.4xlarge has 0-15"),
    ("config/hpc7g.conf", 'limit = "92GiB"', 'limit = "98GiB"', "memory.limit"),
    (APPLIANCE, 'provider = "efa"', 'provider = "shm"', "no fabric port of provider efa"),
    (APPLIANCE, 'address = "0.0.0.0"', 'address = "127.0.0.1"', "clients attach from other hosts"),
    # life and death
    (APPLIANCE, '["sluicectl", "-t", "5", "alive"]', '["sluicectl", "-t", "5", "ready"]', "livenessProbe: expected sluicectl alive"),
    (APPLIANCE, "timeoutSeconds: 6", "timeoutSeconds: 5", "timeoutSeconds must exceed"),
    (APPLIANCE, "livenessProbe:", "livelinessProbe:", "livelinessProbe"),
    (APPLIANCE, "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 30", "preStop and shutdown.drain take 30"),
    (APPLIANCE, 'drain = "10s"', 'drain = "60s"', "preStop and shutdown.drain take 80"),
    (APPLIANCE, '"20", "sluicectl", "drain", "--wait"', '"20", "sluicectl", "drain"', "preStop: expected"),
    # names and numbers that must agree
    (APPLIANCE, "port = 6379;", "port = 6380;", "streams.port is 6380"),
    (APPLIANCE, "      targetPort: resp", "      targetPort: respp", "port 6379 of the Service"),
    (APPLIANCE, "runAsUser: 10001", "runAsUser: 1000", "the image's user is 10001"),
    (APPLIANCE, "secretName: sluice-auth", "secretName: sluice-pass", "does not create the secret sluice-pass"),
    (APPLIANCE, "            - name: run\n", "            - name: runs\n", "no volume runs"),
    (APPLIANCE, "subPath: sluice.conf", "subPath: sluced.conf", "the ConfigMap has no sluced.conf"),
    (APPLIANCE, "value: /run/sluice/ctl.sock", "value: /run/sluice/control.sock", "SLUICE_CTL"),
    (APPLIANCE, '@include "/etc/sluice/auth/auth.conf"', '@include "/etc/sluice/key/auth.conf"', "mounted nowhere"),
    (DEPLOY + "docker/Dockerfile", "USER 10001:10001", "USER 1:1", "the image's user is 1:1", APPLIANCE),
    (DEPLOY + "docker/Dockerfile", 'ENTRYPOINT ["/usr/bin/sluiced"]', 'ENTRYPOINT ["sh", "-c", "sluiced"]', "entry point", APPLIANCE),
    (MATRIX, "    Port 2222\n    HostKey", "    Port 22\n    HostKey", "ports of sshd, ssh and the container differ"),
    (MATRIX, "Host *.sluice-matrix", "Host *.sluice", "ssh.conf is for *.sluice"),
    (MATRIX, "    UsePAM no\n", "", "UsePAM must be no"),
    (APPLIANCE, "mountPath: /etc/sluice/auth\n              readOnly: true", "mountPath: /etc/sluice/auth", "can be written to"),
    (SKY + "vm.yaml", 'USE_EFA: "false"', 'USE_EFA: "true"', "gives hpc7g.4xlarge no EFA"),
    (SKY + "container.yaml", 'SSH_PORT: "10022"', 'SSH_PORT: "22"', "listens on 10022"),
    (SKY + "setup.sh", "  Port $SSH_PORT", "  Port 22", "SSH_PORT is read by neither", SKY + "kubernetes.yaml"),
    (CLUSTER + "matrix.sbatch", "--partition=hpc7g", "--partition=hpc", "matrix.sbatch asks for hpc", CLUSTER + "cluster.yaml"),
    (CLUSTER + "node.sh", " libconfig-dev", "", "libconfig-dev is only in tools/packages.run"),
    (CLUSTER + "cluster.yaml", "KeyName: node.sh", "KeyName: nodes.sh", "nodes may not read"),
    (EC2, "DestinationSecurityGroupId: !Ref HostGroup", "DestinationSecurityGroupId: !Ref Vpc", "does not let its own traffic out"),
    (EC2, "SourceSecurityGroupId: !Ref HostGroup", "SourceSecurityGroupId: !Ref HostGroups", "HostGroups"),
    (EC2, "InterfaceType: efa", "InterfaceType: interface", "expected 0 with EFA"),
    ("README.md", "AvailabilityZone=us-east-1a", "Zone=us-east-1a", "gives Zone, which is no parameter", EC2),
    ("README.md", "$(output ApplianceAddress)", "$(output ServerAddress)", "asks for ServerAddress", EC2),
    (APPLIANCE, "huge_pages = true", "huge_pages = false", "memory.huge_pages"),
    (MATRIX, "replicas: 2", "replicas: 1", "between two pods"),
    (MATRIX, "key/id.pub", "key/id_pub", "puts no id_pub"),
    (APPLIANCE, '"timeout", "20"', '"timeout", "19"', "README.md says something else"),
    (DEPLOY + "kubernetes/Dockerfile", "USER 10001:10001", "USER 0", "the matrix's image runs as 0", MATRIX),
    (DEPLOY + "kubernetes/README.md", "statefulset/sluice\n", "statefulset/sluiced\n", "statefulset/sluiced"),
    (DEPLOY + "kubernetes/README.md", "kubectl exec sluice-0", "kubectl exec sluiced-0", "sluiced-N"),
    (DEPLOY + "kubernetes/README.md", "sluice-matrix-0.sluice-matrix", "sluice-matrix-0.matrix", "sluice-matrix-0.matrix"),
    (DEPLOY + "kubernetes/README.md", "default.svc:6379", "default.svc:6380", "default.svc:6380"),
    (APPLIANCE, "REGISTRY/sluice:0.1.0", "REGISTRY/sluice:0.0.9", "version 0.0.9"),
    (SKY + "README.md", "--env USE_EFA=false", "--env USE_EFFA=false", "--env USE_EFFA"),
    (CLUSTER + "matrix.sbatch", '"${nodes[1]}" --floor', '"${nodes[0]}" --floor', "must be the second one", CLUSTER + "cluster.yaml"),
    (CLUSTER + "README.md", "-Ddpdk=", "-Ddpkd=", "no option dpkd"),
    (EC2, "SecurityGroupIds: [!Ref HostGroup]", "SecurityGroupIds: [!Ref PublicSubnet]", "SecurityGroupIds PublicSubnet"),
    (EC2, "Appliance.PrivateIp", "Appliance.PrivateIpp", "no such attribute"),
    (EC2, "[PrivateRoute, HostGroupIn, HostGroupOut]", "[PrivateRoute]", "a host starts before HostGroupIn, HostGroupOut"),
    (EC2, "latest/arm64", "latest/amd64", "hpc7g is arm64"),
    (EC2, "PreserveClientIp: false", "PreserveClientIp: true", "PreserveClientIp"),
    ("README.md", "tools/package arm64     ", "tools/package aarch64     ", "makes none for aarch64"),
    # the programs' options, commands and settings
    (APPLIANCE, 'huge_pages = true', 'hugepages = true', "hugepages"),
    (SKY + "sluice.conf", 'provider = "efa"', 'provider = "efaa"', "efaa"),
    ("config/hpc7g.conf", 'lease = "10s"', 'lease = "10"', "lease"),
    (SKY + "run.sh", "--server \"$appliance\"", "--sever \"$appliance\"", "matrix has no option --sever"),
    (SKY + "run.sh", "sluice-bench sweep", "sluice-bench sweeps", "no command 'sweeps'"),
    (SKY + "run.sh", "' shutdown", "' halt", "no command 'halt'"),
    (SKY + "run.sh", "auth.password=#", "auth.passwort=#", "no setting 'auth.passwort'"),
    (CLUSTER + "matrix.sbatch", "--floor", "--providers efa,efa", "is there twice"),
    (DEPLOY + "kubernetes/README.md", "--server sluice-matrix-0", "--servers sluice-matrix-0", "no option --servers"),
    (DEPLOY + "kubernetes/README.md", "sluicectl drain --wait", "sluicectl drain --await", "no option --await"),
    (DEPLOY + "kubernetes/README.md", "`memory.reserve` and", "`memory.reserved` and", "no setting 'memory.reserved'"),
    ("README.md", "sluice-appliance apply --boot", "sluice-appliance apply --now", "no option --now"),
    ("README.md", "sluice-bench rank --operations table", "sluice-bench rank --operation table", "no option --operation"),
    ("README.md", "--set streams.port=7000", "--set streams.ports=7000", "streams.ports"),
    ("README.md", 'rank --operations table\n', 'rank --operations "table\n', "not shell"),
    (DEPLOY + "kubernetes/README.md", "digest=$(printf", "digest=$((printf", "not shell"),
    (DEPLOY + "systemd/sluiced.service.in", "sluicectl config reload", "sluicectl config reread", "sluicectl config has no 'reread'"),
    (CLUSTER + "matrix.sbatch", "--sluiced \"$sluice", "--program \"$sluice", "sluice-appliance has no option --program"),
    # files
    (DEPLOY + "README.md", "skypilot/README.md", "skypilot/READ.md", "no file skypilot/READ.md"),
    (DEPLOY + "ec2/README.md", "| host.sh |", "| `hosts.sh` |", "no file hosts.sh"),
    ("README.md", "config/deploy/ec2/host.sh", "config/deploy/ec2/hosts.sh", "no file config/deploy/ec2/hosts.sh"),
]


# Program, what its help calls something, what it calls it from now on, words of a finding.
PROGRAMS_CHANGED = [
    ("sluice-bench", "--floor", "--base", "sluice-bench matrix has no option --floor"),
    ("sluice-bench", "  sweep  ", "  sizes  ", "sluice-bench has no command 'sweep'"),
    ("sluicectl", "  alive  ", "  living  ", "sluicectl has no command 'alive'"),
    ("sluice-cli", "  -e   ", "  -E   ", "sluice-cli has no option -e"),
]


def copy(folder):
    tree = pathlib.Path(folder) / "tree"
    shutil.copytree(SOURCE / "config", tree / "config", ignore=shutil.ignore_patterns("*.c", "__pycache__"))
    shutil.copy(SOURCE / "README.md", tree)
    return tree


def plant(tree, plant_row):
    """None: found as it must be. Else what was found instead."""
    name, old, new, words = plant_row[:4]
    path = tree / name
    text = path.read_text()
    if old not in text:
        return f"{name} does not have {old!r} any more"
    path.write_text(text.replace(old, new, 1))
    try:
        findings = check.check(tree)
    finally:
        path.write_text(text)
    where = plant_row[4] if len(plant_row) > 4 else name
    for finding in findings:
        if finding.startswith(where) and words in finding:
            return None
    return f"{name}: {new!r}: expected {where} ... {words}, found {findings or 'nothing'}"


def change(folder, tree, row):
    """None: the samples no longer fit the changed program, and that was found."""
    name, old, new, words = row
    programs, build = pathlib.Path(folder) / "programs", commands.BUILD
    programs.mkdir()
    for program in commands.PROGRAMS:
        (programs / program).symlink_to(build / program)
    (programs / name).unlink()
    (programs / name).write_text(f"#!/bin/bash\nset -o pipefail\n'{build / name}' \"$@\" 2>&1 | sed 's/{old}/{new}/g'\n")
    (programs / name).chmod(0o755)
    commands.BUILD = programs
    try:
        commands.forget()
        findings = check.check(tree)
    finally:
        commands.BUILD = build
        commands.forget()
        shutil.rmtree(programs)
    if any(words in finding for finding in findings):
        return None
    return f"{name}: {new!r} for {old!r}: expected {words}, found {findings or 'nothing'}"


def main():
    failed = 0
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        tree = copy(folder)
        clean = check.check(tree)
        if clean:
            print("the copy is not clean:", *clean, sep="\n")
            return 1
        for row in PLANTS:
            wrong = plant(tree, row)
            failed += wrong is not None
            if wrong or "-v" in sys.argv:
                print(wrong or f"found: {row[0]}: {row[2]!r}")
        for row in PROGRAMS_CHANGED:
            wrong = change(folder, tree, row)
            failed += wrong is not None
            if wrong or "-v" in sys.argv:
                print(wrong or f"found: {row[0]}: {row[2]!r}")
    print(f"{len(PLANTS) + len(PROGRAMS_CHANGED)} drifts planted, {failed} not found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
