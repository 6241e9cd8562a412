"""metrics.py - the metrics page and its HTTP port: right numbers, names that scrapers know, limits, hostile clients."""

import collections
import contextlib
import http.client
import json
import pathlib
import re
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "external"))
from server import BUILD, ROOT, Server  # noqa: E402

CONNECTIONS = int(re.search(r"LIMIT_HTTP_CONNECTIONS, (\d+)", (ROOT / "config" / "limits.h").read_text()).group(1))
OPEN = "application/openmetrics-text; version=1.0.0"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def samples(page):
    """{name: {labels: value}}; a line that is no sample, comment or end fails."""
    found = collections.defaultdict(dict)
    for line in page.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP \w+ .+|TYPE \w+ (counter|gauge|histogram)|EOF)", line), line
            continue
        match = re.fullmatch(r"(\w+)(?:\{([^}]*)\})? (-?[0-9.e+-]+)", line)
        assert match, line
        name, labels, value = match.groups()
        assert labels not in found[name], f"{line}: twice"
        found[name][labels] = float(value)
    return found


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.port = free_port()
        cls.server = Server(f"metrics.port={cls.port}")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def get(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, response.getheader("Content-Type"), response.read().decode()

    def ask(self, *words):
        with self.server.connect() as client:
            client.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
            return client.recv(4096)

    def test_numbers_are_those_of_the_requests(self):
        before = samples(self.get("/metrics")[2])
        for i in range(7):
            self.assertEqual(self.ask("SET", f"key{i}", "x"), b"+OK\r\n")
        for i in range(9):
            self.ask("GET", f"key{i}")
        self.ask("INCR", "key0")
        after = samples(self.get("/metrics")[2])

        def moved(name, labels=None):
            return after[name][labels] - before[name].get(labels, 0)

        self.assertEqual(moved("redis_commands_total", 'cmd="set"'), 7)
        self.assertEqual(moved("redis_commands_total", 'cmd="get"'), 9)
        self.assertEqual(moved("redis_commands_failed_calls_total", 'cmd="incr"'), 1)
        self.assertEqual(moved("redis_commands_processed_total"), 17)
        self.assertEqual(moved("redis_connections_received_total"), 17)
        self.assertGreaterEqual(moved("redis_keyspace_hits_total"), 7)
        self.assertGreaterEqual(moved("redis_keyspace_misses_total"), 2)
        self.assertEqual(moved("redis_db_keys", 'db="db0"'), 7)
        self.assertEqual(after["redis_memory_max_bytes"][None], 1 << 30)
        self.assertEqual((after["redis_up"][None], after["sluice_ready"][None]), (1, 1))

    def test_histograms_are_cumulative_and_end_in_their_count(self):
        self.ask("SET", "key", "x")
        found = samples(self.get("/metrics")[2])
        for name in ("sluice_command_service_seconds", "sluice_command_residence_seconds"):
            by_command = collections.defaultdict(list)
            for labels, value in found[name + "_bucket"].items():
                command, bound = re.fullmatch(r'cmd="(\w+)",le="(.+)"', labels).groups()
                by_command[command].append((float(bound), value))
            self.assertIn("set", by_command)
            for command, buckets in by_command.items():
                self.assertEqual(buckets, sorted(buckets))
                self.assertEqual([count for _, count in buckets], sorted(count for _, count in buckets))
                count, total = (found[f"{name}_{what}"][f'cmd="{command}"'] for what in ("count", "sum"))
                self.assertEqual(buckets[-1], (float("inf"), count))
                self.assertGreater(total, 0)
                smallest = next(bound for bound, below in buckets if below > 0)
                self.assertLess(smallest / 4, total / count)

    def test_promtool_finds_nothing_to_say(self):
        peer = subprocess.run([ROOT / "tools" / "peers", "promtool"], capture_output=True, text=True)
        if peer.returncode == 77:
            self.skipTest(peer.stderr.strip())
        page = self.get("/metrics")[2]
        checked = subprocess.run([peer.stdout.strip(), "check", "metrics"], input=page, capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        wrong = page.replace("# TYPE redis_up gauge", "# TYPE redis_up counter")
        checked = subprocess.run([peer.stdout.strip(), "check", "metrics"], input=wrong, capture_output=True, text=True)
        self.assertNotEqual(checked.returncode, 0)

    def test_the_form_is_what_the_scraper_asks_for(self):
        status, kind, page = self.get("/metrics")
        self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertIn("# TYPE redis_commands_total counter\n", page)
        self.assertNotIn("# EOF", page)
        status, kind, page = self.get("/metrics", Accept=OPEN)
        self.assertEqual((status, kind), (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        self.assertIn("# TYPE redis_commands counter\n", page)
        self.assertTrue(page.endswith("\n# EOF\n"))
        self.assertEqual(samples(page).keys(), samples(self.server.sluicectl("metrics")).keys())

    def test_the_dashboard_shows_what_is_here(self):
        self.ask("SET", "key", "x")
        page = set(samples(self.get("/metrics")[2]))
        dashboard = json.loads((ROOT / "config" / "grafana.json").read_text())
        shown = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
        names = set(re.findall(r"\b(?:redis|sluice)_\w+", shown))
        self.assertGreater(len(names), 15)
        self.assertEqual(names - page, set())
        places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
        self.assertEqual(len(places), len(set(places)))

    def test_probes_and_wrong_requests(self):
        self.assertEqual(self.get("/healthz")[::2], (200, "alive\n"))
        self.assertEqual(self.get("/readyz")[::2], (200, "ready\n"))
        self.assertEqual(self.get("/metrics", method="HEAD")[::2], (200, ""))
        self.assertEqual(self.get("/metric")[0], 404)
        self.assertEqual(self.get("/metrics/../healthz")[0], 404)
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.get("/metrics", method=method)[0], 405)
        self.assertIn(f"http://127.0.0.1:{self.port}/metrics", self.server.sluicectl("status"))

    def test_garbage_and_endless_headers_end_their_connection_only(self):
        for rubbish in (b"\0" * 100, b"GET " + b"x" * 100000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10000, b"\r\n" * 1000,
                        b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 100000):
            with socket.create_connection(("127.0.0.1", self.port), timeout=20) as client:
                with contextlib.suppress(OSError):
                    client.sendall(rubbish)
                self.assertEqual(self.get("/healthz")[0], 200)
        self.assertEqual(self.ask("PING"), b"+PONG\r\n")

    def test_connections_up_to_the_limit_are_answered_and_more_wait_their_turn(self):
        def opened(count):
            return [socket.create_connection(("127.0.0.1", self.port), timeout=20) for _ in range(count)]

        for held in (CONNECTIONS - 2, CONNECTIONS - 1, CONNECTIONS):
            idle = opened(held)
            time.sleep(0.3)
            begun = time.monotonic()
            self.assertEqual(self.get("/healthz")[0], 200)
            waited = time.monotonic() - begun
            # Silent ones end after 5 s; until then the place of one more is taken.
            self.assertEqual(waited > 1, held >= CONNECTIONS, (held, waited))
            self.assertEqual(self.ask("PING"), b"+PONG\r\n")
            for client in idle:
                client.close()
            time.sleep(0.3)


class Port(unittest.TestCase):
    def test_it_is_off_unless_asked_for(self):
        with Server() as server:
            self.assertNotIn("http://", server.sluicectl("status"))
            self.assertIn("redis_up 1\n", server.sluicectl("metrics"))

    def test_a_taken_port_or_bad_address_is_refused_by_name(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for setting, said in ((f"metrics.port={taken.getsockname()[1]}", "metrics.port"),
                                  ("metrics.address=localhost", "metrics.address")):
                ended = subprocess.run([BUILD / "sluiced", "--set", "metrics.port=1", "--set", setting, "--set",
                                        "streams.port=0", "--set", "memory.reserve=64MiB"], capture_output=True,
                                       text=True, timeout=60)
                self.assertEqual(ended.returncode, 1)
                self.assertIn(said, ended.stderr)


if __name__ == "__main__":
    unittest.main()
