"""python_redis.py - python3-redis does a round of every command, over TCP and Unix. A command that the server lists and
no test here sends fails the round."""

import threading
import time
import unittest

import redis
import server


class Recorder(redis.Redis):
    """Notes each command's name as it is sent."""
    sent = set()

    def execute_command(self, *words, **options):
        self.sent.add(words[0].split()[0].lower())
        return super().execute_command(*words, **options)


class PythonRedis(unittest.TestCase):
    over = "tcp"

    @classmethod
    def setUpClass(cls):
        cls.server = cls.server_open()
        cls.addClassCleanup(cls.server.stop)

    @classmethod
    def server_open(cls):
        return server.Server()

    def setUp(self):
        where = {"host": self.server.host, "port": self.server.port} if self.over == "tcp" else {"unix_socket_path": self.server.unix}
        self.client = Recorder(**where, decode_responses=True)
        self.addCleanup(self.client.close)
        self.client.flushall()

    def test_connection_commands(self):
        client = self.client
        self.assertTrue(client.ping())
        self.assertEqual(client.echo("hello"), "hello")
        self.assertTrue(client.select(0))
        with self.assertRaisesRegex(redis.ResponseError, "DB index"):
            client.select(1)
        hello = client.execute_command("HELLO", 2)
        self.assertIn("redis", hello)
        self.assertTrue(client.execute_command("AUTH", "default", "any"))
        with self.assertRaisesRegex(redis.ResponseError, "without any password configured"):
            client.execute_command("AUTH", "any")
        seconds, microseconds = client.time()
        self.assertLess(abs(seconds - time.time()), 2)
        self.assertLess(microseconds, 1000000)
        self.assertTrue(client.execute_command("QUIT"))

    def test_client_commands(self):
        with Recorder(host=self.server.host, port=self.server.port, decode_responses=True, single_connection_client=True) as client:
            self.assertTrue(client.client_setname("worker"))
            self.assertEqual(client.client_getname(), "worker")
            number = client.client_id()
            self.assertIn((str(number), "worker"), [(row["id"], row["name"]) for row in client.client_list()])
            info = client.execute_command("CLIENT INFO")
            self.assertIn("worker", str(info))
            self.assertTrue(client.execute_command("CLIENT", "SETINFO", "LIB-NAME", "python"))
            other = redis.Redis(host=self.server.host, port=self.server.port, single_connection_client=True)
            victim = other.client_id()
            self.assertEqual(client.client_kill_filter(_id=victim), 1)
            with self.assertRaises(redis.ConnectionError):
                other.connection.send_command("PING")
                other.connection.read_response()
            other.close()

    def test_server_commands(self):
        client = self.client
        info = client.info()
        self.assertEqual(info["redis_version"], "7.0.15")
        self.assertTrue("sluice_version" in info, "INFO without sluice_version")
        self.assertEqual(client.config_get("streams.unix"), {"streams.unix": self.server.unix})
        commands = client.command()
        self.assertEqual(client.command_count(), len(commands))
        self.assertEqual(sorted(client.execute_command("COMMAND LIST")), sorted(commands))
        self.assertEqual(client.execute_command("COMMAND INFO", "nosuch"), [None])
        self.assertIn("get", client.execute_command("COMMAND DOCS", "get"))
        client.set("a", 1)
        self.assertEqual(client.dbsize(), 1)
        self.assertTrue(client.flushdb())
        self.assertEqual(client.dbsize(), 0)
        client.set("a", 1)
        self.assertTrue(client.flushall())
        self.assertIsInstance(client.execute_command("FABRIC", "PORTS"), list)

    def test_string_commands(self):
        client = self.client
        self.assertTrue(client.set("s", "v"))
        self.assertEqual(client.get("s"), "v")
        self.assertIsNone(client.set("s", "w", nx=True))
        self.assertIsNone(client.set("none", "w", xx=True))
        self.assertEqual(client.set("s", "w", get=True), "v")
        self.assertTrue(client.set("s", "x", ex=100))
        self.assertTrue(client.set("s", "y", keepttl=True))
        self.assertIn(client.ttl("s"), (99, 100))
        self.assertTrue(client.set("s", "z", px=100000))
        self.assertTrue(client.set("s", "z", exat=int(time.time()) + 100))
        self.assertTrue(client.set("s", "z", pxat=int(time.time() * 1000) + 100000))
        self.assertEqual(client.append("s", "zz"), 3)
        self.assertEqual(client.strlen("s"), 3)
        self.assertEqual(client.mget("s", "none"), ["zzz", None])
        self.assertEqual([client.incr("n"), client.incrby("n", 10), client.decr("n"), client.decrby("n", 20)], [1, 11, 10, -10])
        self.assertEqual(client.execute_command("INCR", "n"), -9)
        self.assertEqual(client.execute_command("DECR", "n"), -10)

    def test_generic_commands(self):
        client = self.client
        client.set("a", 1)
        client.set("b", 2)
        self.assertEqual(client.exists("a", "b", "c"), 2)
        self.assertEqual(client.type("a"), "string")
        self.assertTrue(client.expire("a", 100))
        self.assertIn(client.ttl("a"), (99, 100))
        self.assertTrue(client.pexpire("a", 50000))
        self.assertLessEqual(client.pttl("a"), 50000)
        self.assertTrue(client.persist("a"))
        self.assertEqual(client.ttl("a"), -1)
        self.assertEqual(client.delete("a", "none"), 1)
        self.assertEqual(client.unlink("b", "none"), 1)

    def test_hash_commands(self):
        client = self.client
        self.assertEqual(client.hset("h", mapping={"a": 1, "b": 2}), 2)
        self.assertEqual(client.hget("h", "a"), "1")
        self.assertEqual(client.hlen("h"), 2)
        self.assertEqual(client.hgetall("h"), {"a": "1", "b": "2"})
        self.assertTrue(client.hexists("h", "b"))
        self.assertEqual(client.hdel("h", "a", "none"), 1)
        with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE"):
            client.get("h")

    def test_sorted_set_commands(self):
        client = self.client
        self.assertEqual(client.zadd("z", {"a": 1, "b": 2.5}), 2)
        self.assertEqual(client.zadd("z", {"a": 3}, ch=True), 1)
        self.assertEqual(client.zadd("z", {"a": 1}, incr=True), 4)
        self.assertEqual(client.zscore("z", "b"), 2.5)
        self.assertEqual(client.zcard("z"), 2)
        self.assertEqual(client.zrange("z", 0, -1, withscores=True), [("b", 2.5), ("a", 4.0)])
        self.assertEqual(client.execute_command("ZRANGE", "z", 0, 0, "REV"), ["a"])
        self.assertEqual(client.zrem("z", "a", "none"), 1)

    def test_walks_over_keys(self):
        client = self.client
        self.assertEqual(list(client.scan_iter()), [])
        self.assertIsNone(client.randomkey())
        keys = {f"user:{number}" for number in range(3000)}
        pipeline = client.pipeline(transaction=False)
        for key in keys:
            pipeline.set(key, "v")
        pipeline.hset("h", mapping={"a": 1, "b": 2}).zadd("z", {"a": 1, "b": 2.5}).execute()
        self.assertEqual(sorted(client.scan_iter()), sorted(keys | {"h", "z"}))
        self.assertEqual(set(client.scan_iter(count=1000, match="user:1*")), {key for key in keys if key.startswith("user:1")})
        self.assertEqual(set(client.scan_iter(_type="hash")), {"h"})
        self.assertIn(client.randomkey(), keys | {"h", "z"})
        self.assertEqual(sorted(client.keys()), sorted(keys | {"h", "z"}))
        self.assertEqual(set(client.keys("user:?")), {f"user:{number}" for number in range(10)})
        self.assertEqual(dict(client.hscan_iter("h")), {"a": "1", "b": "2"})
        self.assertEqual(dict(client.zscan_iter("z", match="b")), {"b": 2.5})

    def test_publish_and_subscribe(self):
        client = self.client
        reader = client.pubsub()
        self.addCleanup(reader.close)
        reader.subscribe("news")
        self.assertEqual(reader.get_message(timeout=5)["type"], "subscribe")
        self.assertEqual(client.publish("news", "hi"), 1)
        self.assertEqual(reader.get_message(timeout=5)["data"], "hi")
        reader.unsubscribe("news")
        self.assertEqual(reader.get_message(timeout=5)["type"], "unsubscribe")
        self.assertEqual(client.publish("news", "hi"), 0)
        Recorder.sent.update(("subscribe", "unsubscribe"))  # sent by the reader's own connection

    def test_a_pipeline(self):
        pipeline = self.client.pipeline(transaction=False)
        for number in range(1000):
            pipeline.set(f"k{number}", number)
            pipeline.get(f"k{number}")
        self.assertEqual(pipeline.execute(), [value for number in range(1000) for value in (True, str(number))])

    def test_threads_with_a_pool(self):
        def work():
            for _ in range(500):
                self.client.incr("shared")
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.client.get("shared"), "4000")

    def test_zz_every_command_was_sent(self):
        missing = {name.lower() for name in self.client.execute_command("COMMAND LIST")} - Recorder.sent
        self.assertEqual(missing, set())


class PythonRedisOverUnix(PythonRedis):
    over = "unix"


if __name__ == "__main__":
    unittest.main(verbosity=2)
