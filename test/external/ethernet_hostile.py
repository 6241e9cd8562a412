"""ethernet_hostile.py - frames that no honest neighbour sends, at an ethernet port: damaged, cut, forged, contradictory, and far too
many. It serves on, its memory stays bounded, and what it took for them comes back. Seeds replay (test/dataplane/packet_kinds.c).

    ethernet_hostile.py [--seed N]"""

import argparse
import pathlib
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
import unittest

import fabric
import netns
from segments import ACK, FIN, PSH, RST, SYN, URG, Stranger

MIB = 1 << 20
PING = b"PING\r\n"
PONG = b"+PONG\r\n"
RESIDENT_MORE = 16 * MIB  # what a flood may leave in allocators' hands
ARRIVE_LEAST = 0.2  # of the frames sent
STALL_US = 500000  # above it is more than a segment lost in the device's ring and sent again
SETTLE_S = 40  # fragments are forgotten after 15 s, half-open connections after 20

seed = 1


class Watch:
    """A client that asks in turns while the block runs, on a connection from before it. `.us`: what each answer took."""

    def __init__(self, served):
        self.connection = served.connect(timeout_s=30)
        self.us, self.error = [], None

    @property
    def peer(self):
        return self.connection.getsockname()

    def ask(self):
        while not self.ending:
            begun = time.monotonic()
            try:
                if fabric.resp_call(self.connection, "PING") != b"PONG":
                    raise AssertionError("a wrong answer")
            except (OSError, AssertionError) as error:
                self.error = error
                return
            self.us.append((time.monotonic() - begun) * 1e6)
            time.sleep(0.001)

    def __enter__(self):
        self.ending = False
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ending = True
        self.thread.join()
        self.connection.close()
        if kind is None and self.error is not None:
            raise AssertionError(f"the established client was not served: {self.error!r}")

    def p99_us(self):
        return statistics.quantiles(self.us, n=100)[98]


class Hostile(unittest.TestCase):
    link = netns.Wire
    mtu = 9000  # of the link, so that frames longer than the port's own MTU reach it

    @classmethod
    def setUpClass(cls):
        cls.wire = cls.enterClassContext(cls.link(cls.mtu))
        cls.server = cls.enterClassContext(netns.EthernetServer(cls.wire))
        cls.mac = cls.server.mac()
        for kind in ("garbage", "syn"):  # first touches are not growth
            netns.packets(cls.mac, kind, 2000, seed)
        time.sleep(0.5)

    def gauges(self):
        """What must come back."""
        counters = self.server.counters()
        return self.server.held() | {"sessions": counters["sessions_opened"] - counters["sessions_closed"]}

    def arrived(self):
        return self.server.counters()["ethernet_rx_packets"]

    def serves(self):
        with self.server.connect(timeout_s=10) as client:
            self.assertEqual(fabric.resp_call(client, "PING"), b"PONG")

    def strike(self, kind, count, per_second=40000, share=0.5):
        """The frames of one kind beside an established client. Returns its p99."""
        resident, before = self.server.resident_bytes(), self.arrived()
        with Watch(self.server) as watch:
            peer = watch.peer if kind in ("blind", "icmp_quoted") else None
            sent = got = 0
            for attempt in range(3):  # a lcore that another process keeps off its CPU lets the device's ring overflow
                sent += netns.packets(self.mac, kind, count, seed + attempt, per_second, peer)
                time.sleep(0.1)
                got = self.arrived() - before if netns.STACK == "port" else sent
                if got > sent * ARRIVE_LEAST:
                    break
        self.assertGreater(sent, count * share, "the link did not take them")
        self.assertGreater(got, sent * ARRIVE_LEAST, "the port did not see them")
        self.serves()
        grown = self.server.resident_bytes() - resident
        print(f"{kind:<22}{sent:>7} frames, {got:>7} reached the port; p99 beside it {watch.p99_us() / 1000:6.2f} ms; "
              f"resident {grown / 1024:+.0f} KiB", flush=True)
        self.assertLess(grown, RESIDENT_MORE)
        return watch.p99_us()

    def settled(self, before):
        deadline = time.monotonic() + SETTLE_S
        while True:
            now = self.gauges()
            if all(now[name] <= before[name] for name in before):
                return
            self.assertLess(time.monotonic(), deadline, f"{now}, and it was {before}")
            time.sleep(0.2)


class Frames(Hostile):
    def test_each_kind(self):
        before = self.gauges()
        for kind in ("checksum_ip", "checksum_tcp", "checksum_icmp", "truncated", "lengths", "ip_options", "tcp_options", "land",
                     "martian", "vlan", "ethertype", "icmp", "icmp_quoted", "protocol", "strays", "garbage", "jumbo", "arp_broken",
                     "arp_spoof", "arp_flood"):
            with self.subTest(kind):
                self.strike(kind, 10000)
        self.settled(before)

    def test_bad_checksums_are_counted(self):
        if netns.STACK == "kernel":
            self.skipTest("counters of the port")
        for kind in ("checksum_ip", "checksum_tcp", "checksum_icmp"):
            before = self.server.counters()["ethernet_checksum_errors"]
            netns.packets(self.mac, kind, 500, seed, 5000)
            self.server.counter_wait("ethernet_checksum_errors", before + 250)

    def test_the_client_is_found_again_after_a_flood_of_neighbours(self):
        netns.packets(self.mac, "arp_flood", 20000, seed, 40000)
        for _ in range(20):
            self.serves()


class Fragments(Hostile):
    """Over a tap: what DPDK's net_af_packet reads, the kernel has put together."""
    link = netns.Tap
    mtu = 1500

    def test_100000_fragments_that_never_meet_or_overlap(self):
        before = self.gauges()
        for kind in ("fragments_incomplete", "fragments_overlap"):
            self.strike(kind, 100000)
        self.settled(before)


class Syns(Hostile):
    def test_100000_syns_from_strangers(self):
        before = self.gauges()
        with Watch(self.server) as quiet:
            time.sleep(2)
        p99 = self.strike("syn", 100000, per_second=25000)
        print(f"p99 before {quiet.p99_us() / 1000:.2f} ms, during {p99 / 1000:.2f} ms", flush=True)
        self.assertLess(p99, max(10 * quiet.p99_us(), STALL_US))
        begun = time.monotonic()
        for _ in range(50):
            self.serves()
        self.assertLess(time.monotonic() - begun, 10)
        self.settled(before)

    def test_connects_succeed_while_strangers_flood(self):
        flood = threading.Thread(target=netns.packets, args=(self.mac, "syn", 60000, seed + 1, 15000))
        flood.start()
        worst = 0
        try:
            while flood.is_alive():
                begun = time.monotonic()
                self.serves()
                worst = max(worst, time.monotonic() - begun)
                time.sleep(0.05)
        finally:
            flood.join()
        print(f"worst connect and PING during the flood: {worst * 1000:.0f} ms", flush=True)


class Guesses(Hostile):
    def test_blind_guesses_at_a_connection(self):
        self.strike("blind", 100000)


class Files(unittest.TestCase):
    """All kinds through DPDK's net_pcap: no link, no kernel, the same frames at any speed."""
    COUNT = 2000
    MAC = "02:70:63:61:70:00"  # of DPDK's first net_pcap

    def frames(self, path):
        """Of a pcap file."""
        data = path.read_bytes()
        at = 24
        while at < len(data):
            kept = struct.unpack_from("<I", data, at + 8)[0]
            yield data[at + 16:at + 16 + kept]
            at += 16 + kept

    def test_a_file_of_every_kind(self):
        if netns.STACK == "kernel":
            self.skipTest("a device of DPDK's")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="sluice-test-")))
        fed, answered = folder / "fed.pcap", folder / "answered.pcap"
        written = netns.packets(self.MAC, "all", self.COUNT, seed, interface=fed)
        wire = self.enterContext(netns.Wire())
        wire.device = f"net_pcap0,rx_pcap={fed},tx_pcap={answered}"
        with netns.EthernetServer(wire) as served:
            served.counter_wait("ethernet_rx_packets", written // 2, timeout_s=60)
            with served.connect("unix") as client:
                self.assertEqual(fabric.resp_call(client, "PING"), b"PONG")
            held = served.held()
            print(f"{written} frames, then {held}, {served.resident_bytes() / MIB:.0f} MiB resident", flush=True)
            self.assertLess(held["frames_held"], 100)
        pongs = sum(frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_ICMP and frame[34] == 0 for frame in self.frames(answered))
        self.assertGreater(pongs, self.COUNT // 4, "pings among them were not answered")


class Segments(Hostile):
    """Whole conversations that no kernel would lead."""
    mtu = 1500
    port = 40000

    def stranger(self, **options):
        Segments.port += 1
        stranger = Stranger(self.mac, port=Segments.port, **options)
        self.addCleanup(stranger.close)
        stranger.connect()
        return stranger

    def assert_alive(self, stranger):
        for segment in stranger.drain():
            stranger.take(segment)
        stranger.data = b""
        stranger.say(PING)
        self.assertEqual(stranger.hear(len(PONG)), PONG)
        stranger.send(RST | ACK)

    def test_a_window_of_one_byte_gets_byte_after_byte(self):
        stranger = self.stranger(window=1)
        stranger.say(PING)
        got = b""
        deadline = time.monotonic() + 30
        while len(got) < len(PONG) and time.monotonic() < deadline:
            segment = stranger.receive(1)
            if segment is not None and segment.data:
                self.assertEqual(len(segment.data), 1, "more than the window")
                stranger.take(segment)
                stranger.send(ACK)
                got, stranger.data = got + stranger.data, b""
        self.assertEqual(got, PONG)
        stranger.window = 1000
        self.assert_alive(stranger)

    def test_a_closed_window_is_probed_and_opens(self):
        stranger = self.stranger(window=0)
        stranger.say(PING)
        probes = 0
        deadline = time.monotonic() + 10
        while probes < 2 and time.monotonic() < deadline:
            segment = stranger.receive(1)
            if segment is not None and (segment.data or segment.seq != stranger.ack):
                self.assertLessEqual(len(segment.data), 1, "more than a probe")
                probes += 1
                stranger.send(ACK)
        self.assertGreaterEqual(probes, 1, "no probe of the closed window")
        stranger.window = 1000
        stranger.send(ACK)
        self.assertEqual(stranger.hear(len(PONG)), PONG)
        stranger.send(RST | ACK)

    def test_a_window_that_shrinks(self):
        stranger = self.stranger(window=4000)
        request = fabric.resp_request("ECHO", b"e" * 3000)
        for at in range(0, len(request), 1000):
            stranger.say(request[at:at + 1000])
        stranger.send(ACK, window=10)
        stranger.drain(0.3)
        stranger.window = 8000
        stranger.send(ACK)
        reply = b"$3000\r\n" + b"e" * 3000 + b"\r\n"
        self.assertEqual(stranger.hear(len(reply)), reply)
        self.assert_alive(stranger)

    def test_a_reset_that_only_lies_in_the_window_changes_nothing(self):
        """RFC 5961, section 3."""
        stranger = self.stranger()
        for ahead in (1, 100, 10000):
            stranger.send(RST, seq=stranger.seq + ahead)
        for behind in (1, 100, 100000):
            stranger.send(RST, seq=stranger.seq - behind)
        self.assert_alive(stranger)

    def test_a_syn_in_the_window_changes_nothing(self):
        """RFC 5961, section 4."""
        stranger = self.stranger()
        for seq in (stranger.seq - 1, stranger.seq, stranger.seq + 100):
            stranger.send(SYN, seq=seq, ack=0)
            stranger.send(SYN | ACK, seq=seq)
        self.assert_alive(stranger)

    def test_acknowledgements_of_what_was_never_sent(self):
        stranger = self.stranger()
        for ack in (1, 1000, 1 << 20, 1 << 31, -1, -100000):
            stranger.send(ACK, ack=stranger.ack + ack)
        self.assert_alive(stranger)

    def test_old_data_sent_again_with_other_content_is_not_read(self):
        stranger = self.stranger()
        start = stranger.seq
        stranger.say(b"*1\r\n$4\r\nPI")
        stranger.drain()
        stranger.send(ACK | PSH, b"*1\r\n$8\r\nFLUSHALL\r\n"[:10], seq=start)
        stranger.say(b"NG\r\n")
        self.assertEqual(stranger.hear(len(PONG)), PONG)
        self.assert_alive(stranger)

    def test_segments_in_reverse_order(self):
        stranger = self.stranger()
        data = fabric.resp_request("ECHO", bytes(range(256)) * 4)
        for at in range(len(data) // 100 * 100, -1, -100):
            stranger.send(ACK | PSH, data[at:at + 100], seq=stranger.seq + at)
        stranger.seq += len(data)
        reply = b"$1024\r\n" + bytes(range(256)) * 4 + b"\r\n"
        got = stranger.hear(len(reply), timeout_s=3)
        if not got:  # out of order data need not be kept: it is sent again, in order
            stranger.seq -= len(data)
            for at in range(0, len(data), 100):
                stranger.say(data[at:at + 100])
            got = stranger.hear(len(reply))
        self.assertEqual(got, reply)
        self.assert_alive(stranger)

    def test_data_far_beyond_the_window_takes_no_memory(self):
        stranger = self.stranger()
        before = self.gauges()
        for ahead in range(0, 1 << 22, 4096):
            stranger.send(ACK | PSH, b"x" * 1000, seq=stranger.seq + 70000 + ahead)
        stranger.drain()
        for name, value in self.gauges().items():
            self.assertLessEqual(value, before[name] + 64, name)
        self.assert_alive(stranger)

    def test_urgent_data_stalls_nothing(self):
        """A byte of it may be taken out of the stream, as Linux does."""
        for urgent in (1, 3, 6):
            stranger = self.stranger()
            stranger.send(ACK | PSH | URG, PING, urgent=urgent)
            stranger.seq += len(PING)
            for segment in stranger.drain(0.05):
                stranger.take(segment)
            stranger.say(b"\r\n")
            self.assertNotEqual(stranger.hear(len(PONG)), b"")
            self.assert_alive(stranger)

    def test_data_with_an_impossible_acknowledgement_is_not_read(self):
        """RFC 5961, section 5: who guesses where the stream is must guess twice."""
        stranger = self.stranger()
        for ack in (1 << 20, 1 << 30, 1 << 31, -(1 << 20)):
            stranger.send(ACK | PSH, b"*1\r\n$8\r\nNONSENSE\r\n", ack=stranger.ack + ack)
        self.assert_alive(stranger)

    def test_a_segment_that_acknowledges_nothing_is_not_read(self):
        """RFC 9293, 3.10.7.4: without ACK, neither data nor an end."""
        stranger = self.stranger()
        for flags in (0, PSH, FIN, URG):
            stranger.send(flags, b"*1\r\n$8\r\nNONSENSE\r\n")
            stranger.send(flags, b"ahead", seq=stranger.seq + 3)
        self.assert_alive(stranger)

    def test_a_fin_ahead_of_its_data(self):
        stranger = self.stranger()
        stranger.send(FIN | ACK, seq=stranger.seq + len(PING))
        stranger.drain()
        stranger.say(PING)
        self.assertEqual(stranger.hear(len(PONG)), PONG)
        stranger.send(RST | ACK)

    def test_handshakes_that_end_in_the_middle(self):
        before = self.gauges()
        with Stranger(self.mac) as stranger:
            for number in range(500):
                stranger.port, stranger.seq = 50000 + number, 1000
                stranger.send(SYN, ack=0)
                answer = stranger.receive()
                self.assertIsNotNone(answer)
                if number % 3 == 0:
                    stranger.send(RST, seq=stranger.seq + 1)
                elif number % 3 == 1:
                    stranger.send(ACK, seq=stranger.seq + 1, ack=answer.seq + 12345)  # acknowledges what was not sent
        self.serves()
        self.settled(before)

    def test_connections_that_vanish_do_not_stay(self):
        """Established, silent, then reset by their unknown successor of the same port."""
        before = self.gauges()
        stranger = self.stranger()
        again = Stranger(self.mac, port=stranger.port)
        self.addCleanup(again.close)
        again.seq = stranger.seq + 1000000
        again.send(SYN, ack=0)
        answer = again.receive()
        self.assertIsNotNone(answer)
        if answer.flags & (SYN | ACK) == ACK:  # RFC 5961: a challenge, which a rebooted peer answers with a reset
            again.send(RST, seq=answer.ack)
        again.drain()
        again.connect()
        again.say(PING)
        self.assertEqual(again.hear(len(PONG)), PONG)
        again.send(RST | ACK)
        self.settled(before)


def main():
    global seed
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=seed)
    options, rest = parser.parse_known_args()
    seed = options.seed
    netns.skip_unless_possible()
    unittest.main(argv=[sys.argv[0], "-v", *rest])


if __name__ == "__main__":
    main()
