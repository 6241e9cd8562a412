"""hostile.py - clients that never read, never finish, lie, or die, on TCP and Unix sockets: the server serves on, its memory
stays bounded, and what it did about them is counted."""

import json
import os
import random
import select
import signal
import socket
import struct
import time
import unittest

import server

MIB = 1 << 20
# Sessions' buffers come in four sizes (2 KiB with 4, 16, 20 and 80 KiB), each from pages of 2 MiB of which one stays; and so
# much as memory.ahead, 8 MiB here, is populated or returned late.
BUFFERS_AND_AHEAD = 4 * 2 * MIB + 8 * MIB


def request(*words):
    words = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def reply_read(connection, bytes_count):
    data = b""
    while len(data) < bytes_count:
        got = connection.recv(bytes_count - len(data))
        if not got:
            raise AssertionError(f"closed after {data!r}")
        data += got
    return data


def flood(connection, data, most_bytes, seconds=20):
    """Send data again and again without reading. Returns (bytes sent, whether the server closed the connection)."""
    connection.setblocking(False)
    sent, deadline, last_progress = 0, time.monotonic() + seconds, time.monotonic()
    view = memoryview(data * max(1, 65536 // len(data)))
    at = 0
    while sent < most_bytes and time.monotonic() < deadline:
        try:
            taken = connection.send(view[at:])
            sent += taken
            at = (at + taken) % len(view)
            last_progress = time.monotonic()
        except BlockingIOError:
            # Closed with our bytes unread shows as a hang-up, not as readable.
            poll = select.poll()
            poll.register(connection, select.POLLOUT | select.POLLHUP | select.POLLERR)
            events = poll.poll(200)
            if any(event & (select.POLLHUP | select.POLLERR) for _, event in events):
                return sent, True
            if time.monotonic() - last_progress > 5:
                return sent, False
        except (BrokenPipeError, ConnectionResetError):
            return sent, True
    return sent, False


class Hostile(unittest.TestCase):
    settings = ()
    transports = ("tcp", "unix")

    def server_open(self, *settings):
        return server.Server(*settings)

    def setUp(self):
        self.server = self.server_open(*self.settings)
        self.ended = False  # a test that stops the server itself says so
        self.addCleanup(lambda: self.server.stop(check=not self.ended))
        self.kept_bytes = self.session_bytes_settled()  # what sessions keep for full memory: taken after the start

    def session_bytes_settled(self):
        last, seen = -1, 0
        while seen < 3:
            now = json.loads(self.server.sluicectl("-j", "memory"))["session_bytes"]
            last, seen = now, seen + 1 if now == last else 0
            time.sleep(0.05)
        return last

    def assert_serves(self, over="tcp"):
        with self.server.connect(over, timeout_s=5) as other:
            other.sendall(request("PING"))
            self.assertEqual(reply_read(other, 7), b"+PONG\r\n")

    def assert_resident_within(self, before, more_bytes):
        grown = self.server.resident_bytes() - before
        self.assertLess(grown, more_bytes, f"resident memory grew by {grown / MIB:.1f} MiB")


class BeforeAuth(Hostile):
    settings = ("auth.password=secret",)

    def assert_serves(self, over="tcp"):
        with self.server.connect(over, timeout_s=5) as other:
            other.sendall(request("AUTH", "secret"))
            self.assertEqual(reply_read(other, 5), b"+OK\r\n")

    def test_a_stranger_that_never_reads_is_closed_at_a_small_cap(self):
        for over in self.transports:
            before = self.server.resident_bytes()
            closed_before = self.server.counters()["closed_output_limit"]
            with self.server.connect(over) as stranger:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sent, closed = flood(stranger, request("GET", "k"), 256 * MIB)
                self.assertTrue(closed, f"still open after {sent} bytes")
            self.server.counter_wait("closed_output_limit", closed_before + 1)
            self.assert_resident_within(before, BUFFERS_AND_AHEAD)
            self.assert_serves(over)

    def test_a_silent_stranger_is_closed_in_time(self):
        quick = self.server_open("auth.password=secret", "limits.auth_timeout=300ms")
        try:
            with quick.connect(timeout_s=10) as stranger:
                begun = time.monotonic()
                self.assertEqual(stranger.recv(1), b"")
                self.assertGreater(time.monotonic() - begun, 0.25)
            quick.counter_wait("closed_timeout", 1)
        finally:
            quick.stop()

    def test_a_thousand_wrong_passwords_leave_another_client_served(self):
        with self.server.connect() as good, self.server.connect() as bad:
            good.sendall(request("AUTH", "secret"))
            reply_read(good, 5)
            for _ in range(20):
                bad.sendall(request("AUTH", "wrong") * 50)
                begun = time.monotonic()
                good.sendall(request("PING"))
                self.assertEqual(reply_read(good, 7), b"+PONG\r\n")
                self.assertLess(time.monotonic() - begun, 1)
                for _ in range(50):
                    self.assertTrue(reply_read(bad, len(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"))
                                    .startswith(b"-WRONGPASS"))
        self.assertEqual(self.server.counter_wait("auth_failures", 1000), 1000)


class NeverRead(Hostile):
    def test_requests_wait_when_their_replies_are_not_read(self):
        for over in self.transports:
            with self.server.connect(over) as client:
                client.sendall(request("SET", "big", b"x" * MIB))
                reply_read(client, 5)
            before = self.server.resident_bytes()
            with self.server.connect(over) as client:
                sent, _ = flood(client, request("GET", "big"), 64 * MIB, seconds=5)
                self.assertLess(sent, 64 * MIB, "requests were taken without end while nobody read the answers")
                self.assert_resident_within(before, 64 * MIB)
                self.assert_serves(over)

    def test_a_subscriber_that_does_not_read_is_closed_and_does_not_stall_its_publisher(self):
        for over in self.transports:
            closed_before = self.server.counters()["closed_slow_consumer"]
            with self.server.connect(over) as slow, self.server.connect(over) as quick, self.server.connect(over) as publisher:
                for subscriber in (slow, quick):
                    subscriber.sendall(request("SUBSCRIBE", "c"))
                reply_read(slow, 1)
                reply_read(quick, len(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"))
                message = b"m" * (256 * 1024)
                push = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n" % (len(message), message)
                for _ in range(300):
                    begun = time.monotonic()
                    publisher.sendall(request("PUBLISH", "c", message))
                    self.assertIn(reply_read(publisher, 4), (b":2\r\n", b":1\r\n"))
                    self.assertLess(time.monotonic() - begun, 5)
                    self.assertEqual(reply_read(quick, len(push)), push)
            self.assertGreaterEqual(self.server.counter_wait("closed_slow_consumer", closed_before + 1), closed_before + 1)
            self.assert_serves(over)


class NeverFinish(Hostile):
    def test_a_line_without_end_is_refused_and_takes_no_memory(self):
        before = self.server.resident_bytes()
        for begin in (b"\0", b"*\0", b"$\0", b"*2\r\n$3\r\nGET\r\n$", b"*1", b"A"):
            with self.server.connect() as client:
                client.sendall(begin)
                sent, closed = flood(client, b"A", 64 * MIB)
                self.assertTrue(closed, f"{begin!r}: still open after {sent} bytes")
        self.assert_resident_within(before, BUFFERS_AND_AHEAD)
        self.assert_serves()

    def test_many_half_requests_take_bounded_memory_and_give_it_back(self):
        clients = [self.server.connect() for _ in range(64)]
        for client in clients:
            client.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n" + b"x" * 100000)
        self.assert_serves()
        taken = self.session_bytes_settled() - self.kept_bytes
        self.assertGreater(taken, len(clients) * MIB)
        self.assertLess(taken, len(clients) * (2 * MIB + 8192))  # a block for the whole request, and the session
        for client in clients:
            client.close()
        opened = self.server.counters()["sessions_opened"]
        self.server.counter_wait("sessions_closed", opened - 1)
        self.assert_serves()
        self.assertLess(self.session_bytes_settled() - self.kept_bytes, 64 * 1024)

    def test_a_client_that_asks_and_hangs_up_in_one_breath_is_answered_and_closed(self):
        idle = [self.server.connect() for _ in range(40)]
        for client in idle:
            self.addCleanup(client.close)
        for over in self.transports:
            for _ in range(100):
                with self.server.connect(over, timeout_s=5) as client:
                    client.sendall(request("PING"))
                    client.shutdown(socket.SHUT_WR)
                    self.assertEqual(reply_read(client, 7), b"+PONG\r\n")
                    self.assertEqual(client.recv(1), b"")


class Liars(Hostile):
    STREAM = request("SET", "k", "value") + request("HSET", "h", "f", "v") + b"PING\r\n" + request("ZADD", "z", "1.5", "m")

    def probe(self, data):
        """Whatever the answer is, it comes and the connection ends."""
        with self.server.connect(self.transports[-1], timeout_s=10) as client:
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass

    def test_every_cut(self):
        for cut in range(len(self.STREAM) + 1):
            self.probe(self.STREAM[:cut])
        self.assert_serves()

    def test_every_flipped_bit(self):
        for at in range(len(self.STREAM)):
            for bit in range(8):
                data = bytearray(self.STREAM)
                data[at] ^= 1 << bit
                self.probe(bytes(data))
        self.assert_serves()

    def test_random_bytes(self):
        seed = int(os.environ.get("SLUICE_SEED", "1"))
        generator = random.Random(seed)
        for _ in range(300):
            self.probe(generator.randbytes(generator.randrange(1, 2000)))
        self.assert_serves()


class Killed(Hostile):
    ROUNDS = 100  # for each transport

    def client_run(self, over, seed):
        """In a child: requests of all sizes, answers half read, until it is killed."""
        generator = random.Random(seed)
        with self.server.connect(over) as client:
            client.sendall(request("SUBSCRIBE", "c") if seed % 4 == 0 else request("PING"))
            client.setblocking(False)
            while True:
                data = request("SET", f"k{generator.randrange(100)}", b"v" * generator.randrange(200000)) + request("INCR", "n")
                try:
                    client.send(data[:generator.randrange(1, len(data))] if generator.random() < 0.3 else data)
                    if generator.random() < 0.5:
                        client.recv(1000)
                except BlockingIOError:
                    pass

    def test_clients_killed_in_mid_request_leave_nothing(self):
        baseline = self.server.counters()
        for over in self.transports:
            for seed in range(self.ROUNDS):
                child = os.fork()
                if child == 0:
                    try:
                        self.client_run(over, seed)
                    finally:
                        os._exit(0)
                time.sleep(random.Random(seed).uniform(0.002, 0.02))
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            self.assert_serves(over)
        deadline = time.monotonic() + 10
        while True:
            now = self.server.counters()
            opened, closed = (now[name] - baseline[name] for name in ("sessions_opened", "sessions_closed"))
            if opened == closed:
                break
            self.assertLess(time.monotonic(), deadline, f"{opened} sessions opened, {closed} closed")
            time.sleep(0.05)
        self.assertGreaterEqual(opened, len(self.transports) * self.ROUNDS * 0.5)  # a busy machine kills some before they connect
        descriptors = len(os.listdir(f"/proc/{self.server.process.pid}/fd"))
        self.assertLess(descriptors, 64)

    def test_a_reset_connection_leaves_nothing(self):
        for _ in range(200):
            client = self.server.connect()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(request("SET", "k", "v") * 100)
            client.close()
        opened = self.server.counters()["sessions_opened"]
        self.server.counter_wait("sessions_closed", opened)
        self.assert_serves()


class Stopped(Hostile):
    def test_sigterm_answers_what_was_taken_and_ends_in_time(self):
        client = self.server.connect()
        client.sendall(request("INCR", "n"))
        self.assertEqual(reply_read(client, 4), b":1\r\n")
        client.sendall(request("INCR", "n") * 1000)
        begun = time.monotonic()
        self.ended = True
        self.server.process.send_signal(signal.SIGTERM)
        answers = b""
        try:
            while data := client.recv(65536):
                answers += data
        except ConnectionResetError:
            pass
        self.assertEqual(self.server.process.wait(15), 0)
        self.assertLess(time.monotonic() - begun, 10)
        self.assertTrue(answers == b"" or answers.endswith(b"\r\n"), "an answer was cut")
        numbers = [int(line[1:]) for line in answers.split(b"\r\n")[:-1]]
        self.assertEqual(numbers, list(range(2, 2 + len(numbers))))
        client.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
