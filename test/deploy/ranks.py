"""ranks.py - setup.sh and run.sh of config/deploy/skypilot as SkyPilot runs them, three ranks at once on this machine in a network
of their own: the matrix, the appliance, the load, and the end of all of them. The ssh is ours and stays here; runs are short."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from commands import BUILD, SOURCE

SKIPPED = 77
RANKS = 3
TIME_S = 100
# What each program gets besides: little memory, few samples, one row of the matrix.
MORE = {
    "sluiced": 'exec {build}/sluiced "$@" --set memory.reserve=256MiB --set lcores.idle=yield',
    "sluicectl": 'exec {build}/sluicectl "$@"',
    "sluice-cli": 'exec {build}/sluice-cli "$@"',
    # Without the floor: its far end would spin beside the client and the server, on two CPUs.
    "sluice-bench": """case $1 in
matrix) for word; do shift; [ "$word" = --floor ] || set -- "$@" "$word"; done
    set -- "$@" --providers '' --wires resp --samples 50 --warmup 5 ;;
sweep) set -- "$@" -e 1k -n 3 -w 1 ;;
throughput) set -- "$@" -r 1000 --seconds 0.2 ;;
esac
exec {build}/sluice-bench "$@\"""",
    "ssh": """while [ "${{1#-}}" != "$1" ]; do case $1 in -o) shift 2 ;; *) shift ;; esac; done
shift
exec sh -c "$*\"""",
}


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        shutil.copytree(SOURCE / "config/deploy/skypilot", self.folder / "task")
        (self.folder / "bin").mkdir()
        for name, body in MORE.items():
            path = self.folder / "bin" / name
            path.write_text("#!/bin/sh\n" + body.format(build=BUILD, folder=self.folder) + "\n")
            path.chmod(0o755)

    def test_hosts_are_prepared_once_for_ssh_among_themselves(self):
        bin_folder, ssh, task = self.folder / "bin", self.folder / ".ssh", self.folder / "task"
        for name in ("sudo", "apt-get"):  # nothing is installed here
            (bin_folder / name).write_text("#!/bin/sh\ncat >/dev/null\n")
            (bin_folder / name).chmod(0o755)
        (task / "key").write_text("private\n")
        (task / "key.pub").write_text("ssh-ed25519 public\n")
        ssh.mkdir()
        (ssh / "config").write_text("Host *\n  User somebody\n")
        environment = {**os.environ, "HOME": str(self.folder), "PATH": f"{bin_folder}:{os.environ['PATH']}", "SSH_PORT": "10022"}
        for _ in range(2):  # SkyPilot does it again with every launch
            done = subprocess.run(["bash", task / "setup.sh"], env=environment, capture_output=True, text=True, timeout=60,
                                  stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((ssh / "config").read_text(), "Include config.sluice\nHost *\n  User somebody\n")
        self.assertEqual((ssh / "authorized_keys").read_text(), "ssh-ed25519 public\n")
        self.assertRegex((ssh / "config.sluice").read_text(), r"^Host \d+\.\*\n  Port 10022\n")
        self.assertEqual((ssh / "sluice-matrix").stat().st_mode & 0o777, 0o600)

    def run_ranks(self, use_efa, ranks=RANKS):
        """Exit codes by rank, and what each said."""
        environment = {**os.environ, "HOME": str(self.folder), "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "USE_EFA": use_efa,
                       "REDISCLI_AUTH": "secret", "SKYPILOT_NUM_NODES": str(ranks), "SKYPILOT_TASK_ID": "sky-1",
                       "SKYPILOT_NODE_IPS": "\n".join(["127.0.0.1"] * ranks)}
        script = "ip link set lo up\n"
        for rank in range(ranks):
            at = self.folder / str(rank)
            script += f"(SKYPILOT_NODE_RANK={rank} bash {self.folder}/task/run.sh >{at}.log 2>&1; echo $? >{at}.code) &\n"
        script += "wait\n"
        process = subprocess.Popen(["unshare", "-n", "bash", "-c", script], env=environment, start_new_session=True)
        try:
            process.wait(TIME_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        said = {rank: (self.folder / f"{rank}.log").read_text() for rank in range(ranks)}
        codes = {rank: (self.folder / f"{rank}.code").read_text().strip() if (self.folder / f"{rank}.code").exists() else "none"
                 for rank in range(ranks)}
        return codes, said

    def test_three_ranks_measure_serve_load_and_end(self):
        codes, said = self.run_ranks("false")
        self.assertEqual(codes, {0: "0", 1: "0", 2: "0"}, said)
        results = self.folder / "sluice-efa-false"
        self.assertIn("kernel-tcp-resp,PING,", (results / "latency.csv").read_text())
        self.assertIn("kernel-tcp-resp", said[1])
        self.assertRegex((results / "sweep.csv").read_text(), r"(?m)^[^,]*tcp.*")
        throughput = (results / "throughput.csv").read_text()
        for rank in (1, 2):
            self.assertIn(f"rank{rank}", throughput)
        self.assertTrue((results / "report.html").exists())

    def test_the_switch_takes_true_or_false_only(self):
        codes, said = self.run_ranks("yes", 1)
        self.assertEqual(codes[0], "2")
        self.assertIn("USE_EFA=yes: expected true or false", said[0])

    def test_efa_that_is_not_there_is_said_and_never_replaced(self):
        (self.folder / "task/measured-sky-1").touch()
        codes, said = self.run_ranks("true", 1)
        self.assertNotEqual(codes[0], "0")
        self.assertIn("no provider 'efa' here", said[0])


if __name__ == "__main__":
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode != 0:
        print("network namespaces cannot be made here")
        sys.exit(SKIPPED)
    unittest.main()
