"""kubernetes.py - the objects of config/deploy/kubernetes: fields, and what must agree among pod, settings, image and page."""

import os
import re

from documents import FABRIC_HUGE_BYTES, HPC7G, MIB, documents, mismatches, schema, seconds, settings_read, size_bytes


def kubernetes(root):
    folder = root / "config/deploy/kubernetes"
    page = (folder / "README.md").read_text()
    rules = schema("kubernetes")
    names = []
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
            names.append((objects["StatefulSet"]["metadata"]["name"], objects["Service"]))
    yield from (f"{(folder / 'README.md').relative_to(root)}: {wrong}" for wrong in page_names(page, names))


def page_names(page, names):
    """Objects and addresses that the page's commands name."""
    sets = {name for name, _ in names}
    for name in re.findall(r"\bstatefulset/([\w-]+)", page):
        if name not in sets:
            yield f"statefulset/{name}: there is none"
    for name in re.findall(r"kubectl (?:exec|cp) (?:-it )?([a-z][\w-]*)-\d", page):
        if name not in sets:
            yield f"{name}-N: no pod has this name"
    hosts = {f"{name}-0.{service['metadata']['name']}" for name, service in names}
    for host in re.findall(r"--server (\S+)", page):
        if host not in hosts:
            yield f"--server {host}: no pod has this name"
    ports = {(service["metadata"]["name"], str(port["port"])) for _, service in names for port in service["spec"]["ports"]}
    for at in re.findall(r"\b([\w-]+)\.default\.svc:(\d+)", page):
        if at not in ports:
            yield f"{at[0]}.default.svc:{at[1]}: no Service has this name and port"


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
        if workload["spec"]["replicas"] != 2:
            yield f"replicas {workload['spec']['replicas']}: the matrix is between two pods"
        yield from matrix_pods(path.parent, config["data"], service, container, ports)
        yield from matrix_key(config["data"], page)


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
    last = re.findall(r"^USER (\S+)", (root / "config/deploy/kubernetes/Dockerfile").read_text(), re.MULTILINE)[-1]
    if last != f"{user[1]}:{user[2]}":
        yield f"the matrix's image runs as {last}"


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
    if f"lets sessions go for {stop[1]} s" not in (root / "config/deploy/kubernetes/README.md").read_text():
        yield f"preStop takes {stop[1]} s, README.md says something else"
    needed = int(stop[1]) + seconds(settings.get("shutdown.drain"))
    if pod["terminationGracePeriodSeconds"] <= needed + 5:
        yield (f"terminationGracePeriodSeconds {pod['terminationGracePeriodSeconds']}: preStop and shutdown.drain take {needed}, "
               "and ending some")


def memory(settings, huge_bytes):
    if settings.get("memory.huge_pages") != "true":
        yield "memory.huge_pages: the pod asks for huge pages, and its other memory does not hold the reserve"
    reserve = size_bytes(settings.get("memory.reserve").removesuffix("B"))
    if reserve + FABRIC_HUGE_BYTES > huge_bytes:
        yield (f"hugepages-2Mi: {huge_bytes // MIB}Mi, but memory.reserve {settings.get('memory.reserve')} and libfabric take "
               f"{(reserve + FABRIC_HUGE_BYTES) // MIB}Mi")


def matrix_key(data, page):
    made = set(re.findall(r"--from-file=([\w.-]+)=", page))
    for path in re.findall(r"/etc/sluice-matrix/key/(\S+)", "\n".join(data.values())):
        if path not in made:
            yield f"README.md puts no {path} into the key's secret"


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
