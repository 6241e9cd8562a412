"""fabric_attach.py - FABRIC ATTACH, RESUME and DETACH as strangers and strained clients use them: 10,000 cycles, bytes that are no
address, secrets that are wrong, ports that are full. The appliance refuses with a sentence and keeps nothing."""

import os
import random
import socket
import struct
import time
import unittest

import fabric

CYCLES = 10000
LOST = "SESSION_LOST"


def ipv4_address(host="127.0.0.1", port=1, family=socket.AF_INET):
    """struct sockaddr_in: the form of net's, rxm's and rxd's addresses."""
    return struct.pack("=H", family) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def hex_of(address):
    return b"0x" + address.hex().encode()


class Attach(unittest.TestCase):
    ports = (fabric.port("net"),)
    settings = ()
    more = ""

    def setUp(self):
        self.server = fabric.server_open(*self.ports, settings=self.settings, more=self.more)
        self.addCleanup(self.server.stop)
        # Where frames to our addresses go: nobody accepts, nobody answers.
        self.silent = socket.socket()
        self.addCleanup(self.silent.close)
        self.silent.bind(("127.0.0.1", 0))
        self.silent.listen(1024)
        self.address = ipv4_address(port=self.silent.getsockname()[1])

    def control(self, *auth):
        connection = self.server.connect("unix", timeout_s=60)
        self.addCleanup(connection.close)
        if auth:
            self.assertEqual(fabric.resp_call(connection, "AUTH", *auth), b"OK")
        return connection

    def ask(self, connection, *words):
        return fabric.resp_call(connection, "FABRIC", *words)

    def attach(self, connection, port="net", address=None, wire="resp2"):
        """What the client learns, by name."""
        answer = self.ask(connection, "ATTACH", port, address or self.address, wire)
        self.assertIsInstance(answer, list, answer)
        return {name.decode(): value for name, value in zip(answer[::2], answer[1::2])}

    def detach(self, connection, session):
        self.assertEqual(self.ask(connection, "DETACH", session["session"], session["secret"]), b"OK")

    def assert_refused(self, answer, code, *words):
        self.assertIsInstance(answer, fabric.ErrorReply, answer)
        self.assertTrue(answer.startswith(code + " "), answer)
        for word in words:
            self.assertIn(word, answer)

    def seats(self, name="net"):
        return self.server.fabric_sessions()[name]

    def seats_wait(self, count, name="net", timeout_s=30):
        self.server.wait_until(f"seats of {name}", lambda: (self.seats(name) == count, self.seats(name)), timeout_s)


class Cycles(Attach):
    def test_ten_thousand_attached_clients_come_and_go_and_nothing_stays(self):
        def run(count):
            begun = time.monotonic()
            client = fabric.client_start(self.server, "attach_cycles", None, "net", count)
            self.assertEqual(fabric.client_end(client, 300), f"{count}\n")
            print(f"{count} cycles in {time.monotonic() - begun:.0f} s", flush=True)

        run(300)
        before, resident_before = self.server.empty_wait(60), self.server.resident_bytes()
        attached_before = self.server.counters()["fabric_attaches"]
        run(CYCLES)
        after = self.server.empty_wait(60)
        self.assertEqual(self.server.counters()["fabric_attaches"] - attached_before, CYCLES)
        self.assertLess(after["used_bytes"], before["used_bytes"] + 16 * 1024)
        self.assertLess(after["descriptors"], before["descriptors"] + 3)
        self.assertLess(self.server.resident_bytes() - resident_before, 4 << 20)

    def test_clients_that_never_speak_a_frame_come_and_go(self):
        """Their addresses are all different: each takes and leaves a place in the address vector."""
        before = self.server.empty_wait(60)
        with self.server.connect("unix") as control:
            for i in range(1000):
                address = ipv4_address(host=f"127.0.{i >> 8}.{i & 255}", port=9)
                self.detach(control, self.attach(control, address=hex_of(address)))
        after = self.server.empty_wait(60)
        self.assertLess(after["used_bytes"], before["used_bytes"] + 16 * 1024)
        fabric.others_write(self.server, (100,))
        fabric.client_end(fabric.client_start(self.server, "hostile_client", "sizes", "sbe", "net", 100))

    def test_one_connection_that_is_closed_before_the_answer_leaves_a_session_that_expires(self):
        quick = fabric.server_open(fabric.port("net", lease="100ms"), settings=self.settings)
        self.addCleanup(quick.stop)
        for _ in range(30):
            with quick.connect("unix") as control:
                control.sendall(fabric.resp_request("FABRIC", "ATTACH", "net", self.address, "resp2"))
        quick.wait_until("seats", lambda: (quick.fabric_sessions()["net"] == 0, quick.fabric_sessions()), 60)
        self.assertEqual(quick.counter_wait("fabric_attaches", 30), 30)


class CyclesOfTwoLcores(Cycles):
    """Half of the sessions belong to another lcore than the connection that asks: questions and answers go by mail."""
    settings = ("lcores.cpus=0,1",)


class Refused(Attach):
    ports = tuple(fabric.port(provider) for provider in ("net", "tcp;ofi_rxm", "udp;ofi_rxd", "shm"))

    def test_names_wires_and_words_that_are_none(self):
        control, address = self.control(), self.address
        for words, code, word in (
            (("ATTACH", "nosuch", address, "resp2"), "ERR", "FABRIC PORTS"),
            (("ATTACH", "", address, "resp2"), "ERR", "FABRIC PORTS"),
            (("ATTACH", "ne", address, "resp2"), "ERR", "FABRIC PORTS"),
            (("ATTACH", "net\0", address, "resp2"), "ERR", "FABRIC PORTS"),
            (("ATTACH", "n" * 5000, address, "resp2"), "ERR", ""),
            (("ATTACH", "net", address), "ERR", "arguments"),
            (("ATTACH", "net", address, "resp4"), "ERR", "resp2|resp3|sbe"),
            (("ATTACH", "net", address, ""), "ERR", "resp2|resp3|sbe"),
            (("ATTACH", "net", address, "resp2", "CREDIT"), "ERR", "syntax"),
            (("ATTACH", "net", address, "resp2", "CREDIT", "0"), "ERR", "syntax"),
            (("ATTACH", "net", address, "resp2", "CREDIT", "-1"), "ERR", "syntax"),
            (("ATTACH", "net", address, "resp2", "CREDIT", "65536"), "ERR", "syntax"),
            (("ATTACH", "net", address, "resp2", "CREDIT", "9223372036854775808"), "ERR", "syntax"),
            (("ATTACH", "net", address, "resp2", "FRAME", "255"), "ERR", "syntax"),
            (("ATTACH", "net", address, "resp2", "FRAME", "0x1000"), "ERR", "syntax"),
            (("ATTACH", "net", address, "resp2", "SPEED", "1"), "ERR", "syntax"),
            (("ATTACH", "net", address, "resp2", "CREDIT", "1", "CREDIT"), "ERR", "syntax"),
            (("PORTS", "all"), "ERR", "arguments"),
            (("DETACH", "1"), "ERR", "arguments"),
            (("DETACH", "one", "0" * 32), "ERR", "integer"),
            (("RESUME", "1", "0" * 32, address), "ERR", "arguments"),
            (("ENTER",), "ERR", "ENTER"),
            ((), "ERR", "arguments"),
        ):
            with self.subTest(words=words[:5]):
                self.assert_refused(self.ask(control, *words), code, word)
        for words in (("ATTACH", "net", address, "resp2", *("CREDIT", "1") * 300), ("ATTACH", "net", address, "resp2", "a" * 4000)):
            self.assert_refused(self.ask(control, *words), "ERR")
        self.assertEqual(set(self.server.fabric_sessions().values()), {0})

    def test_bytes_that_are_no_address(self):
        control = self.control()
        good = self.address
        garbage = [
            b"", b"\0", b"0x", b"0x0", b"0xzz", b"0x" + b"00" * 257, b"a" * 256, b"a" * 257, good[:-1], good + b"\0",
            good[:2], bytes(16), b"\xff" * 16, ipv4_address(family=socket.AF_INET6), ipv4_address(family=0xffff), ipv4_address(port=0),
            struct.pack("=H", socket.AF_INET6) + bytes(26), hex_of(good)[:-1], hex_of(good) + b"00", b"127.0.0.1:7000", b"fi_shm://",
        ]
        for address in garbage:
            with self.subTest(port="net", address=address[:40]):
                self.assert_refused(self.ask(control, "ATTACH", "net", address, "resp2"), "ERR", "address")
        for address in (b"", b"x", b"fi_shm://", b"fi_shm://\0", b"fi_shm://1", b"fi_shm://a\0b\0", b"fi_shm:/" + b"x" * 300, good):
            with self.subTest(port="shm", address=address[:40]):
                self.assert_refused(self.ask(control, "ATTACH", "shm", address, "resp2"), "ERR", "address")
        self.assertEqual(set(self.server.fabric_sessions().values()), {0})

    def test_its_own_address_which_would_answer_its_own_pings_for_ever(self):
        control = self.control()
        own = {row["provider"]: b"0x" + row["address"].encode() for row in self.server.ctl("ports")["ports"] if row["type"] == "fabric"}
        self.assertEqual(len(own), len(self.ports))
        for provider, address in own.items():
            self.assert_refused(self.ask(control, "ATTACH", provider, address, "resp2"), "ERR", "own")
        session = self.attach(control)
        self.assert_refused(self.ask(control, "RESUME", session["session"], session["secret"], own["net"], 0), "ERR", "own")
        self.detach(control, session)

    def test_random_bytes_as_addresses_are_refused_or_taken_and_nobody_else_notices(self):
        """Bytes of the right form may be anybody's address: they are taken, and time ends the session."""
        seed = int(os.environ.get("SLUICE_SEED", "1"))
        chance, control = random.Random(seed), self.control()
        for i in range(400):
            port = ("net", "tcp;ofi_rxm", "udp;ofi_rxd", "shm")[i % 4]
            address = bytearray(self.address if port != "shm" else b"fi_shm://12345:0:0\0")
            for _ in range(chance.randrange(1, 4)):
                address[chance.randrange(2 if port != "shm" else 9, len(address))] = chance.randrange(256)
            if port != "shm":
                address[4:8] = socket.inet_aton("127.0.0.1")  # frames of this test stay on this machine
            answer = self.ask(control, "ATTACH", port, bytes(address), ("resp2", "resp3", "sbe")[i % 3])
            if isinstance(answer, list):
                session = dict(zip(answer[::2], answer[1::2]))
                self.assertEqual(self.ask(control, "DETACH", session[b"session"], session[b"secret"]), b"OK")
            else:
                self.assert_refused(answer, "ERR", "address")
        for port in self.server.fabric_sessions():
            self.seats_wait(0, port)
        fabric.others_write(self.server, (100,))
        for provider in ("net", "tcp;ofi_rxm", "udp;ofi_rxd", "shm"):
            fabric.client_end(fabric.client_start(self.server, "hostile_client", "sizes", "resp2", provider, 100))


class Strangers(Attach):
    settings = ("auth.password=secret",)

    def test_nobody_attaches_before_auth(self):
        control = self.control()
        for words in (("PORTS",), ("ATTACH", "net", self.address, "resp2"), ("DETACH", "1", "0" * 32),
                      ("RESUME", "1", "0" * 32, self.address, "0")):
            self.assert_refused(self.ask(control, *words), "NOAUTH")
        self.assertEqual(self.server.counters()["fabric_av_inserts"], 0)

    def seats(self, name="net"):
        control = self.control("secret")
        rows = self.ask(control, "PORTS")
        control.close()
        return {row[1]: row[9] for row in rows}[name.encode()]

    def test_the_session_is_authenticated_as_whoever_attached_it(self):
        control = self.control("secret")
        session = self.attach(control)
        self.assertEqual(self.seats(), 1)
        self.detach(control, session)
        self.seats_wait(0)


class Resume(Attach):
    ports = (fabric.port("net", lease="60s", sessions=8),)

    def test_what_does_not_fit_is_session_lost_and_the_session_stays(self):
        control = self.control()
        session = self.attach(control)
        number, secret = session["session"], session["secret"]
        flipped = bytes([secret[0] ^ 1]) + secret[1:]  # another hex digit, or none
        for name, words in (
            ("wrong secret", (number, b"0" * 32)),
            ("flipped secret", (number, flipped)),
            ("short secret", (number, secret[:-1])),
            ("long secret", (number, secret + b"0")),
            ("no hex", (number, b"g" * 32)),
            ("empty secret", (number, b"")),
            ("another session", (number + 1, secret)),
            ("a stream's session", (1, secret)),
            ("0", (0, secret)),
            ("negative", (-1, secret)),
            ("largest", ((1 << 63) - 1, secret)),
        ):
            with self.subTest(name):
                self.assert_refused(self.ask(control, "RESUME", *words, self.address, 0), LOST)
                self.assert_refused(self.ask(control, "DETACH", *words), LOST)
        for taken in (1, -1, (1 << 63) - 1):
            self.assert_refused(self.ask(control, "RESUME", number, secret, self.address, taken), "ERR", "taken")
        self.assert_refused(self.ask(control, "RESUME", number, secret, b"junk", 0), "ERR", "address")
        self.assert_refused(self.ask(control, "RESUME", number, secret, self.address, "x"), "ERR", "syntax")
        self.assert_refused(self.ask(control, "RESUME", number, secret, self.address, 0, "CREDIT", 0), "ERR", "syntax")
        again = self.ask(control, "RESUME", number, secret, self.address, 0)
        self.assertIsInstance(again, list, again)
        self.assertEqual(self.seats(), 1)

    def test_a_resumed_session_has_a_new_incarnation_and_the_same_number(self):
        control = self.control()
        first = self.attach(control)
        seen = {(first["wire_id"], first["incarnation"])}
        for _ in range(50):
            answer = self.ask(control, "RESUME", first["session"], first["secret"], self.address, 0)
            again = {name.decode(): value for name, value in zip(answer[::2], answer[1::2])}
            self.assertEqual((again["session"], again["secret"]), (first["session"], first["secret"]))
            seen.add((again["wire_id"], again["incarnation"]))
        self.assertEqual(len(seen), 51)
        self.detach(control, first)
        self.assert_refused(self.ask(control, "RESUME", first["session"], first["secret"], self.address, 0), LOST)
        self.seats_wait(0)


class ResumeOfTwoLcores(Resume):
    settings = ("lcores.cpus=0,1",)


class Expired(Attach):
    SEATS = 4
    ports = (fabric.port("net", lease="100ms", sessions=SEATS),)

    def assert_lost(self, control, session):
        self.assert_refused(self.ask(control, "RESUME", session["session"], session["secret"], self.address, 0), LOST)

    def test_a_silent_session_waits_for_its_client_and_then_is_lost(self):
        control = self.control()
        session = self.attach(control)
        self.assertGreaterEqual(self.server.counter_wait("fabric_lost", 1), 1)
        again = self.ask(control, "RESUME", session["session"], session["secret"], self.address, 0)
        self.assertIsInstance(again, list, again)  # silent for longer than the lease, and welcome
        self.seats_wait(0, timeout_s=60)  # for longer than 60 leases, and gone
        self.assert_lost(control, session)

    def test_silent_sessions_make_room_when_somebody_needs_it(self):
        control = self.control()
        silent = [self.attach(control) for _ in range(self.SEATS)]
        self.server.counter_wait("fabric_lost", self.SEATS)
        time.sleep(1)  # two leases in which their clients may notice
        for _ in range(2 * self.SEATS):
            fabric.others_write(self.server, (100,))
            fabric.client_end(fabric.client_start(self.server, "hostile_client", "sizes", "resp2", "net", 100))
        for _ in range(self.SEATS):
            self.attach(control)
        for session in silent:
            self.assert_lost(control, session)


class OtherUser(Attach):
    settings = ("auth.password=secret",)
    more = 'users = ( { name = "anna"; password = "of-anna"; } );'

    def test_the_secret_is_of_no_use_to_another_user(self):
        owner, other = self.control("secret"), self.control("anna", "of-anna")
        session = self.attach(owner)
        words = session["session"], session["secret"]
        self.assert_refused(self.ask(other, "RESUME", *words, self.address, 0), LOST)
        self.assert_refused(self.ask(other, "DETACH", *words), LOST)
        answer = self.ask(owner, "RESUME", *words, self.address, 0)
        self.assertIsInstance(answer, list, answer)
        self.detach(owner, session)


class Full(Attach):
    SEATS = 4
    ports = (fabric.port("net", sessions=SEATS, rx_slots=64, lease="60s"),)

    def test_no_receive_slots_are_left_and_then_there_are(self):
        control = self.control()
        sessions = [self.attach(control) for _ in range(self.SEATS)]
        self.assertEqual(self.seats(), self.SEATS)
        refused_before = self.server.counters()["sessions_refused"]
        for _ in range(20):
            self.assert_refused(self.ask(control, "ATTACH", "net", self.address, "resp2"), "ERR", "no receive slots are left")
        self.assertEqual(self.server.counter_wait("sessions_refused", refused_before + 20), refused_before + 20)
        for _ in range(5):
            self.detach(control, sessions.pop(0))
            self.seats_wait(self.SEATS - 1)
            sessions.append(self.attach(control))
        self.assert_refused(self.ask(control, "ATTACH", "net", self.address, "resp2"), "ERR", "no receive slots are left")
        for session in sessions:
            self.detach(control, session)
        self.seats_wait(0)

    def test_slots_that_cannot_be_shared_are_refused_at_boot(self):
        with self.assertRaises(fabric.server.ServerError) as caught:
            fabric.server_open(fabric.port("net", sessions=64, rx_slots=64)).stop()
        self.assertIn("need at least", str(caught.exception))


if __name__ == "__main__":
    unittest.main(verbosity=2)
