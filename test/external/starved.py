"""starved.py - when memory is full, half requests find no buffer: their clients are told or closed, nobody else is, and what the port
lent them comes back."""

import time
import unittest

import fabric
import server

CLIENTS = 80  # a socket port has 64 receive slots
ROUNDS = 5


class Starved(unittest.TestCase):
    def setUp(self):
        self.server = server.Server("memory.reserve=64MiB", "memory.limit=32MiB", "memory.ahead=4MiB", "store.keys_expected=10000")
        self.addCleanup(self.server.stop)

    def fill(self, client):
        """Until nothing more fits, small values too."""
        for size in (8000, 800, 80):
            for i in range(100000):
                if isinstance(fabric.resp_call(client, "SET", f"fill:{size}:{i}", bytes(size)), fabric.ErrorReply):
                    break

    def test_half_requests_that_find_no_memory_leave_the_receive_slots(self):
        with self.server.connect("unix", timeout_s=60) as keeper:
            self.fill(keeper)
            for _ in range(ROUNDS):
                clients = [self.server.connect(over) for over in ("tcp", "unix") for _ in range(CLIENTS // 2)]
                piece = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n" + bytes(3000)
                for _ in range(6):
                    for client in clients:
                        try:
                            client.sendall(piece)
                        except (BrokenPipeError, ConnectionResetError):
                            pass
                    piece = bytes(3000)
                    time.sleep(0.01)
                self.assertEqual(fabric.resp_call(keeper, "PING"), b"PONG")
                for client in clients:
                    client.close()
            self.assertEqual(fabric.resp_call(keeper, "FLUSHALL"), b"OK")
            clients = [self.server.connect(over) for over in ("tcp", "unix") for _ in range(CLIENTS // 2)]
            for client in clients:
                client.sendall(fabric.resp_request("ECHO", bytes(10000)))
            for client in clients:
                self.assertEqual(fabric.Reader(client).reply(), bytes(10000))
                client.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
