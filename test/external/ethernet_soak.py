"""ethernet_soak.py - connections come and go at an ethernet port for as long as one says, beside a steady load, and nothing grows: PCBs,
mbufs and resident memory of the last rounds are those of the first.

    ethernet_soak.py [--seconds N]"""

import argparse
import random
import socket
import statistics
import struct
import sys
import threading
import time

import fabric
import netns
import server

MIB = 1 << 20
ROUND = 250           # connections of a round, half of them open at once
ROUND_S = 1.5         # no faster: the client's own ports stay taken for a minute
SLACK = {"resident": 8 * MIB, "used": MIB}  # pages come by 2 MiB and stay; what is used of them goes up and down


def connection_end(connection, how):
    """Every way in which clients leave."""
    if how == 0:
        connection.close()
    elif how == 1:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    elif how == 2:  # half closed first
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
        connection.close()
    elif how == 3:  # with answers unread
        connection.sendall(fabric.resp_request("GET", "big") * 4)
        connection.close()
    elif how == 4:  # in the middle of a request
        connection.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n" + bytes(20000))
        connection.close()
    else:  # the server leaves first
        assert fabric.resp_call(connection, "QUIT") == b"OK"
        assert connection.recv(1) == b""
        connection.close()


def churn(served, generator):
    connections = []
    for number in range(ROUND):
        connection = served.connect(timeout_s=60)
        value = generator.randbytes(generator.choice((0, 10, 1000, 20000)))
        assert fabric.resp_call(connection, "ECHO", value) == value
        connections.append(connection)
        if len(connections) > ROUND // 2:
            connection_end(connections.pop(generator.randrange(len(connections))), generator.randrange(6))
    for connection in connections:
        connection_end(connection, generator.randrange(6))


class Steady(threading.Thread):
    """A client that stays, with 32 requests in flight, every answer checked."""

    def __init__(self, served):
        super().__init__()
        self.connection, self.ending, self.error, self.answers = served.connect(timeout_s=60), False, None, 0
        self.start()

    def run(self):
        try:
            reader, count = fabric.Reader(self.connection), 0
            while not self.ending:
                self.connection.sendall(fabric.resp_request("INCR", "steady") * 32)
                for _ in range(32):
                    count += 1
                    answer = reader.reply()
                    assert answer == count, (answer, count)
                self.answers = count
                time.sleep(0.005)
        except (OSError, AssertionError) as error:
            self.error = error

    def end(self):
        self.ending = True
        self.join()
        self.connection.close()
        if self.error is not None:
            raise AssertionError(f"the steady client: {self.error!r}")


def sample(served, steady_sessions):
    """What is held once the round's connections are gone, but for the server's own TIME-WAIT."""
    deadline = time.monotonic() + 30
    while True:
        counters = served.counters()
        left = counters["sessions_opened"] - counters["sessions_closed"]
        if left <= steady_sessions:
            memory = served.ctl("memory")
            used = memory["used_bytes"] + memory["limbo_bytes"]
            return {"resident": served.resident_bytes(), "used": used} | served.held()
        if time.monotonic() > deadline:
            raise AssertionError(f"{left} sessions are open, expected {steady_sessions}")
        time.sleep(0.02)


def flat(samples):
    """Complaints: the last third beside the first, medians, after a warm-up of a tenth. A connection that the server closed first
    counts among the PCBs until its TIME-WAIT of two minutes is over, so theirs are compared once there is a balance."""
    settled = samples[len(samples) // 10:]
    third = max(1, len(settled) // 3)
    for name in samples[0]:
        begin = statistics.median(row[name] for row in settled[:third])
        end = statistics.median(row[name] for row in settled[-third:])
        slack = SLACK.get(name, ROUND)
        print(f"{name:<22}{begin:>14.0f} first, {end:>14.0f} last, {max(row[name] for row in samples):>14.0f} most")
        if end > begin + slack:
            yield f"{name} grew from {begin:.0f} to {end:.0f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    netns.skip_unless_possible()
    generator, samples, rounds = random.Random(options.seed), [], 0
    with netns.Wire() as wire, netns.EthernetServer(wire) as served:
        wire.client.run("sysctl", "-q", "net.ipv4.ip_local_port_range=1024 65535")
        with served.connect() as client:
            assert fabric.resp_call(client, "SET", "big", bytes(200000)) == b"OK"
        steady = Steady(served)
        try:
            end = time.monotonic() + options.seconds
            while (begun := time.monotonic()) < end:
                churn(served, generator)
                samples.append(sample(served, 1))
                rounds += 1
                time.sleep(max(0, begun + ROUND_S - time.monotonic()))
        finally:
            steady.end()
        print(f"{rounds} rounds, {rounds * ROUND} connections, {steady.answers} answers of the steady client, seed {options.seed}")
        complaints = list(flat(samples))
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
