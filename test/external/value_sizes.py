"""value_sizes.py - values of 0 B to 1 MiB go in and come out byte for byte over every transport and wire: one at a time, all in
flight, and read by another client than the one that wrote them."""

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
PROVIDERS = ("net", "tcp;ofi_rxm", "udp;ofi_rxd", "shm")

class ValueSizes(unittest.TestCase):
    send = "auto"

    @classmethod
    def setUpClass(cls):
        cls.server = fabric.server_open(*(fabric.port(provider, send=cls.send) for provider in PROVIDERS))
        fabric.others_write(cls.server, SIZES)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def check(self, wire, provider="-", over="unix"):
        with self.server.connect() as control:
            for size in SIZES:
                fabric.resp_call(control, "DEL", f"v:{size}")
        fabric.client_end(fabric.client_start(self.server, "hostile_client", "sizes", wire, provider, *SIZES, over=over))
        with self.server.connect() as reader:
            for size in SIZES:
                self.assertEqual(fabric.resp_call(reader, "GET", f"v:{size}"), fabric.value(size, 2), f"{size} bytes")


class Auto(ValueSizes):
    def test_over_net(self):
        self.check_wires("net")

    def test_over_tcp_rxm(self):
        self.check_wires("tcp;ofi_rxm")

    def test_over_udp_rxd(self):
        self.check_wires("udp;ofi_rxd")

    def test_over_shm(self):
        self.check_wires("shm")

    def check_wires(self, provider):
        for wire in ("resp2", "resp3", "sbe"):
            with self.subTest(provider=provider, wire=wire):
                self.check(wire, provider)

    def test_over_sockets(self):
        for over in ("tcp", "unix"):
            for wire in ("resp2", "resp3", "sbe"):
                with self.subTest(over=over, wire=wire):
                    self.check(wire, over=over)

    def test_over_tcp_without_our_client(self):
        with self.server.connect() as client:
            for size in SIZES:
                self.assertEqual(fabric.resp_call(client, "GET", f"other:{size}"), fabric.value(size, 1), f"{size} bytes")
                self.assertEqual(fabric.resp_call(client, "STRLEN", f"other:{size}"), size)
            client.sendall(b"".join(fabric.resp_request("GET", f"other:{size}") for size in SIZES))
            reader = fabric.Reader(client)
            for size in SIZES:
                self.assertEqual(reader.reply(), fabric.value(size, 1), f"{size} bytes in flight")

    def test_one_byte_more_than_the_limit_is_refused_and_nothing_is_stored(self):
        with self.server.connect() as client:
            answer = fabric.resp_call(client, "SET", "too:long", bytes(MIB + 1))
            self.assertIsInstance(answer, fabric.ErrorReply)
        with self.server.connect() as client:
            self.assertEqual(fabric.resp_call(client, "EXISTS", "too:long"), 0)


class Send(ValueSizes):
    """The server copies every frame into a registered slot, also those that could be injected."""
    send = "send"

    def test_over_every_provider(self):
        for provider in PROVIDERS:
            for wire in ("resp2", "sbe"):
                with self.subTest(provider=provider, wire=wire):
                    self.check(wire, provider)


if __name__ == "__main__":
    unittest.main(verbosity=2)
