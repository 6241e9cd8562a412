"""appliance.py - sluiced and sluicectl from outside: starting, refusing, watching, ending."""

import concurrent.futures
import contextlib
import ctypes
import grp
import json
import os
import pathlib
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, ROOT, Server, environment  # noqa: E402

SLUICED = str(BUILD / "sluiced")
SLUICECTL = str(BUILD / "sluicectl")
END_S = 20  # for what should take a moment: sanitizer builds on a busy machine


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, **more)


def refuse(*settings, **more):
    """What sluiced says on stderr when it refuses to start."""
    words = [SLUICED]
    for setting in ("memory.reserve=64MiB", "memory.ahead=4MiB", "streams.port=0", *settings):
        words += ["--set", setting]
    result = run(*words, **more)
    assert result.returncode in (1, 2), (result.returncode, result.stderr)  # 2: the settings are wrong
    return result.stderr


class Traced(Server):
    """What it does to its sockets, call by call."""

    def __init__(self, calls, *settings):
        self.prefix = ("strace", "-D", "-f", "-qq", "-o", str(calls), "-e",
                       "trace=umask,bind,listen,/^(l|f)?ch(own|mod)(at)?$")
        super().__init__(*settings)


def ctl_connect(server):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(END_S)
    connection.connect(server.ctl_path)
    return connection


def read_all(connection):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            data += piece
    return data


def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


def ask(connection, *words):
    """One line of answer, or the bulk behind it."""
    connection.sendall(command(*words))
    with connection.makefile("rb") as lines:
        line = lines.readline()
        if line[:1] == b"$":
            return lines.read(int(line[1:]) + 2)[:-2].decode()
        return line.decode().rstrip("\r\n")


class CommandLine(unittest.TestCase):
    def test_wrong_usage_is_exit_code_2(self):
        for program, words in ((SLUICED, ["--nosuch"]), (SLUICED, ["file.conf"]), (SLUICED, ["--set"]), (SLUICECTL, []),
                               (SLUICECTL, ["nosuch"]), (SLUICECTL, ["lcores", "--hist"]), (SLUICECTL, ["status", "x"]),
                               (SLUICECTL, ["latency", "--lcore", "x"]), (SLUICECTL, ["-t", "0", "status"])):
            with self.subTest(words=words):
                result = run(program, *words)
                self.assertEqual(result.returncode, 2)
                self.assertTrue(result.stderr or result.stdout.startswith("usage:"))

    def test_wrong_words_and_options_that_do_not_go_together_are_named(self):
        for words, said in ((["keys"], 'unknown command "keys", did you mean "keys hot"?'),
                            (["keys", "bog"], 'unknown command "keys bog", did you mean "keys big"?'),
                            (["config"], 'did you mean "config show"?'), (["statsu"], 'did you mean "stats"?'),
                            (["latency", "--watch", "--save", "x"], "--watch goes with no --percentiles"),
                            (["latency", "--watch", "0.001"], "expected seconds from 0.01"),
                            (["latency", "--hist", "--percentiles"], "expected one of"),
                            (["latency", "--save"], 'an option, or its form, does not belong to "latency"')):
            result = run(SLUICECTL, "-S", "/nowhere", *words)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(said, result.stderr)

    def test_output_that_cannot_be_written_is_exit_code_1(self):
        def close_all():
            os.closerange(0, 3)

        with Server() as server:
            for words in (["status"], ["metrics"], ["-j", "stats"], ["latency", "--watch", "0.05"], ["--help"]):
                with self.subTest(words=words), open("/dev/full", "w") as full:
                    done = subprocess.run([SLUICECTL, "-S", server.ctl_path, *words], stdout=full, stderr=subprocess.PIPE,
                                          timeout=END_S)
                    self.assertEqual(done.returncode, 1)
            # A connection must not take the place of a closed stdout: the answer would go back into the socket.
            self.assertEqual(subprocess.run([SLUICECTL, "-S", server.ctl_path, "status"], preexec_fn=close_all,
                                            timeout=END_S).returncode, 1)
            self.assertEqual(subprocess.run([SLUICECTL, "-S", server.ctl_path, "alive"], preexec_fn=close_all,
                                            timeout=END_S).returncode, 1)
            self.assertEqual(server.ctl("stats")["management"]["clients_refused"], 0)
        for word in ("--help", "--print-config"):
            with open("/dev/full", "w") as full:
                self.assertEqual(subprocess.run([SLUICED, word], stdout=full, stderr=subprocess.PIPE).returncode, 1)

    def test_help_and_version_are_exit_code_0(self):
        for program, word in ((SLUICED, "--help"), (SLUICED, "--version"), (SLUICECTL, "--help"), (SLUICECTL, "--version")):
            result = run(program, word)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertTrue(result.stdout)
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 120)

    def test_manual_pages_name_every_option_and_command(self):
        for program, page in ((SLUICED, "sluiced.8.scd"), (SLUICECTL, "sluicectl.1.scd")):
            text = (ROOT / "tools" / "man" / page).read_text()
            shown = run(program, "--help").stdout
            words = set(re.findall(r"--[a-z-]+|(?<= )-[a-zA-Z](?=[ ,])", shown))
            words |= set(re.findall(r"^  ([a-z]+(?: show)?) ", shown, re.MULTILINE))
            self.assertGreater(len(words), 7)
            missing = sorted(word for word in words if f"*{word}*" not in text and f"*{word} " not in text)
            self.assertEqual(missing, [], page)

    def test_json_mode_says_errors_as_one_line_of_json(self):
        for words, status in ((["-j", "nosuch"], 2), (["-j"], 2), (["lcores", "--hist", "-j"], 2), (["--nosuch", "-j"], 2),
                              (["-t", "x", "status", "-j"], 2), (["-S", "/nonexistent/ctl.sock", "--json", "status"], 3),
                              (["-j", "-S", "/nonexistent/ctl.sock", "status"], 3), (["-j", b"\xff\xfe"], 2)):
            with self.subTest(words=words):
                result = run(SLUICECTL, *words)
                self.assertEqual((result.returncode, result.stdout), (status, ""))
                self.assertEqual(result.stderr.count("\n"), 1)
                said = json.loads(result.stderr)
                self.assertEqual((said["version"], said["ok"], type(said["error"])), (1, False, str))
        self.assertIn("/nonexistent/ctl.sock: No such file", json.loads(
            run(SLUICECTL, "-S", "/nonexistent/ctl.sock", "-j", "status").stderr)["error"])

    def test_sluicectl_says_what_the_appliance_said_before_it_closed(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/ctl.sock")
            listener.listen()
            said = '{"version":1,"ok":false,"error":"too many management clients"}\n'
            for words, line, errors, status in (([], said, "sluicectl: too many management clients\n", 1),
                                                (["-j"], said, said, 1),
                                                ([], "", "sluicectl: the appliance closed the connection\n", 3)):
                for read_first in (False, True):
                    program = subprocess.Popen([SLUICECTL, "-S", f"{folder}/ctl.sock", *words, "status"], text=True,
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                    with listener.accept()[0] as connection:
                        if read_first:
                            connection.recv(10)  # what it has not read of the request makes closing a reset
                        connection.sendall(line.encode())
                    stdout, stderr = program.communicate(timeout=END_S)
                    self.assertEqual((program.returncode, stdout, stderr), (status, "", errors))

    def test_check_says_good_or_what_is_wrong(self):
        result = run(SLUICED, "--check", "--set", "streams.port=1")
        self.assertEqual((result.returncode, result.stdout), (0, "built-in settings: good\n"))
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("streams: {\n  prot = 1;\n};\n")
            file.flush()
            result = run(SLUICED, "--check", "-c", file.name)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr, f'sluiced: {file.name}:2: unknown setting "streams.prot", did you mean '
                                            '"streams.port"?\n')
        self.assertEqual(run(SLUICED, "--check", "-c", "/nonexistent").returncode, 1)

    def test_settings_for_another_host_can_be_checked(self):
        result = run(SLUICED, "--check", "-c", str(ROOT / "config" / "hpc7g.conf"), "--set", "lcores.cpus=1,1000")
        self.assertEqual((result.returncode, result.stdout), (0, f"{ROOT}/config/hpc7g.conf: good\n"))
        self.assertRegex(result.stderr, r"^sluiced: warning: this host cannot do it: --set lcores\.cpus: CPU \d+ is not "
                                        r"allowed .*; not tried: ports\n$")
        for setting in ("streams.address=::1,::1", "streams.unix=/" + "x" * 107, "lcores.cpus=1,1", "ports=x"):
            result = run(SLUICED, "--check", "--set", "lcores.cpus=1000", "--set", setting)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertTrue(result.stderr.startswith(f"sluiced: --set {setting.split('=')[0]}: "), result.stderr)
        for sample in sorted((ROOT / "config").glob("*.conf")):
            self.assertEqual(run(SLUICED, "--check", "-c", str(sample)).returncode, 0, sample)

    def test_the_readme_shows_lists_that_are_good_and_names_every_member(self):
        readme = (ROOT / "README.md").read_text()
        shown = re.search(r"^    ports = \(.*?^    \);\n    users = \(.*?^    \);\n", readme, re.MULTILINE | re.DOTALL).group()
        result = run(SLUICED, "--check", "-c", "/dev/stdin", input=shown)
        self.assertEqual((result.returncode, result.stderr), (0, "sluiced: warning: not tried: ports\n"))
        table = (ROOT / "config" / "settings_table.h").read_text()
        lists = table[table.index("define PORT_SETTINGS_TABLE"):]
        members = re.findall(r'X\(\w+, "(\w+)", [A-Z]+, ', lists)
        self.assertEqual(len(members), 23)
        behind = readme[readme.index(shown) + len(shown):]
        self.assertEqual([name for name in members if f"`{name}`" not in behind], [])
        providers = re.search(r"X\(provider, (\"shm\".*)\)", lists).group(1).split(", ")
        self.assertEqual([name for name in providers if name not in behind], [])

    def test_sample_settings_are_good_and_print_to_themselves(self):
        for sample in sorted((ROOT / "config").glob("*.conf")):
            with self.subTest(sample=sample.name):
                host = ("--set", "lcores.cpus=auto", "--set", "memory.reserve=96GiB")  # of the machine it is for
                first = run(SLUICED, "-c", str(sample), *host, "--print-config")
                self.assertEqual((first.returncode, first.stderr), (0, ""))
                again = run(SLUICED, "-c", "/dev/stdin", "--print-config", input=first.stdout)
                self.assertEqual((again.returncode, again.stderr), (0, ""))
                plain = re.compile(r"  # (default|file|--set)(, auto)?; ")
                self.assertEqual(plain.sub("  # ", first.stdout), plain.sub("  # ", again.stdout))

    def test_doctor_names_small_memlock_and_missing_devices_with_remedies(self):
        def small_memlock():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))

        result = run(SLUICED, "--doctor", "-c", str(ROOT / "config" / "hpc7g.conf"), preexec_fn=small_memlock,
                     env=environment())
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        said = " ".join(result.stdout.split())
        self.assertIn("wrong memlock locked memory: 64.0 KiB wanted unlimited", said)
        self.assertIn("LimitMEMLOCK=infinity", said)
        if not pathlib.Path("/dev/infiniband").exists():
            self.assertIn("wrong infiniband no /dev/infiniband/uverbs*", said)
            self.assertIn("vpc.amazonaws.com/efa", said)
            self.assertIn("wrong provider port efa cannot be opened", said)
        self.assertEqual([line for line in result.stdout.splitlines() if len(line) > 80], [])
        self.assertEqual(run(SLUICED, "--doctor", "--set", "lcores.idel=spin").returncode, 1)

    def test_doctor_examines_the_host_of_a_serving_appliance(self):
        with Server("ports=( { type = \"fabric\"; provider = \"net\"; } )") as server:
            words = [SLUICECTL, "-S", server.ctl_path]
            result = run(*words, "-j", "doctor")
            findings = {row["name"]: row for row in json.loads(result.stdout)["findings"]}
            worst = max(["good", "advice", "wrong"].index(row["level"]) for row in findings.values())
            self.assertEqual(result.returncode, 1 if worst else 0)
            self.assertEqual(findings["provider"]["level"], "good")
            self.assertIn("port net: net, ", findings["provider"]["found"])
            text = run(*words, "doctor")
            self.assertEqual((text.returncode, text.stderr), (result.returncode, ""))
            for name in ("isolation", "memlock", "clock", "huge pages", "interrupts"):
                self.assertIn(name, text.stdout)

    def test_a_password_is_not_in_the_process_list(self):
        with Server("auth.password=sesame") as server:
            line = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
            self.assertNotIn(b"sesame", line)
            self.assertIn(b"auth.password=******", line)
            self.assertNotIn("sesame", server.sluicectl("config", "show", "-l"))
            self.assertNotIn("sesame", server.log())


class Refusals(unittest.TestCase):
    def test_a_taken_port_names_the_setting(self):
        with socket.create_server(("127.0.0.1", 0)) as other, tempfile.TemporaryDirectory() as folder:
            port = other.getsockname()[1]
            said = refuse(f"streams.port={port}", f"management.socket={folder}/ctl.sock")
            self.assertIn(f"127.0.0.1:{port}: the port is taken, choose another with --set streams.port=PORT", said)
            self.assertEqual(os.listdir(folder), [])

    def test_a_second_one_does_not_take_the_first_ones_sockets(self):
        with Server() as server:
            self.assertIn("another process serves this socket, choose another with --set management.socket=PATH",
                          refuse(f"management.socket={server.ctl_path}"))
            self.assertIn("another process serves this socket, choose another with --set streams.unix=PATH",
                          refuse(f"management.socket={server.folder}/other.sock", f"streams.unix={server.unix}"))
            self.assertEqual(server.sluicectl("ready"), "ready\n")
            self.assertFalse((server.folder / "other.sock").exists())

    def test_what_is_no_socket_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ctl.sock"
            path.write_text("precious")
            self.assertIn("a file that is no socket is in the way", refuse(f"management.socket={path}"))
            self.assertEqual(path.read_text(), "precious")
            self.assertIn("bytes of a socket's path", refuse(f"management.socket={folder}/{'x' * 110}"))
            self.assertIn("cannot open its directory", refuse(f"management.socket={folder}/no/such.sock"))
            self.assertIn('no group "nosuchgroup"',
                          refuse(f"management.socket={folder}/a.sock", "management.group=nosuchgroup"))

    def test_beyond_loopback_a_password_is_needed(self):
        self.assertIn("there is no password, expected auth.password or users", refuse("streams.address=0.0.0.0"))
        with Server("streams.address=0.0.0.0", "auth.protected_mode=false", "log.ready=json") as server:
            self.assertFalse(server.ready["auth"])

    def test_a_provider_that_is_not_here_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            said = refuse(f"management.socket={folder}/ctl.sock", 'ports=( { type="fabric"; provider="efa"; } )')
            self.assertIn("efa", said)
            self.assertEqual(os.listdir(folder), [])


class Starting(unittest.TestCase):
    def test_the_ready_line_is_text_or_json(self):
        with Server() as server:
            ready = server.ready
            self.assertEqual(ready["streams"], [f"127.0.0.1:{server.port}", f"[::1]:{server.port}", f"unix:{server.unix}"]
                             if len(ready["streams"]) == 3 else [f"127.0.0.1:{server.port}", f"unix:{server.unix}"])
            self.assertEqual((ready["management"], ready["pid"]), (server.ctl_path, server.process.pid))
            self.assertEqual((ready["persistence"], ready["tls"]), ("none: memory only", False))
        with tempfile.TemporaryDirectory() as folder:
            words = [SLUICED, "--set", f"management.socket={folder}/ctl.sock", "--set", "streams.port=0", "--set",
                     "memory.reserve=64MiB", "--set", "memory.ahead=4MiB"]
            with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
                line = process.stderr.readline()
                process.terminate()
                rest = process.stderr.read()
            self.assertEqual(process.returncode, 0)
            self.assertRegex(line, r"^sluiced \S+ ready in [0-9.]+ s: streams 127\.0\.0\.1:\d+ ")
            for part in (f"unix:{folder}/sluice.sock", f"management {folder}/ctl.sock", "memory only", "no TLS", "clock "):
                self.assertIn(part, line)
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual(len(rest.splitlines()), 2)  # told to end, ended

    def test_sockets_have_their_mode_and_owner(self):
        for mode, bits in (("0600", 0o600), ("0660", 0o660)):
            with Server(f"management.mode={mode}", "management.group=daemon" if os.geteuid() == 0 else "log.level=info") as server:
                state = os.stat(server.ctl_path)
                self.assertEqual(stat.S_IMODE(state.st_mode), bits)
                self.assertEqual(state.st_uid, os.geteuid())
                if os.geteuid() == 0:
                    self.assertEqual(state.st_gid, 1)
                self.assertEqual(stat.S_IMODE(os.stat(server.unix).st_mode), 0o660)

    def test_nobody_gets_in_before_a_socket_has_its_mode_and_owner(self):
        if BUILD.name in ("asan", "tsan"):
            self.skipTest("LeakSanitizer does not work under strace")
        with tempfile.TemporaryDirectory() as folder:
            calls = pathlib.Path(folder) / "calls"
            with Traced(calls, f"management.group={grp.getgrgid(os.getegid()).gr_name}") as server:
                said = calls.read_text().splitlines()
            for path, mode in ((server.ctl_path, "0600"), (server.unix, "0660")):
                bound = next(i for i, line in enumerate(said) if re.search(rf'\bbind\(.*"{path}"', line))
                descriptor = re.search(r"\bbind\((\d+)", said[bound]).group(1)
                self.assertIn("umask(0777)", said[bound - 1])
                then = [line for line in said[bound + 1:] if f'"{path}"' in line or f"listen({descriptor}," in line]
                kinds = [re.search(r"\b(l?chown|fchownat|chmod|fchmodat|listen)\(", line).group(1) for line in then[:3]]
                self.assertEqual(kinds[-1 if path == server.ctl_path else 1], "listen", then)
                self.assertTrue(any("chmod" in kind for kind in kinds[:kinds.index("listen")]), then)
                self.assertIn(mode, " ".join(then[:2]))
                if path == server.ctl_path:
                    self.assertIn("chown", kinds[0])

    def test_what_a_killed_one_left_is_replaced(self):
        with Server() as server:
            server.process.kill()
            server.process.wait()
            self.assertTrue(stat.S_ISSOCK(os.stat(server.ctl_path).st_mode))
            with Server(f"management.socket={server.ctl_path}", f"streams.unix={server.unix}") as second:
                self.assertEqual(run(SLUICECTL, "-S", server.ctl_path, "ready").stdout, "ready\n")
                second.ctl_path, second.unix = server.ctl_path, server.unix
            server.process = second.process  # ended well; nothing is left to stop
            server.stop(check=False)
            server.stop = lambda check=True: None

    def test_systemd_hears_ready_watchdog_reloading_and_stopping(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(f"{folder}/notify")
            notify.settimeout(END_S)
            before = dict(os.environ)
            os.environ.update(NOTIFY_SOCKET=f"{folder}/notify", WATCHDOG_USEC="200000")
            try:
                server = Server()
            finally:
                os.environ.clear()
                os.environ.update(before)
            self.addCleanup(server.stop, check=False)
            heard = [notify.recv(100) for _ in range(4)]
            self.assertEqual(heard, [b"READY=1"] + [b"WATCHDOG=1"] * 3)

            def news():
                while (heard := notify.recv(100)) == b"WATCHDOG=1":
                    pass
                return heard.decode()

            server.process.send_signal(signal.SIGHUP)
            begun_us = time.monotonic_ns() // 1000
            reloading = news().split("MONOTONIC_USEC=")
            self.assertEqual(reloading[0], "RELOADING=1\n")
            self.assertLess(abs(int(reloading[1]) - begun_us), END_S * 1e6)
            self.assertEqual(news(), "READY=1")
            server.stop()
            self.assertEqual(news(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=10000000")  # shutdown.drain, and 5 s

    def test_wrong_settings_and_wrong_usage_end_with_2_and_a_taken_port_with_1(self):
        for words in (("--set", "lcores.idel=spin"), ("-c", "/nonexistent"), ("--nothing",), ("word",)):
            self.assertEqual(run(SLUICED, *words).returncode, 2, words)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            words = ("--set", f"streams.port={port}", "--set", "streams.address=127.0.0.1", "--set", "memory.reserve=64MiB",
                     "--set", "memory.ahead=4MiB", "--set", "streams.unix=")
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(run(SLUICED, *words, "--set", f"management.socket={folder}/ctl").returncode, 1)

    def test_settings_of_another_host_print_too_with_a_warning(self):
        done = run(SLUICED, "--print-config", "--set", "lcores.cpus=1000-1001", "--set", "memory.reserve=auto")
        self.assertEqual(done.returncode, 0)
        self.assertIn("warning: this host cannot do it: --set lcores.cpus", done.stderr)
        self.assertIn('cpus = "1000-1001";  # --set; ', done.stdout)
        self.assertRegex(done.stdout, r'reserve = "\d+\w*";  # --set, auto; ')


class Ending(unittest.TestCase):
    def boot(self, *settings):
        server = Server(*settings)
        self.addCleanup(server.stop, check=False)  # also when the test fails before the end
        return server

    def ends(self, server, within_s):
        begun = time.monotonic()
        server.process.wait(within_s + END_S)
        took_s = time.monotonic() - begun
        self.assertEqual(server.process.returncode, 0, server.log())
        self.assertLess(took_s, within_s)
        self.assertEqual(sorted(os.listdir(server.folder)), ["log"])

    def test_each_signal_ends_it_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.boot()
            idle = server.connect()
            server.process.send_signal(number)
            self.ends(server, 1 + 5)
            self.assertEqual(idle.recv(10), b"")

    def test_signals_end_it_with_fabric_ports_too(self):
        server = self.boot('ports=( { type="fabric"; provider="shm"; } )')
        server.process.terminate()
        self.ends(server, 1 + 5)

    def test_sighup_disturbs_nobody(self):
        with Server() as server:
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 5
            while "SIGHUP" not in server.log() and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertIn("SIGHUP", server.log())
            self.assertEqual(ask(server.connect(), "PING"), "+PONG")

    def test_everything_accepted_is_answered(self):
        server = self.boot("shutdown.drain=10s")
        connection = server.connect()
        connection.sendall(command("SET", "k", "v" * 1000))
        connection.recv(100)
        sent = 2000
        connection.sendall(command("GET", "k") * sent)
        time.sleep(0.2)
        server.process.terminate()
        answers = read_all(connection)
        self.assertEqual(len(answers), sent * len(b"$1000\r\n" + b"v" * 1000 + b"\r\n"))
        self.ends(server, 1 + 10)

    def test_clients_that_are_stuck_hold_it_for_the_drain_time_only(self):
        server = self.boot("shutdown.drain=1s")
        half, deaf = server.connect(), server.connect()
        half.sendall(b"*2\r\n$3\r\nGET\r\n$5\r\nab")  # never completed
        ask(deaf, "SET", "k", "v" * 100000)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(command("GET", "k") * 200)  # never read
        time.sleep(0.2)
        server.process.terminate()
        self.ends(server, 3.0 if "san" in BUILD.name else 2.0)  # a sanitizer looks for leaks at the end

    def test_no_connection_is_taken_while_it_drains(self):
        server = self.boot("shutdown.drain=1s")
        deaf = server.connect()
        ask(deaf, "SET", "k", "v" * 100000)
        deaf.sendall(command("GET", "k") * 200)
        time.sleep(0.2)
        server.process.terminate()
        time.sleep(0.3)
        self.assertRaises(OSError, server.connect)
        self.assertEqual(run(SLUICECTL, "-S", server.ctl_path, "ready").stdout, "not ready: draining\n")
        self.ends(server, 2.0)

    def test_sluicectl_shutdown_waits_for_the_end(self):
        server = self.boot()
        result = run(SLUICECTL, "-S", server.ctl_path, "shutdown")
        self.assertEqual((result.returncode, result.stdout), (0, "stopped\n"), result.stderr)
        self.ends(server, 1)
        self.assertEqual(run(SLUICECTL, "-S", server.ctl_path, "ready").returncode, 3)


class ManagementSocket(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("lcores.cpus=0-1" if (os.cpu_count() or 1) > 1 else "lcores.cpus=0")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_a_thousand_clients(self):
        connections = [ctl_connect(self.server) for _ in range(1000)]
        for connection in connections:
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(b"alive\n")
            with contextlib.suppress(OSError):  # a refused one is closed already
                connection.shutdown(socket.SHUT_WR)
        answers = [read_all(connection) for connection in connections]
        for connection in connections:
            connection.close()
        answered = sum(answer.startswith(b"alive ") for answer in answers)
        refused = sum(answer in (b"", b'{"version":1,"ok":false,"error":"too many management clients"}\n')
                      for answer in answers)
        self.assertEqual(answered + refused, 1000)
        self.assertGreaterEqual(answered, 64)
        self.assertEqual(self.server.sluicectl("alive"), "alive\n")

    def test_silent_clients_do_not_lock_the_operator_out(self):
        silent = [ctl_connect(self.server) for _ in range(64)]
        for connection in silent:
            connection.sendall(b"sta")
        time.sleep(1.5)  # more than CTL_EVICT_MS, less than CTL_LINE_MS
        for _ in range(3):
            self.assertEqual(self.server.sluicectl("alive"), "alive\n")
        evicted = self.server.ctl("stats")["management"]["clients_evicted"]
        self.assertGreaterEqual(evicted, 1)
        self.assertEqual(json.loads(read_all(silent[0]))["error"], "too many management clients")  # the oldest
        for connection in silent:
            connection.close()

    def test_text_for_people(self):
        with ctl_connect(self.server) as connection:
            connection.sendall(b"status\nnosuch\nlatency kind=loop\n")
            connection.shutdown(socket.SHUT_WR)
            parts = read_all(connection).decode().split("\n\n")
        self.assertTrue(parts[0].startswith("streams "), parts[0])
        self.assertIn('error: unknown command "nosuch"', parts[1])
        self.assertIn("kind                 loop", parts[2])

    def test_a_line_without_end_and_a_client_that_never_reads(self):
        huge, deaf = ctl_connect(self.server), ctl_connect(self.server)
        with contextlib.suppress(OSError):
            for _ in range(100):
                huge.sendall(b"x" * 1000000)
        with contextlib.suppress(OSError):
            deaf.settimeout(0.5)
            for _ in range(100000):
                deaf.sendall(b'{"version":1,"command":"stats"}\n')
        before = self.server.resident_bytes()
        self.assertEqual(self.server.sluicectl("alive"), "alive\n")
        self.assertLess(self.server.resident_bytes() - before, 1 << 20)
        huge.close()
        deaf.close()

    def test_the_helper_is_shown_beside_the_lcores(self):
        before = self.server.ctl("lcores")["helpers"]
        self.assertEqual([row["helper"] for row in before], ["helper-0"])
        client = self.server.connect()
        self.assertEqual(ask(client, "KEYS", "nothing-like-this"), "*0")
        after = self.server.ctl("lcores")["helpers"][0]
        self.assertEqual((after["jobs"], after["cancelled"]), (before[0]["jobs"] + 1, before[0]["cancelled"]))
        with open(f"/proc/{self.server.process.pid}/task/{after['tid']}/comm") as name:
            self.assertEqual(name.read(), "helper-0\n")

    def test_sessions_of_every_lcore_are_listed_once(self):
        clients = [self.server.connect("tcp" if i % 2 else "unix") for i in range(300)]
        for i, client in enumerate(clients):
            self.assertEqual(ask(client, "CLIENT", "SETNAME", f"many-{i}"), "+OK")
        listed = ask(clients[0], "CLIENT", "LIST")
        names = re.findall(r" name=many-(\d+) ", listed)
        self.assertEqual(sorted(map(int, names)), list(range(300)))
        sessions = self.server.ctl("sessions")
        self.assertEqual(sum(row["name"].startswith("many-") for row in sessions["rows"]), 300)
        self.assertFalse(sessions["cut"])
        one = next(row for row in sessions["rows"] if row["name"] == "many-7")
        self.assertEqual((one["rx_bytes"], one["tx_bytes"]), (len(command("CLIENT", "SETNAME", "many-7")), len(b"+OK\r\n")))
        few = self.server.ctl("sessions", limit=10)
        self.assertEqual((len(few["rows"]), few["cut"]), (10, True))
        by_lcore = {row["lcore"] for row in sessions["rows"]}
        self.assertEqual(len(by_lcore), self.server.ready["lcores"])

        ids = [line.split()[0][3:] for line in listed.splitlines() if " name=many-7 " in line]
        self.assertEqual(ask(clients[0], "CLIENT", "KILL", "ID", ids[0]), ":1")
        self.assertEqual(clients[7].recv(10), b"")
        self.assertEqual(ask(clients[0], "CLIENT", "KILL", "ID", "0"), "-ERR client-id should be greater than 0")
        self.assertEqual(ask(clients[0], "CLIENT", "KILL", "TYPE", "normal"), ":298")
        self.assertEqual(clients[299].recv(10), b"")
        self.assertEqual(ask(clients[0], "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"), ":1")
        self.assertEqual(clients[0].recv(10), b"")
        for client in clients:
            client.close()

    def test_many_lists_at_once(self):
        def lists(_):
            with self.server.connect() as client:
                for _ in range(20):
                    self.assertIn("cmd=client", ask(client, "CLIENT", "LIST"))

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            list(pool.map(lists, range(20)))

    def test_every_command_of_sluicectl_fits_80_columns_and_has_json(self):
        client = self.server.connect()
        for word in ("PING", "INFO", "DBSIZE"):
            ask(client, word)
        for words in (["status"], ["ready"], ["alive"], ["stats"], ["latency"], ["latency", "--hist"],
                      ["latency", "--percentiles"], ["latency", "--kind", "burst"], ["latency", "ping", "--lcore", "0"],
                      ["lcores"], ["ports"], ["sessions"], ["memory"], ["config", "show"], ["version"]):
            with self.subTest(words=words):
                text = self.server.sluicectl(*words)
                self.assertNotIn("\033", text)
                wide = [line for line in text.splitlines() if len(line) > 80 and self.server.ctl_path not in line
                        and self.server.unix not in line]
                self.assertEqual(wide, [])
                self.assertIsInstance(json.loads(self.server.sluicectl("-j", *words)), dict)
        client.close()

    def test_watch_shows_what_the_last_seconds_counted(self):
        client = self.server.connect()
        watch = subprocess.Popen([SLUICECTL, "-S", self.server.ctl_path, "latency", "echo", "--watch=0.5"],
                                 stdout=subprocess.PIPE, text=True)
        counted = 0
        sent = 500
        time.sleep(0.2)
        for _ in range(sent):
            ask(client, "ECHO", "x")
        time.sleep(1.2)
        watch.send_signal(signal.SIGINT)
        text, _ = watch.communicate(timeout=END_S)
        for line in text.splitlines():
            fields = line.split()
            if fields[:1] == ["echo"]:
                counted += int(fields[1])
                values = [float(field) for field in fields[3:]]
                self.assertEqual(values, sorted(values))  # percentiles rise, and end in the maximum
        self.assertEqual((watch.returncode, counted), (0, sent), text)
        client.close()


class Stalls(unittest.TestCase):
    def test_an_lcore_that_stands_still_is_named(self):
        ptrace_attach, ptrace_detach = 16, 17
        libc = ctypes.CDLL(None, use_errno=True)
        with Server("lcores.idle=spin") as server:
            thread = server.ctl("lcores")["lcores"][0]["tid"]
            self.assertEqual(libc.ptrace(ptrace_attach, thread, 0, 0), 0, os.strerror(ctypes.get_errno()))
            try:
                os.waitpid(thread, 0x40000000)  # __WALL: it is a thread
                deadline = time.monotonic() + END_S
                while (ready := run(SLUICECTL, "-S", server.ctl_path, "ready")).returncode == 0:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.1)
                self.assertEqual((ready.returncode, ready.stdout), (1, "not ready: lcore 0 stands still\n"))
                listed = run(SLUICECTL, "-S", server.ctl_path, "-t", "10", "sessions")
                self.assertEqual((listed.returncode, listed.stderr), (1, "sluicectl: lcore 0 does not answer\n"))
            finally:
                libc.ptrace(ptrace_detach, thread, 0, 0)
            while run(SLUICECTL, "-S", server.ctl_path, "ready").returncode != 0:
                self.assertLess(time.monotonic(), deadline + END_S)
                time.sleep(0.1)
            self.assertRegex(server.log(), rf"error: lcore 0 \(CPU \d+, thread {thread}\) stands still")
            self.assertEqual(ask(server.connect(), "PING"), "+PONG")


class Calm(unittest.TestCase):
    """Each time that the management core wakes may cost an lcore on the same CPU 20 us."""

    @staticmethod
    def wakes(server):
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])

    def test_requests_alone_do_not_wake_the_management_core(self):
        with Server() as server:
            connection = server.connect()
            self.assertEqual(ask(connection, "SET", "k", "v"), "+OK")
            begun, wakes = time.monotonic(), None
            while time.monotonic() - begun < 2:
                ask(connection, "GET", "k")
                if wakes is None and time.monotonic() - begun > 1:  # what a start moves has come to rest
                    wakes = self.wakes(server)
            self.assertLess(self.wakes(server) - wakes, 250)  # 62 at rest, 1000 while something moves


class Limits(unittest.TestCase):
    def test_clients_beyond_the_limit_are_told(self):
        with Server("limits.clients=10") as server:
            clients = []
            for _ in range(10):
                clients.append(server.connect())
                self.assertEqual(ask(clients[-1], "PING"), "+PONG")
            for over in ("tcp", "unix"):
                with server.connect(over) as refused:
                    self.assertEqual(read_all(refused), b"-ERR max number of clients reached\r\n")
            clients.pop().close()
            for _ in range(100):
                with server.connect() as again:
                    if ask(again, "PING") == "+PONG":
                        break
                time.sleep(0.02)
            else:
                self.fail("the place did not come back")
            for client in clients:
                client.close()


if __name__ == "__main__":
    unittest.main(warnings="ignore")
