"""fabric_resume.py - clients of the fabric that slept, were stopped or lost their server: who slept goes on where it was, in
the same session; whose server is gone is told that nobody knows what was executed, and nothing is guessed."""

import os
import signal
import subprocess
import time
import unittest

import fabric
import server

PROVIDERS = ("shm", "net", "tcp;ofi_rxm", "udp;ofi_rxd")
LEASE_S = 1
ANSWER_S = 4  # less than the default lease, which nobody may have to wait for; two CPUs are shared


class Prompt:
    """sluice-cli reading commands from a pipe: idle between them, as a person is."""

    def __init__(self, appliance, provider):
        command = [str(server.BUILD / "sluice-cli"), "-s", appliance.unix, "--fabric", provider]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, bufsize=1)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def close(self):
        self.process.kill()
        self.process.communicate()


class Resume(unittest.TestCase):
    def serve(self, ends=False):
        """`ends`: the test itself ends it."""
        self.appliance = fabric.server_open(*(fabric.port(provider, lease=f"{LEASE_S}s") for provider in PROVIDERS))
        self.addCleanup(self.appliance.stop, check=not ends)
        return self.appliance

    def prompts(self):
        prompts = {provider: Prompt(self.appliance, provider) for provider in PROVIDERS}
        for prompt in prompts.values():
            self.addCleanup(prompt.close)
        return prompts

    def test_a_client_that_slept_longer_than_its_lease_goes_on_in_its_session(self):
        appliance = self.serve()
        prompts = self.prompts()
        ids = {provider: prompt.ask("CLIENT ID") for provider, prompt in prompts.items()}
        before = appliance.counters()
        for round in range(1, 4):
            time.sleep(2.5 * LEASE_S)
            for provider, prompt in prompts.items():
                begun = time.monotonic()
                self.assertEqual(prompt.ask(f"INCR slept:{provider}"), str(round), provider)
                self.assertLess(time.monotonic() - begun, ANSWER_S, provider)
        self.assertEqual({provider: prompt.ask("CLIENT ID") for provider, prompt in prompts.items()}, ids)
        after = appliance.counters()
        self.assertGreaterEqual(after["fabric_resumes"] - before["fabric_resumes"], 3 * len(PROVIDERS))
        self.assertEqual(after["fabric_attaches"], before["fabric_attaches"])

    def test_stopped_clients_hold_up_nobody_and_go_on(self):
        self.serve()
        stopped, awake = self.prompts(), self.prompts()
        for provider, prompt in stopped.items():
            self.assertEqual(prompt.ask(f"SET stopped:{provider} 0"), "OK")
            prompt.process.send_signal(signal.SIGSTOP)
            prompt.process.stdin.write(f"INCR stopped:{provider}\n" * 50)
            prompt.process.stdin.flush()
        try:
            for _ in range(20):
                for provider, prompt in awake.items():
                    begun = time.monotonic()
                    self.assertEqual(prompt.ask(f"ECHO {provider}"), provider)
                    self.assertLess(time.monotonic() - begun, ANSWER_S, provider)
                time.sleep(0.1)
        finally:
            for prompt in stopped.values():
                prompt.process.send_signal(signal.SIGCONT)
        for provider, prompt in stopped.items():
            self.assertEqual([prompt.process.stdout.readline() for _ in range(50)], [f"{i}\n" for i in range(1, 51)])

    def test_after_a_restart_the_session_is_lost_and_said_to_be(self):
        first = self.serve(ends=True)
        prompts = self.prompts()
        for prompt in prompts.values():
            self.assertEqual(prompt.ask("SET k v"), "OK")
        path = first.unix
        first.process.kill()
        first.process.wait()
        os.unlink(path)
        second = self.serve()
        os.symlink(second.unix, path)
        for provider, prompt in prompts.items():
            self.assertIn("SESSION_LOST", prompt.ask("INCR k"), provider)
        with second.connect("unix") as control:
            self.assertIsNone(fabric.resp_call(control, "GET", "k"))  # not executed at the other server
        os.unlink(path)

    def test_a_server_that_stops_says_goodbye_at_once(self):
        appliance = self.serve(ends=True)
        prompts = self.prompts()
        for prompt in prompts.values():
            self.assertEqual(prompt.ask("SET k v"), "OK")  # its acknowledgement waits for the next request
        begun = time.monotonic()
        appliance.process.terminate()
        self.assertEqual(appliance.process.wait(10), 0)
        self.assertLess(time.monotonic() - begun, 4)  # the drain time is 5 s
        for provider, prompt in prompts.items():
            self.assertIn("the server ended the session", prompt.ask("INCR k"), provider)


if __name__ == "__main__":
    unittest.main(verbosity=2)
