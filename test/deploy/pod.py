"""pod.py - the pod of config/deploy/kubernetes/appliance.yaml by its own words: the arguments start it as user 10001, the probes find it
ready and alive, the preStop hook drains it, and SIGTERM ends it within the grace period. Without EFA and with little memory."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from commands import BUILD, SOURCE
from documents import DIGEST, documents

READY_S = 30
HERE_ONLY = ("ports=()", "memory.reserve=256MiB", "lcores.idle=yield", "streams.port=0")  # what this machine has


class Pod(unittest.TestCase):
    def setUp(self):
        objects = {document["kind"]: document for _, document in documents(SOURCE / "config/deploy/kubernetes/appliance.yaml")}
        self.pod = objects["StatefulSet"]["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.user = {}
        if os.geteuid() == 0:
            context = self.pod["securityContext"]
            self.user = {"user": context["runAsUser"], "group": context["runAsGroup"], "extra_groups": [context["fsGroup"]]}
            os.chown(self.folder, context["runAsUser"], context["runAsGroup"])
        # Each mount's folder below ours.
        for path in ("/etc/sluice/auth", "/run/sluice"):
            os.makedirs(self.here(path))
            os.chmod(self.here(path), 0o777)
        (pathlib.Path(self.here("/etc/sluice/auth")) / "auth.conf").write_text(f'auth: {{ password = "{DIGEST}"; }};\n')
        text = objects["ConfigMap"]["data"]["sluice.conf"]
        pathlib.Path(self.here("/etc/sluice/sluice.conf")).write_text(
            text.replace("/etc/sluice", self.here("/etc/sluice")).replace("/run/sluice", self.here("/run/sluice")))
        self.environment = {"PATH": f"{BUILD}:{os.environ['PATH']}",
                            **{variable["name"]: self.here(variable["value"]) for variable in self.container["env"]}}

    def here(self, path):
        return str(self.folder) + path if path.startswith(("/etc/sluice", "/run/sluice")) else path

    def code(self, command, timeout_s):
        """As the kubelet does: in the container, and no longer than it may take."""
        return subprocess.run(command, env=self.environment, timeout=timeout_s + 5, capture_output=True, check=False, **self.user).returncode

    def probe(self, name):
        return self.code(self.container[name]["exec"]["command"], self.container[name]["timeoutSeconds"])

    def test_it_starts_is_ready_and_alive_drains_and_ends(self):
        words = [str(BUILD / "sluiced"), *(self.here(word) for word in self.container["args"])]
        for setting in HERE_ONLY:
            words += ["--set", setting]
        self.assertNotEqual(self.probe("readinessProbe"), 0)  # before it runs
        with open(self.folder / "log", "wb") as log:
            process = subprocess.Popen(words, env=self.environment, stdout=log, stderr=log, **self.user)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + READY_S
        while self.probe("startupProbe") != 0:
            self.assertIsNone(process.poll(), (self.folder / "log").read_text())
            self.assertLess(time.monotonic(), deadline, (self.folder / "log").read_text())
            time.sleep(0.1)
        self.assertEqual((self.probe("readinessProbe"), self.probe("livenessProbe")), (0, 0))
        hook = self.container["lifecycle"]["preStop"]["exec"]["command"]
        self.assertEqual(self.code(hook, int(hook[1])), 0)
        self.assertNotEqual(self.probe("readinessProbe"), 0)  # draining: no new clients
        self.assertEqual(self.probe("livenessProbe"), 0)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(self.pod["terminationGracePeriodSeconds"]), 0, (self.folder / "log").read_text())


if __name__ == "__main__":
    unittest.main()
