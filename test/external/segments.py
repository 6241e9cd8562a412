"""segments.py - a TCP client made by hand on a raw socket, for what no kernel sends: windows of one byte, stale and contradicting
segments, guesses at sequence numbers. Its address is nobody else's, so that no kernel answers in its place."""

import select
import socket
import struct
import time
from typing import NamedTuple

import netns

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
ADDRESS = "10.86.0.99"
MAC = b"\x02\0\0\0\0\x63"
ETH_P_ALL = 3
OUTGOING = 4  # PACKET_OUTGOING


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Segment(NamedTuple):
    flags: int
    seq: int
    ack: int
    window: int
    data: bytes


class Stranger:
    """One connection from ADDRESS. It answers ARP while it waits for segments, and acknowledges nothing by itself."""

    def __init__(self, mac, port=40000, window=65535, interface="wire1"):
        self.mac = bytes.fromhex(mac.replace(":", ""))
        self.port, self.window = port, window
        self.seq, self.ack = 1000, 0  # of the next byte we send; of the next we expect
        self.data = b""  # received in order
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.bind((interface, ETH_P_ALL))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- frames ----

    def send(self, flags, data=b"", seq=None, ack=None, window=None, urgent=0):
        tcp = struct.pack("!HHIIBBHHH", self.port, netns.PORT, (self.seq if seq is None else seq) & 0xffffffff,
                          (self.ack if ack is None else ack) & 0xffffffff, 5 << 4, flags,
                          self.window if window is None else window, 0, urgent) + data
        ends = socket.inet_aton(ADDRESS) + socket.inet_aton(netns.THERE)
        tcp = tcp[:16] + struct.pack("!H", checksum(ends + struct.pack("!HH", socket.IPPROTO_TCP, len(tcp)) + tcp)) + tcp[18:]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0) + ends
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        self.socket.send(self.mac + MAC + b"\x08\x00" + ip + tcp)

    def arp_answer(self, frame):
        operation, sender_mac, sender, _, target = struct.unpack("!H6s4s6s4s", frame[20:42])
        if operation == 1 and target == socket.inet_aton(ADDRESS):
            self.socket.send(sender_mac + MAC + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + MAC + target + sender_mac + sender)

    def receive(self, timeout_s=5.0):
        """The next segment to us, or None."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if not select.select((self.socket,), (), (), left_s)[0]:
                break
            frame, (_, _, kind, *_) = self.socket.recvfrom(65536)
            if kind == OUTGOING:
                continue
            if frame[12:14] == b"\x08\x06":
                self.arp_answer(frame)
            if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP or frame[30:34] != socket.inet_aton(ADDRESS):
                continue
            ip_bytes = (frame[14] & 15) * 4
            tcp = frame[14 + ip_bytes:14 + struct.unpack("!H", frame[16:18])[0]]
            source, port, seq, ack, offset, flags, window = struct.unpack("!HHIIBBH", tcp[:16])
            if (source, port) == (netns.PORT, self.port):
                return Segment(flags, seq, ack, window, tcp[(offset >> 4) * 4:])
        return None

    # ---- a connection ----

    def connect(self):
        self.send(SYN, ack=0)
        self.seq += 1
        answer = self.receive()
        assert answer is not None and answer.flags & (SYN | ACK) == SYN | ACK, answer
        self.ack = (answer.seq + 1) & 0xffffffff
        self.send(ACK)

    def say(self, data):
        self.send(ACK | PSH, data)
        self.seq = (self.seq + len(data)) & 0xffffffff

    def take(self, segment):
        """Data that comes next is kept; what was acknowledged before is not. The caller acknowledges."""
        behind = (self.ack - segment.seq) & 0xffffffff
        if behind < 1 << 31 and behind < len(segment.data):
            self.data += segment.data[behind:]
            self.ack = (self.ack + len(segment.data) - behind) & 0xffffffff

    def hear(self, count, timeout_s=20.0, window=None):
        """So many bytes of the stream, each segment acknowledged."""
        deadline = time.monotonic() + timeout_s
        while len(self.data) < count and time.monotonic() < deadline:
            segment = self.receive(0.2)
            if segment is not None and segment.data:
                self.take(segment)
                self.send(ACK, window=window)
        heard, self.data = self.data[:count], self.data[count:]
        return heard

    def drain(self, seconds=0.1):
        """What else arrives."""
        segments = []
        deadline = time.monotonic() + seconds
        while (segment := self.receive(max(0, deadline - time.monotonic()))) is not None:
            segments.append(segment)
        return segments
