"""value_sizes.py - values of 0 B to 1 MiB go in and come out byte for byte over every transport and wire: one at a time, all in
flight, and read by another client than the one that wrote them."""

import sys
import time
import unittest

import fabric

KIB = 1024
MIB = KIB * KIB
# Edges: powers of two; what a provider injects (64, 128, 1256, 4096), less the envelope and RESP's own bytes; frames of 4 and 8 KiB.
SIZES = sorted({
    *range(0, 140), 255, 256, 511, 512, 1023, 1024, *range(1200, 1260, 3), 2047, 2048,
    *range(4030, 4100, 3), 4095, 4096, 4097, *range(8120, 8195, 3), 8191, 8192, 8193, 12287, 12288,
    16383, 16384, 16385, 32767, 32768, 65535, 65536, 65537, 131071, 131072, 262144, 524287, 1000000, MIB - 1, MIB,
})
TRANSPORTS = ("-", "net", "tcp;ofi_rxm", "udp;ofi_rxd", "shm")  # "-": the Unix socket
BLOCK = bytes(range(251))


def value(size, shift):
    """The same as value_make() of hostile_client.c: byte i is (i + size + shift) % 251."""
    return (BLOCK * (size // 251 + 2))[(size + shift) % 251:][:size]


class ValueSizes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = fabric.server_open(*(fabric.port(provider) for provider in TRANSPORTS[1:]))
        with cls.server.connect() as writer:
            for size in SIZES:
                assert fabric.resp_call(writer, "SET", f"other:{size}", value(size, 1)) == b"OK"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def check_transport(self, provider, wire):
        with self.server.connect() as control:
            for size in SIZES:
                fabric.resp_call(control, "DEL", f"v:{size}")
        begun = time.monotonic()
        client = fabric.client_start(self.server, "hostile_client", "sizes", wire, provider, *SIZES)
        fabric.client_end(client)
        print(f"{provider} {wire}: {len(SIZES)} sizes in {time.monotonic() - begun:.1f} s", file=sys.stderr)
        with self.server.connect() as reader:
            for size in SIZES:
                self.assertEqual(fabric.resp_call(reader, "GET", f"v:{size}"), value(size, 2), f"{size} bytes")

    def test_over_tcp(self):
        """Without the C client: what is on the socket is what counts."""
        with self.server.connect() as client:
            for size in SIZES:
                self.assertEqual(fabric.resp_call(client, "GET", f"other:{size}"), value(size, 1), f"{size} bytes")
                self.assertEqual(fabric.resp_call(client, "STRLEN", f"other:{size}"), size)
            client.sendall(b"".join(fabric.resp_request("GET", f"other:{size}") for size in SIZES))
            reader = fabric.Reader(client)
            for size in SIZES:
                self.assertEqual(reader.reply(), value(size, 1), f"{size} bytes in flight")

    def test_one_byte_more_than_the_limit_is_refused_and_nothing_is_stored(self):
        with self.server.connect() as client:
            answer = fabric.resp_call(client, "SET", "too:long", bytes(MIB + 1))
            self.assertIsInstance(answer, fabric.ErrorReply)
        with self.server.connect() as client:
            self.assertEqual(fabric.resp_call(client, "EXISTS", "too:long"), 0)


def add_tests():
    for provider in TRANSPORTS:
        for wire in ("resp2", "resp3", "sbe"):
            name = "unix" if provider == "-" else provider.replace(";", "_")
            test = lambda self, p=provider, w=wire: self.check_transport(p, w)
            setattr(ValueSizes, f"test_over_{name}_{wire}", test)


add_tests()

if __name__ == "__main__":
    unittest.main(verbosity=2)
