"""ethernet.py - what stock clients see of an ethernet port, over net_af_packet on a veth or over net_tap, from the other end of the
link: neighbours, every wire, the suites of the kernel's sockets again, and clients that are slow, cut off, many or too many.

    ethernet.py [--tap]"""

import argparse
import csv
import io
import json
import pathlib
import re
import select
import socket
import struct
import subprocess
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "codec"))

import fabric
import hostile
import netns
import python_redis
import redis_benchmark
import server
import test_sbe_foreign

MIB = 1 << 20
MANY = 2000  # connections open at once
BEYOND = "10.99.0.1"  # an address of no network that the port is in
SESSION_TESTS = server.ROOT / "test" / "session"

wire_kind = netns.Wire


class Port(unittest.TestCase):
    """One server for all tests of a class."""
    settings, ports, options = (), (), {}

    @classmethod
    def setUpClass(cls):
        cls.wire = cls.enterClassContext(wire_kind())
        cls.server = cls.enterClassContext(netns.EthernetServer(cls.wire, *cls.settings, ports=cls.ports, **cls.options))

    def client(self, **options):
        connection = self.server.connect(**options)
        self.addCleanup(connection.close)
        return connection

    def ask(self, connection, *words):
        return fabric.resp_call(connection, *words)

    def command(self, *words, timeout_s=60, **options):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout_s, check=False, **options)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def sessions_wait(self, count=0, timeout_s=20):
        deadline = time.monotonic() + timeout_s
        while True:
            counters = self.server.counters()
            left = counters["sessions_opened"] - counters["sessions_closed"]
            if left == count:
                return
            self.assertLess(time.monotonic(), deadline, f"{left} sessions are open, expected {count}")
            time.sleep(0.05)


class Neighbours(Port):
    def test_arping(self):
        out = self.command("arping", "-c", "3", "-w", "5", "-I", "wire1", netns.THERE)
        self.assertIn("Received 3 response(s)", out)

    def test_ping_of_every_size_that_fits_a_frame(self):
        for size in (0, 1, 56, 1000, 1471, 1472):
            out = self.command("ping", "-c", "3", "-i", "0.05", "-W", "5", "-s", size, netns.THERE)
            self.assertIn("3 received", out, f"{size} B")

    def test_a_closed_port_refuses_at_once(self):
        begun = time.monotonic()
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection((netns.THERE, netns.PORT + 1), 10)
        self.assertLess(time.monotonic() - begun, 2)

    def test_a_client_beyond_the_gateway(self):
        self.wire.client.run("ip", "address", "add", f"{BEYOND}/32", "dev", "lo")
        with socket.create_connection((netns.THERE, netns.PORT), 10, source_address=(BEYOND, 0)) as client:
            self.assertEqual(self.ask(client, "PING"), b"PONG")

    def test_the_port_is_seen(self):
        if netns.STACK == "kernel":
            self.skipTest("of the port only")
        self.assertIn(netns.THERE, self.server.sluicectl("status"))
        before = self.server.counters()
        self.command("ping", "-c", "5", "-i", "0.05", netns.THERE)
        for name in ("ethernet_rx_packets", "ethernet_tx_packets"):
            self.server.counter_wait(name, before[name] + 5)


class Clients(Port):
    ports = (netns.fabric_port("net"),)

    def redis_cli(self, *words, **options):
        return self.command("redis-cli", "-h", netns.THERE, "-p", netns.PORT, *words, **options)

    def test_redis_cli(self):
        self.assertEqual(self.redis_cli("SET", "k", "v"), "OK\n")
        self.assertEqual(self.redis_cli("-3", "GET", "k"), "v\n")
        big = "x" * MIB
        self.assertEqual(self.redis_cli("-x", "SET", "big", input=big), "OK\n")
        self.assertEqual(self.redis_cli("GET", "big"), big + "\n")

    def test_redis_cli_pipes_10000_requests(self):
        lines = "".join(f"SET pipe:{i} {i}\r\n" for i in range(10000))
        self.assertIn("errors: 0, replies: 10000", self.redis_cli("--pipe", input=lines))
        self.assertEqual(self.redis_cli("GET", "pipe:9999"), "9999\n")

    def test_redis_benchmark_of_50_connections(self):
        for depth, requests in ((1, 5000), (64, 100000)):
            rows = redis_benchmark.benchmark(["-h", netns.THERE, "-p", str(netns.PORT), "-c", "50"], requests, depth)
            print(f"redis-benchmark -c 50 -P {depth}: " + ", ".join(f"{name} {rate / 1000:.0f} k/s" for name, rate in rows.items()),
                  flush=True)

    def test_conversations(self):
        """Those that need no settings of their own."""
        files = [path for path in sorted(SESSION_TESTS.glob("*.txt")) if not re.search(r"^= ", path.read_text(), re.MULTILINE)]
        self.assertGreater(len(files), 5)
        for split in (0, 1000):
            out = self.command("/usr/bin/python3", SESSION_TESTS / "run.py", "--address", f"{netns.THERE}:{netns.PORT}", "--split",
                               split, *files, timeout_s=120)
            self.assertIn(f"{len(files)} conversations held", out)

    def test_every_wire_of_our_client(self):
        where = (server.BUILD / "sluice-cli", "-h", netns.THERE, "-p", netns.PORT)
        for number, wire in enumerate(("-2", "-3", "--sbe")):
            self.assertEqual(self.command(*where, wire, "SET", f"wire{wire}", number), "OK\n")
            self.assertEqual(self.command(*where, wire, "GET", f"wire{wire}"), f"{number}\n")

    def test_attach_through_the_port_and_traffic_on_net(self):
        where = (server.BUILD / "sluice-cli", "-h", netns.THERE, "-p", netns.PORT, "--fabric", "net")
        before = self.server.counters()
        for wire in ("-2", "--sbe"):
            self.assertEqual(self.command(*where, wire, "SET", f"fabric{wire}", "over net"), "OK\n")
            self.assertEqual(self.redis_cli("GET", f"fabric{wire}"), "over net\n")
        out = self.command(server.BUILD / "sluice-bench", "latency", "-h", netns.THERE, "-p", netns.PORT, "--provider", "net", "--csv",
                           "--samples", 500, "--warmup", 50)
        self.assertEqual(len(list(csv.DictReader(io.StringIO(out)))), 8, out)
        self.server.counter_wait("fabric_attaches", before["fabric_attaches"] + 3)


class Lcores(Port):
    """The second of two lcores polls the port; the kernel's sockets are served by both."""
    settings, options = ("lcores.cpus=0,1",), {"lcore": 1}

    def test_every_lcore_serves_every_key(self):
        ours, theirs = self.client(), [self.client(over="unix") for _ in range(4)]
        for number, other in enumerate(theirs):
            self.assertEqual(self.ask(ours, "SET", f"k{number}", "port"), b"OK")
            self.assertEqual(self.ask(other, "APPEND", f"k{number}", "+unix"), 9)
            self.assertEqual(self.ask(ours, "GET", f"k{number}"), b"port+unix")

    def test_messages_cross_from_port_to_port(self):
        ours, theirs = self.client(), [self.client(over="unix") for _ in range(4)]
        readers = [fabric.Reader(connection) for connection in (ours, *theirs)]
        for reader in readers:
            reader.connection.sendall(fabric.resp_request("SUBSCRIBE", "news"))
            self.assertEqual(reader.reply(), [b"subscribe", b"news", 1])
        for over in ("tcp", "unix"):
            self.assertEqual(self.ask(self.client(over=over), "PUBLISH", "news", over), len(readers))
            for reader in readers:
                self.assertEqual(reader.reply(), [b"message", b"news", over.encode()])


class Capture(Port):
    def frames(self, path):
        """Whole frames of a pcap file with nanoseconds."""
        data, at = path.read_bytes(), 24
        self.assertEqual(struct.unpack("<I", data[:4]), (0xa1b23c4d,))
        while at < len(data):
            kept, whole = struct.unpack_from("<II", data, at + 8)
            self.assertEqual(kept, whole)
            yield data[at + 16:at + 16 + kept]
            at += 16 + kept

    def test_what_passes_is_written_down(self):
        if netns.STACK == "kernel":
            self.skipTest("of the port only")
        path = self.server.folder / "captured.pcap"
        command = [self.server.program.parent / "sluicectl", "-S", self.server.ctl_path, "capture", "ethernet", path]
        capture = subprocess.Popen([*command, "--seconds", "20", "--packets", "20", "--snap", "2000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        self.addCleanup(capture.kill)
        deadline = time.monotonic() + 20
        while capture.poll() is None and time.monotonic() < deadline:
            self.command("ping", "-c", "1", "-W", "1", "-s", "333", netns.THERE)
        out, _ = capture.communicate(timeout=30)
        self.assertEqual(capture.returncode, 0, out)
        frames = list(self.frames(path))
        self.assertEqual(len(frames), 20)
        pings = [frame[34] for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_ICMP and len(frame) == 375]
        self.assertIn(8, pings)
        self.assertIn(0, pings)
        again = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        self.assertNotEqual(again.returncode, 0, "a file that exists was written over")
        self.assertEqual(len(list(self.frames(path))), 20)


class PythonRedis(python_redis.PythonRedis):
    @classmethod
    def server_open(cls):
        return netns.EthernetServer(cls.enterClassContext(wire_kind()))


class Sbe(test_sbe_foreign.Foreign):
    @classmethod
    def server_open(cls):
        return netns.EthernetServer(cls.enterClassContext(wire_kind()))


# ---- the kernel's sockets are treated like this; the port is too ----

class OverPort:
    transports = ("tcp",)

    def server_open(self, *settings):
        return netns.EthernetServer(self.enterContext(wire_kind()), *settings)


class BeforeAuth(OverPort, hostile.BeforeAuth):
    pass


class NeverRead(OverPort, hostile.NeverRead):
    pass


class NeverFinish(OverPort, hostile.NeverFinish):
    pass


class Liars(OverPort, hostile.Liars):
    pass


class Killed(OverPort, hostile.Killed):
    pass


class Stopped(OverPort, hostile.Stopped):
    pass


class Protected(unittest.TestCase):
    def test_a_port_without_a_password_is_refused(self):
        with wire_kind() as wire, self.assertRaises(server.ServerError) as caught:
            netns.EthernetServer(wire, "auth.protected_mode=true").stop()
        self.assertIn("protected_mode", str(caught.exception))

    def test_a_password_opens_it_and_is_asked_for(self):
        with wire_kind() as wire, netns.EthernetServer(wire, "auth.protected_mode=true", "auth.password=secret") as served:
            with served.connect() as client:
                self.assertTrue(fabric.resp_call(client, "GET", "k").startswith("NOAUTH"))
                self.assertTrue(fabric.resp_call(client, "AUTH", "wrong").startswith("WRONGPASS"))
                self.assertEqual(fabric.resp_call(client, "AUTH", "secret"), b"OK")
                self.assertIsNone(fabric.resp_call(client, "GET", "k"))


    def test_two_capabilities_suffice(self):
        with wire_kind() as wire, netns.EthernetServer(wire, capabilities=("net_raw", "net_admin")) as served:
            with served.connect() as client:
                self.assertEqual(fabric.resp_call(client, "PING"), b"PONG")

    def test_a_missing_capability_is_named(self):
        if netns.STACK == "kernel":
            self.skipTest("sockets need none")
        with wire_kind() as wire, self.assertRaises(server.ServerError) as caught:
            netns.EthernetServer(wire, capabilities=("net_admin",)).stop()
        self.assertIn("CAP_NET_RAW", str(caught.exception))


# ---- TCP itself ----

class Streams(Port):
    def requests(self, count):
        return b"".join(fabric.resp_request("ECHO", f"{number}:" + "e" * (number % 50)) for number in range(count))

    def answers_check(self, connection, count):
        reader = fabric.Reader(connection)
        for number in range(count):
            self.assertEqual(reader.reply(), f"{number}:{'e' * (number % 50)}".encode())
        self.assertEqual(reader.data, b"")

    def test_a_request_a_byte_at_a_time(self):
        client = self.client()
        for byte in self.requests(20):
            client.sendall(bytes((byte,)))
        self.answers_check(client, 20)

    def test_requests_in_pieces_of_every_size(self):
        data = self.requests(60)
        for size in (2, 7, 64, 535, 1447, 1448, 1449, 2896, 4097):
            client = self.client()
            for at in range(0, len(data), size):
                client.sendall(data[at:at + size])
            self.answers_check(client, 60)

    def test_small_segments(self):
        """The client's MSS is the smallest that Linux takes."""
        client = socket.socket()
        self.addCleanup(client.close)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
        client.settimeout(20)
        client.connect((netns.THERE, netns.PORT))
        self.assertEqual(self.ask(client, "SET", "small", b"s" * 100000), b"OK")
        self.assertEqual(self.ask(client, "GET", "small"), b"s" * 100000)

    def test_a_slow_reader_with_a_tiny_window_gets_every_byte(self):
        client = socket.socket()
        self.addCleanup(client.close)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        client.settimeout(20)
        client.connect((netns.THERE, netns.PORT))
        value = bytes(i * 7 % 251 for i in range(200000))
        self.assertEqual(self.ask(client, "SET", "slow", value), b"OK")
        client.sendall(fabric.resp_request("GET", "slow") * 2)
        wanted = (b"$%d\r\n%s\r\n" % (len(value), value)) * 2
        got, turns = b"", 0
        while len(got) < len(wanted):
            if turns % 64 == 0:
                time.sleep(0.02)  # the window closes
            got += client.recv(1500)
            turns += 1
        self.assertEqual(got, wanted)

    def test_a_window_closed_for_seconds_opens_again(self):
        client = self.client()
        value = b"w" * MIB
        self.assertEqual(self.ask(client, "SET", "window", value), b"OK")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4608)
        client.sendall(fabric.resp_request("GET", "window") * 8)
        time.sleep(3)
        reader = fabric.Reader(client)
        for _ in range(8):
            self.assertEqual(reader.reply(), value)

    def test_a_half_closed_client_gets_all_its_answers(self):
        for count in (1, 10, 2000):
            client = self.client()
            client.sendall(self.requests(count))
            client.shutdown(socket.SHUT_WR)
            self.answers_check(client, count)
            self.assertEqual(client.recv(1), b"")

    def test_a_half_closed_slow_reader_gets_all_its_answers(self):
        client = self.client()
        self.assertEqual(self.ask(client, "SET", "half", b"h" * MIB), b"OK")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4608)
        client.sendall(fabric.resp_request("GET", "half") * 4)
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.5)
        reader = fabric.Reader(client)
        for _ in range(4):
            self.assertEqual(reader.reply(), b"h" * MIB)
        self.assertEqual(client.recv(1), b"")

    def test_connections_that_say_nothing_or_reset_leave_nothing(self):
        self.sessions_wait()
        for number in range(300):
            client = self.server.connect()
            if number % 3 == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif number % 3 == 1:
                client.sendall(fabric.resp_request("ECHO", b"x" * 5000))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        self.sessions_wait()

    def test_a_link_that_goes_down_and_comes_back(self):
        """Nothing can be sent meanwhile; other ports are served, and the connection goes on."""
        client = self.client()
        self.assertEqual(self.ask(client, "SET", "link", b"l" * 500000), b"OK")
        client.sendall(fabric.resp_request("GET", "link") * 4)
        self.wire.client.run("ip", "link", "set", "wire1", "down")
        try:
            with self.server.connect("unix") as other:
                end = time.monotonic() + 1.5
                while time.monotonic() < end:
                    begun = time.monotonic()
                    self.assertEqual(self.ask(other, "PING"), b"PONG")
                    self.assertLess(time.monotonic() - begun, 1)
        finally:
            self.wire.client.run("ip", "link", "set", "wire1", "up")
        reader = fabric.Reader(client)
        for _ in range(4):
            self.assertEqual(reader.reply(), b"l" * 500000)
        self.assertEqual(self.ask(self.client(), "PING"), b"PONG")

    def test_one_that_never_reads_keeps_nobody_waiting(self):
        """32 MiB of replies are asked for and not read; the worst that another client sees meanwhile."""
        keeper, deaf = self.client(), self.client()
        self.assertEqual(self.ask(keeper, "SET", "deaf", b"d" * MIB), b"OK")
        worst_s = [0.0, 0.0]
        for phase in range(2):
            if phase == 1:
                deaf.sendall(fabric.resp_request("GET", "deaf") * 32)
            end = time.monotonic() + 2
            while (begun := time.monotonic()) < end:
                self.assertEqual(self.ask(keeper, "PING"), b"PONG")
                worst_s[phase] = max(worst_s[phase], time.monotonic() - begun)
        print(f"worst PING alone {worst_s[0] * 1000:.1f} ms, beside a client that never reads {worst_s[1] * 1000:.1f} ms", flush=True)
        self.assertLess(worst_s[1], max(0.25, 3 * worst_s[0]))
        reader = fabric.Reader(deaf)
        for _ in range(32):
            self.assertEqual(reader.reply(), b"d" * MIB)


class Many(Port):
    def test_2000_connections_at_once_are_all_served(self):
        begun = time.monotonic()
        clients = [self.client() for _ in range(MANY)]
        for turn in range(3):
            for number, client in enumerate(clients):
                client.sendall(fabric.resp_request("ECHO", f"{turn}:{number}"))
            for number, client in enumerate(clients):
                self.assertEqual(fabric.Reader(client).reply(), f"{turn}:{number}".encode())
        print(f"{MANY} connections, 3 requests each: {time.monotonic() - begun:.1f} s", flush=True)
        self.sessions_wait(MANY)
        for client in clients:
            client.close()
        self.sessions_wait()
        self.assertEqual(self.ask(self.client(), "PING"), b"PONG")

    def test_a_burst_of_connects_is_accepted(self):
        """500 SYNs before any of them is looked at."""
        clients = []
        for _ in range(500):
            client = socket.socket()
            self.addCleanup(client.close)
            client.setblocking(False)
            client.connect_ex((netns.THERE, netns.PORT))
            clients.append(client)
        for number, client in enumerate(clients):
            self.assertEqual(select.select((), (client,), (), 20)[1], [client], f"connection {number} is not accepted")
            self.assertEqual(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
            client.setblocking(True)
            client.settimeout(20)
            self.assertEqual(self.ask(client, "PING"), b"PONG")


class Limit(Port):
    """Of the port's connections; netns.STACK "kernel" has only the limit on all of them."""
    MOST = 8
    settings = (f"limits.clients={MOST}",) if netns.STACK == "kernel" else ()
    options = {"sessions": MOST}

    def refused(self):
        """Whether one more is closed, with an error or without a word."""
        try:
            with self.server.connect(timeout_s=10) as client:
                client.sendall(b"PING\r\n")
                data = client.recv(100)
                self.assertFalse(data.startswith(b"+"), data)
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            pass

    def test_the_last_that_fits_and_one_more(self):
        clients = [self.client() for _ in range(self.MOST - 1)]
        for _ in range(3):
            for client in clients:
                self.assertEqual(self.ask(client, "PING"), b"PONG")
            clients.append(self.client())
            self.assertEqual(self.ask(clients[-1], "PING"), b"PONG")
            for _ in range(5):
                self.refused()
            for client in clients:
                self.assertEqual(self.ask(client, "PING"), b"PONG")
            clients.pop().close()
            self.sessions_wait(self.MOST - 1)


class OneProcess(Limit):
    """The limit on all sessions holds for the port too."""
    settings = (f"limits.clients={Limit.MOST}",)
    options = {}


def main():
    global wire_kind
    parser = argparse.ArgumentParser()
    parser.add_argument("--tap", action="store_true", help="over net_tap; the shorter form")
    options, rest = parser.parse_known_args()
    netns.skip_unless_possible()
    if options.tap:
        wire_kind = netns.Tap
        rest = rest or ["Neighbours", "Clients", "Streams", "Many", "Limit"]
    unittest.main(argv=[sys.argv[0], "-v", *rest])


if __name__ == "__main__":
    main()
