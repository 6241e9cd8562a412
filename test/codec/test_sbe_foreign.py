#!/usr/bin/python3
"""test_sbe_foreign.py - a client in another language, made from the published schema alone, talks to a running server:
every template, errors, pushes, pipelines, and frames with every byte changed."""

import pathlib
import struct
import sys
import unittest

from test_sbe_schema import Schema, kept_frames

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "external"))
from server import Server  # noqa: E402

SCHEMA = Schema()
KINDS = {number: name for name, number in SCHEMA.choices["ValueKind"].items()}
STATUS = {number: name for name, number in SCHEMA.choices["StatusCode"].items()}
ERROR = {number: name for name, number in SCHEMA.choices["ErrorCode"].items()}


class Failure(Exception):
    """An ErrorReply: its code and text."""


def tree(values):
    """Python values of a flat group; consumes what belongs to the first of them."""
    kind, data = KINDS[values[0]["kind"]], values.pop(0)["bytes"]
    if kind in ("ARRAY", "SET", "PUSH"):
        return [tree(values) for _ in range(struct.unpack("<I", data)[0])]
    if kind == "MAP":
        return {tree(values): tree(values) for _ in range(struct.unpack("<I", data)[0])}
    formats = {"INTEGER": "<q", "DOUBLE": "<d"}
    return None if kind == "NIL" else struct.unpack(formats[kind], data)[0] if kind in formats else data


class Client:
    def __init__(self, server):
        self.socket = server.connect()
        self.socket.sendall(b"SLUICE\x01\n")
        self.correlation = 0
        self.input = b""

    def send(self, message, /, **values):
        self.correlation += 1
        self.socket.sendall(SCHEMA.encode(message, correlation=self.correlation, **values))
        return self.correlation

    def frame(self):
        """None: the server closed."""
        while len(self.input) < 4 or len(self.input) < 4 + struct.unpack_from("<I", self.input)[0]:
            data = self.socket.recv(1 << 20)
            if not data:
                assert not self.input, "a frame was cut"
                return None
            self.input += data
        end = 4 + struct.unpack_from("<I", self.input)[0]
        frame, self.input = self.input[:end], self.input[end:]
        return frame

    def receive(self):
        """(correlation, value); a Push has 0."""
        message, values = SCHEMA.decode(self.frame())
        if message == "ErrorReply":
            return values["correlation"], Failure(ERROR[values["code"]], values["text"])
        if message == "StatusReply":
            return values["correlation"], values["text"].decode() or STATUS[values["code"]]
        if message in ("ValuesReply", "Push"):
            value = tree(values["values"])
            assert not values["values"], "one tree a message"
            return values["correlation"], value
        return values["correlation"], values.get("value")

    def call(self, message, /, **values):
        asked = self.send(message, **values)
        answered, value = self.receive()
        assert answered == asked, (answered, asked)
        if isinstance(value, Failure):
            raise value
        return value

    def command(self, name, *arguments):
        return self.call("Command", name=name, arguments=[{"argument": argument} for argument in arguments])

    def set(self, key, value, kind="NONE", expiry=0, options=0):
        return self.call("Set", key=key, value=value, expiry=expiry, expiryKind=SCHEMA.choices["ExpiryKind"][kind],
                         options=options)


class Foreign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.server_open()

    @classmethod
    def server_open(cls):
        return Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        self.client = Client(self.server)
        self.client.command(b"FLUSHALL")

    def tearDown(self):
        self.client.socket.close()

    def assert_fails(self, code, text, call, /, *arguments, **values):
        with self.assertRaises(Failure) as caught:
            call(*arguments, **values)
        self.assertEqual(caught.exception.args, (code, text))

    def test_strings(self):
        client, options = self.client, SCHEMA.choices["SetOptions"]
        self.assertEqual(client.call("Ping", message=b""), "PONG")
        self.assertEqual(client.call("Ping", message=b"hi"), b"hi")
        self.assertIsNone(client.call("Get", key=b"k"))
        self.assertEqual(client.set(b"k", b"\x00\xff"), "OK")
        self.assertEqual(client.call("Get", key=b"k"), b"\x00\xff")
        self.assertIsNone(client.set(b"k", b"2", options=1 << options["ifMissing"]))
        self.assertEqual(client.set(b"k", b"2", "AFTER_MS", 60000, 1 << options["returnOld"]), b"\x00\xff")
        self.assertTrue(0 < client.command(b"PTTL", b"k") <= 60000)
        client.set(b"k", b"3", "KEEP")
        self.assertTrue(0 < client.command(b"PTTL", b"k") <= 60000)
        client.set(b"k", b"4")
        self.assertEqual(client.command(b"PTTL", b"k"), -1)
        self.assert_fails("ERR", b"ERR syntax error", client.set, b"k", b"v", options=3)
        self.assert_fails("ERR", b"ERR invalid expire time in 'set' command", client.set, b"k", b"v", "AFTER_MS", 0)

    def test_integers_reach_both_ends(self):
        client = self.client
        self.assertEqual(client.call("Incrby", key=b"n", increment=-(1 << 63)), -(1 << 63))
        self.assert_fails("ERR", b"ERR increment or decrement would overflow", client.call, "Incrby", key=b"n", increment=-1)
        self.assertEqual(client.call("Get", key=b"n"), b"-9223372036854775808")
        self.assertEqual(client.call("Expire", key=b"n", seconds=100, conditions=0), 1)
        self.assertEqual(client.call("Expire", key=b"n", seconds=100, conditions=1), 0)
        self.assertEqual(client.call("Del", keys=[{"key": b"n"}, {"key": b"none"}]), 1)

    def test_hashes_and_sorted_sets(self):
        client = self.client
        pairs = [{"field": b"f", "value": b"1"}, {"field": b"g", "value": b""}]
        self.assertEqual(client.call("Hset", key=b"h", fields=pairs), 2)
        self.assertEqual(client.call("Hget", key=b"h", field=b"f"), b"1")
        self.assertEqual(client.command(b"hgetall", b"h"), {b"f": b"1", b"g": b""})
        members = [{"score": 0.1, "member": b"m"}, {"score": float("-inf"), "member": b"n"}]
        self.assertEqual(client.call("Zadd", key=b"z", options=0, members=members), 2)
        self.assertEqual(client.call("Zscore", key=b"z", member=b"m"), 0.1)
        self.assertEqual(client.call("Zscore", key=b"z", member=b"n"), float("-inf"))
        increment = 1 << SCHEMA.choices["ZaddOptions"]["increment"]
        self.assertEqual(client.call("Zadd", key=b"z", options=increment, members=[{"score": 0.2, "member": b"m"}]), 0.1 + 0.2)
        self.assert_fails("ERR", b"ERR value is not a valid float", client.call, "Zadd", key=b"z", options=0,
                          members=[{"score": float("nan"), "member": b"m"}])
        self.assert_fails("WRONGTYPE", b"WRONGTYPE Operation against a key holding the wrong kind of value",
                          client.call, "Get", key=b"z")

    def test_other_commands_by_name(self):
        client = self.client
        client.set(b"a", b"1")
        self.assertEqual(client.command(b"MGET", b"a", b"none"), [b"1", None])
        self.assertEqual(client.command(b"type", b"a"), "string")
        self.assert_fails("ERR", b"ERR wrong number of arguments for 'get' command", client.command, b"GET")
        with self.assertRaisesRegex(Failure, "unknown command 'nosuch'"):
            client.command(b"nosuch")

    def test_a_subscriber_is_answered_and_pushed_to(self):
        listener = Client(self.server)
        asked = listener.send("Subscribe", channels=[{"channel": b"a"}, {"channel": b"b"}])
        self.assertEqual(listener.receive(), (asked, [b"subscribe", b"a", 1]))
        self.assertEqual(listener.receive(), (asked, [b"subscribe", b"b", 2]))
        self.assertEqual(self.client.call("Publish", channel=b"a", message=b"\x00news"), 1)
        self.assertEqual(listener.receive(), (0, [b"message", b"a", b"\x00news"]))
        self.assertEqual(listener.call("Ping", message=b""), "PONG")
        listener.socket.close()

    def test_answers_come_in_order(self):
        client = self.client
        asked = range(client.correlation + 1, client.correlation + 5001)
        client.socket.sendall(b"".join(SCHEMA.encode("Incrby", correlation=i, key=b"p", increment=1) for i in asked))
        self.assertEqual([client.receive() for _ in asked], [(i, n) for n, i in enumerate(asked, 1)])

    def test_values_of_a_mebibyte(self):
        value = bytes(range(256)) * 4096
        self.assertEqual(self.client.set(b"big", value), "OK")
        self.assertEqual(self.client.call("Get", key=b"big"), value)
        self.assert_fails("ERR", b"ERR SBE: an argument is longer than the limit", self.client.set, b"big", value + b"x")
        self.assertEqual(self.client.call("Get", key=b"big"), value)

    def test_a_bad_message_is_answered_and_the_stream_goes_on(self):
        frame = bytearray(SCHEMA.encode("Get", correlation=77, key=b"k"))
        frame[6:8] = struct.pack("<H", 21)
        self.client.socket.sendall(frame)
        correlation, failure = self.client.receive()
        self.assertEqual((correlation, failure.args[0]), (77, "ERR"))
        self.assertEqual(self.client.call("Ping", message=b""), "PONG")

    def test_a_bad_length_is_answered_and_ends_the_stream(self):
        for length in (0, 7, 1 << 31, (1 << 32) - 1):
            client = Client(self.server)
            client.socket.sendall(struct.pack("<I", length))
            correlation, failure = client.receive()
            self.assertEqual(correlation, 0)
            self.assertRegex(failure.args[1], b"^ERR SBE: frame length ")
            self.assertIsNone(client.frame())
            client.socket.close()

    def test_every_changed_byte_is_survived(self):
        for name, frame in kept_frames():
            for at in range(len(frame)):
                client = Client(self.server)
                changed = bytearray(frame)
                changed[at] ^= 0xff
                client.socket.sendall(changed + SCHEMA.encode("Ping", correlation=0xfeed, message=b""))
                client.socket.shutdown(1)
                while (answer := client.frame()) is not None:
                    SCHEMA.decode(answer)
                client.socket.close()
        self.assertEqual(self.client.call("Ping", message=b""), "PONG")


if __name__ == "__main__":
    unittest.main()
