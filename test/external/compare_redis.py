"""compare_redis.py - the same requests to Sluice and to redis-server 7.0: every reply is the same, or the difference is declared.

    compare_redis.py                                  boots both, runs the table and random requests over RESP2 and RESP3
    compare_redis.py --sluice ADDR --redis ADDR       compares running servers; their data is lost (FLUSHALL)
    compare_redis.py --seed N --requests N            other random requests; a seed repeats a run

ADDR is HOST:PORT or the path of a Unix socket."""

import argparse
import pathlib
import random
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

PIPELINE = 50  # requests sent before the replies are read
TIME_SLACK_S = 5  # between the two servers' clocks on a busy machine
SHOWN_MOST = 40  # differences printed
TABLE = pathlib.Path(__file__).with_suffix(".txt")


# ---- the wire ----


class Connection:
    def __init__(self, address):
        if "/" in address:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(address)
        else:
            host, port = address.rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(60)
        self.file = self.socket.makefile("rb")

    def send(self, requests):
        self.socket.sendall(b"".join(encode(words) for words in requests))

    def read(self):
        """One reply as (kind, value): text for lines, bytes for bulks, a list for aggregates, None for "$-1" and "*-1"."""
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"the connection ended within a reply: {line!r}")
        kind, rest = line[:1].decode("latin1"), line[1:-2]
        if kind in "+-:,_#(":
            return kind, rest
        count = int(rest)
        if kind in "$=":
            if count == -1:
                return kind, None
            data = self.file.read(count + 2)
            if len(data) != count + 2 or not data.endswith(b"\r\n"):
                raise ConnectionError(f"a bulk of {count} bytes ends with {data[-4:]!r}")
            return kind, data[:-2]
        if kind in "*~>%":
            if count == -1:
                return kind, None
            return kind, [self.read() for _ in range(count * (2 if kind == "%" else 1))]
        raise ConnectionError(f"not RESP: {line!r}")

    def ask(self, *words):
        self.send([words])
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()


def encode(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


# ---- declared differences: what may differ, and why ----


def is_number_within(sluice, redis, slack):
    return sluice[0] == redis[0] == ":" and int(sluice[1]) >= 0 and abs(int(sluice[1]) - int(redis[1])) <= slack


def same_time_to_live(name, sluice, redis):
    """The two servers read their clocks at different moments."""
    slack = {b"TTL": TIME_SLACK_S, b"PTTL": TIME_SLACK_S * 1000}.get(name)
    return slack is not None and int(redis[1]) >= 0 and is_number_within(sluice, redis, slack)


def same_time(name, sluice, redis):
    """TIME: Sluice answers the time of the burst in whole milliseconds."""
    if name != b"TIME" or sluice[0] != redis[0] or len(sluice[1]) != 2:
        return False
    seconds = [int(reply[1][0][1]) for reply in (sluice, redis)]
    return abs(seconds[0] - seconds[1]) <= TIME_SLACK_S and 0 <= int(sluice[1][1][1]) < 1000000


def same_double(_, sluice, redis):
    """Redis 7.0 prints 17 digits, Sluice as few as read back to the same double."""
    if sluice[0] != redis[0] or sluice[0] not in "$,":
        return False
    try:
        return float(sluice[1]) == float(redis[1]) and len(sluice[1]) <= len(redis[1])
    except (TypeError, ValueError):
        return False


def same_fields(name, sluice, redis):
    """HGETALL has no order: Redis keeps that of insertion only while the hash is small."""
    if name != b"HGETALL" or sluice[0] != redis[0] or not isinstance(sluice[1], list):
        return False
    pairs = [sorted(zip(reply[1][::2], reply[1][1::2])) for reply in (sluice, redis)]
    return pairs[0] == pairs[1]


def same_walk(name, sluice, redis):
    """SCAN, KEYS and their like have no order; of one key drawn at random only its being there counts."""
    if sluice[0] != redis[0] or sluice[1] is None or redis[1] is None:
        return False
    if name == b"RANDOMKEY":
        return sluice[0] == "$"
    if name == b"KEYS" and sluice[0] == "*":
        return sorted(sluice[1]) == sorted(redis[1])
    if name == b"SCAN" and sluice[0] == "*":
        return sluice[1][0] == redis[1][0] and sorted(sluice[1][1][1]) == sorted(redis[1][1][1])
    if name not in (b"HSCAN", b"ZSCAN") or sluice[0] != "*" or sluice[1][0] != redis[1][0]:
        return False
    pairs = [sorted(zip(reply[1][1][1][::2], reply[1][1][1][1::2])) for reply in (sluice, redis)]
    return len(pairs[0]) == len(pairs[1]) and all(
        ours[0] == theirs[0] and (ours[1] == theirs[1] or (name == b"ZSCAN" and float(ours[1][1]) == float(theirs[1][1])))
        for ours, theirs in zip(*pairs))


def same_elements(name, sluice, redis):
    """Aggregates whose elements are the same or differ as declared (scores beside members)."""
    if sluice[0] != redis[0] or not isinstance(sluice[1], list) or not isinstance(redis[1], list):
        return False
    return len(sluice[1]) == len(redis[1]) and all(same(name, *pair) for pair in zip(sluice[1], redis[1]))


DECLARED = (same_time_to_live, same_time, same_double, same_fields, same_walk)


def same(name, sluice, redis):
    if sluice == redis or any(rule(name, sluice, redis) for rule in DECLARED):
        return True
    return name == b"ZRANGE" and same_elements(name, sluice, redis)


# ---- random requests ----


class Requests:
    """Requests over few keys of all types, so that they meet each other's results. One seed, one sequence."""

    KEYS = [b"s1", b"s2", b"n1", b"h1", b"h2", b"z1", b"z2", b"any", b""]
    NUMBERS = [b"0", b"1", b"-1", b"5", b"42", b"-100", b"9223372036854775807", b"-9223372036854775808",
               b"9223372036854775806", b"9223372036854775808", b"1.5", b"abc", b"", b" 1", b"1 ", b"01", b"+1", b"-0"]
    SCORES = [b"0", b"-0", b"1", b"2", b"2", b"3.5", b"-7.25", b"0.1", b"1e10", b"1e-5", b"inf", b"-inf", b"+inf", b"nan",
              b"1e400", b"0x10", b"abc", b"", b"17179869184", b"3.141592653589793", b"5e-324", b"123456789012345678"]
    VALUES = [b"", b"v", b"12", b"-5", b"9223372036854775807", b"with\r\nlines", b"\x00\xff\x00", b"x" * 70, b"y" * 700]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lifetimes_s = set()
        self.makers = [self.set, self.set, self.get, self.counter, self.append, self.del_exists, self.mget, self.expire,
                       self.ttl, self.hset, self.hset, self.hash_read, self.hdel, self.zadd, self.zadd, self.zrem,
                       self.zset_read, self.zrange_rank, self.zrange_score, self.zrange_lex, self.big, self.walk, self.other,
                       self.broken]

    def pick(self, *choices):
        return self.random.choice(choices)

    def key(self):
        return self.random.choice(self.KEYS)

    def field(self):
        return self.pick(b"", b"f%d" % self.random.randrange(12), b"F1", b"long" * 40, b"\r\n\x00")

    def some(self, maker, most=4):
        return [maker() for _ in range(self.random.randint(1, self.pick(1, 2, most)))]

    def number(self):
        return self.pick(self.random.choice(self.NUMBERS), b"%d" % self.random.randint(-1000, 1000))

    def cased(self, *words):
        return [self.pick(word, word.upper(), word.capitalize()) for word in words]

    def lifetime(self):
        """Far away, and never the same twice within 10 s: GT and LT may not depend on the millisecond."""
        while (seconds := self.random.randrange(1000, 10 ** 7) * 10) in self.lifetimes_s:
            pass
        self.lifetimes_s.add(seconds)
        return seconds

    def set(self):
        words = ["SET", self.key(), self.random.choice(self.VALUES)]
        for _ in range(self.pick(0, 0, 1, 1, 2, 3)):
            words += self.pick(self.cased("nx"), self.cased("xx"), self.cased("get"), self.cased("keepttl"),
                               ["EX", self.lifetime()], ["px", self.lifetime() * 1000], ["EXAT", 4102444800],
                               ["PXAT", 4102444800000], ["PX"], ["bogus"],
                               ["EX", self.pick(b"0", b"-1", b"abc", b"", b"1.5", b"9223372036854775807")])
        return words

    def get(self):
        return [self.pick("GET", "STRLEN", "TYPE", "get"), self.key()]

    def counter(self):
        return self.pick(["INCR", self.key()], ["DECR", self.key()], ["INCRBY", self.key(), self.number()],
                         ["DECRBY", self.key(), self.number()], ["SET", b"n1", self.number()])

    def append(self):
        return ["APPEND", self.key(), self.random.choice(self.VALUES[:6])]

    def del_exists(self):
        return [self.pick("DEL", "UNLINK", "EXISTS", "EXISTS"), *self.some(self.key)]

    def mget(self):
        return ["MGET", *self.some(self.key, 9)]

    def expire(self):
        if self.random.random() < 0.3:
            return ["PERSIST", self.key()]
        amount = self.pick(self.lifetime(), self.lifetime(), 0, -1, b"abc", b"9223372036854775807", b"-9223372036854775808",
                           b"9223372036854775", b"-9223372036854775", b"18446744073709561")
        name = self.pick("EXPIRE", "PEXPIRE")
        if name == "PEXPIRE" and isinstance(amount, int):
            amount *= 1000
        words = [name, self.key(), amount]
        for _ in range(self.pick(0, 0, 1, 1, 2)):
            words += self.cased(self.pick("nx", "xx", "gt", "lt", "lt", "bad"))
        return words

    def ttl(self):
        return [self.pick("TTL", "PTTL"), self.key()]

    def hset(self):
        pairs = self.some(lambda: (self.field(), self.random.choice(self.VALUES[:8])), 6)
        return ["HSET", self.key(), *[word for pair in pairs for word in pair]]

    def hash_read(self):
        name = self.pick("HGET", "HEXISTS", "HLEN", "HGETALL")
        return [name, self.key()] + ([self.field()] if name in ("HGET", "HEXISTS") else [])

    def hdel(self):
        return ["HDEL", self.key(), *self.some(self.field)]

    def zadd(self):
        words = ["ZADD", self.key()]
        for _ in range(self.pick(0, 0, 0, 1, 2, 3)):
            words += self.cased(self.pick("nx", "xx", "gt", "lt", "ch", "ch", "incr"))
        scores = self.SCORES if self.random.random() < 0.4 else self.SCORES[:11]
        for _ in range(self.pick(1, 1, 2, 5)):
            words += [self.random.choice(scores), self.field()]
        return words

    def zrem(self):
        return ["ZREM", self.key(), *self.some(self.field)]

    def zset_read(self):
        return self.pick(["ZSCORE", self.key(), self.field()], ["ZCARD", self.key()])

    def tail(self, *more):
        return [word for words in more if self.random.random() < 0.4 for word in words]

    def zrange_rank(self):
        bounds = [self.pick(self.random.randint(-8, 8), self.random.randint(-8, 8), self.number()) for _ in range(2)]
        return ["ZRANGE", self.key(), *bounds, *self.tail(self.cased("rev"), self.cased("withscores"))]

    def zrange_score(self):
        # Bounds that Redis reads by accident are left out: "", " 1" and "(" are 0 to it, "1e400" is infinite.
        usable = [score for score in self.SCORES if score.strip() and score != b"1e400"]
        bounds = [self.pick(b"", b"(") + self.random.choice(usable) for _ in range(2)]
        limit = ["LIMIT", self.random.randint(-1, 4), self.random.randint(-2, 4)]
        return ["ZRANGE", self.key(), *bounds, *self.cased("byscore"),
                *self.tail(self.cased("rev"), self.cased("withscores"), limit)]

    def zrange_lex(self):
        # Only on a set whose scores are all equal: otherwise the reply is unspecified.
        bounds = [self.pick(b"-", b"+", b"[" + self.field(), b"(" + self.field(), b"f1", b"") for _ in range(2)]
        limit = ["LIMIT", self.random.randint(0, 3), self.random.randint(-1, 4)]
        return self.pick(["ZADD", b"lex", b"0", self.field()], ["ZREM", b"lex", self.field()],
                         ["ZRANGE", b"lex", *bounds, *self.cased("bylex"), *self.tail(self.cased("rev"), limit)])

    def big(self):
        """Objects of some hundred entries, beyond Redis' compact encodings; changed by dozens."""
        names = [b"member:%d" % self.random.randrange(400) for _ in range(self.pick(1, 3, 40))]
        if self.random.random() < 0.1:
            return self.pick(["HGETALL", b"hbig"], ["ZRANGE", b"zbig", 0, -1, "WITHSCORES"],
                             ["ZRANGE", b"zbig", self.random.randint(-400, 400), self.random.randint(-400, 400), "REV"],
                             ["ZRANGE", b"zbig", "(3", "7", "BYSCORE", "LIMIT", 5, 20])
        pairs = [word for name in names for word in (self.random.randrange(10), name)]
        return self.pick(["HSET", b"hbig", *pairs[1:], b"v"], ["HDEL", b"hbig", *names], ["ZREM", b"zbig", *names],
                         ["ZADD", b"zbig", *self.tail(["CH"], ["GT"]), *pairs],
                         ["HSET", b"hbig", *[word for name in names for word in (name, b"value")]])

    def walk(self):
        """In one call: where a walk stands in the middle is each server's own."""
        pattern = self.pick(b"*", b"s?", b"[sh]1", b"*1", b"", b"a[^b]y", b"\\s1", b"f*", b"[^f]*", b"F?", b"*[0-9]", b"nope")
        words = self.pick(["SCAN", 0], ["SCAN", 0], ["HSCAN", self.key(), 0], ["ZSCAN", self.key(), 0], ["RANDOMKEY"],
                          ["SCAN", self.pick(b"x", b"1x", b" 1", b"18446744073709551616", b"-")])
        if words[0] == "RANDOMKEY":
            return words if self.random.random() < 0.5 else ["KEYS", pattern]
        words += self.tail(self.pick(["COUNT", self.number()], ["MATCH"], ["bogus", 1])) * (self.random.random() < 0.2)
        words += [*self.tail(self.cased("match") + [pattern]), *self.cased("count"), 1000]
        if words[0] == "SCAN":
            words += self.tail(["TYPE", self.pick(b"string", b"hash", b"ZSET", b"list", b"nosuch")])
        return words

    def other(self):
        if self.random.random() < 0.02:
            return [self.pick("FLUSHALL", "FLUSHDB"), *self.tail(["ASYNC"]), *self.tail(["sync"])]
        return self.pick(["PING"], ["PING", self.random.choice(self.VALUES)], ["ECHO", self.random.choice(self.VALUES)],
                         ["DBSIZE"], ["TIME"], ["SELECT", self.pick(b"0", b"99", b"x")], ["COMMAND", "GETKEYS", "MGET", "a", "b"])

    def broken(self):
        """A request with a word too few or too many."""
        words = list(self.random.choice(self.makers[:-1])())
        if words[0] in ("COMMAND", "SCAN", "HSCAN", "ZSCAN"):
            words[0] = "PING"
        if len(words) > 2 and self.random.random() < 0.5:
            return words[:self.random.randint(1, len(words) - 1)]
        return words + [self.number()]

    def next(self):
        return self.random.choice(self.makers)()


# ---- comparing ----


class Comparison:
    def __init__(self, sluice, redis):
        self.addresses = {"sluice": sluice, "redis": redis}
        self.compared = 0
        self.differences = 0

    def connect(self, resp):
        pair = [Connection(address) for address in self.addresses.values()]
        for connection in pair:
            kind, _ = connection.ask("HELLO", resp)
            if kind not in "%*":
                raise ConnectionError(f"HELLO {resp} is refused")
            connection.ask("FLUSHALL")
        return pair

    def differ(self, where, words, replies):
        self.differences += 1
        if self.differences <= SHOWN_MOST:
            print(f"{where}: {' '.join(shown(word) for word in words)}")
            for name, reply in zip(self.addresses, replies):
                print(f"    {name:6} {str(reply)[:600]}")

    def run(self, where, pair, requests):
        """Pipelined to both; every reply compared."""
        for at in range(0, len(requests), PIPELINE):
            batch = requests[at:at + PIPELINE]
            for connection in pair:
                connection.send(batch)
            for i, words in enumerate(batch):
                replies = [connection.read() for connection in pair]
                name = words[0].upper().encode() if isinstance(words[0], str) else words[0].upper()
                self.compared += 1
                if not same(name, *replies):
                    self.differ(f"{where}, request {at + i}", words, replies)

    def table(self, resp):
        for name, requests in table_read():
            pair = self.connect(resp)
            self.run(f"RESP{resp}, {name}", pair, requests)
            for connection in pair:
                connection.close()

    def random(self, resp, seed, count):
        pair = self.connect(resp)
        source = Requests(seed)
        self.run(f"RESP{resp}, seed {seed}", pair, [source.next() for _ in range(count)])
        for connection in pair:
            connection.close()

    def commands(self):
        """Arity and key positions of every command that both have are the same; Sluice has none of its own but FABRIC."""
        pair = self.connect(2)
        names = [entry[1] for entry in pair[0].ask("COMMAND", "LIST")[1]]
        for name in names:
            infos = [connection.ask("COMMAND", "INFO", name)[1][0][1] for connection in pair]
            self.compared += 1
            if infos[1] is None:
                if name != b"fabric":
                    self.differ("COMMAND INFO", [name], infos)
                continue
            # name, arity, first key, last key, step
            facts = [[info[i] for i in (0, 1, 3, 4, 5)] for info in infos]
            if facts[0] != facts[1]:
                self.differ("COMMAND INFO", [name], facts)
        for connection in pair:
            connection.close()


def shown(word):
    text = word.decode("latin1") if isinstance(word, bytes) else str(word)
    return text if text.isalnum() else repr(text)


def table_read():
    """The lists of the table: (name, requests)."""
    lists = []
    for line in TABLE.read_text().splitlines():
        if line.startswith("== "):
            lists.append((line[3:], []))
        elif line and not line.startswith("#"):
            words = [word.encode("latin1").decode("unicode_escape").encode("latin1") for word in shlex.split(line)]
            lists[-1][1].append(words)
    return lists


# ---- the two servers ----


class Redis:
    """A redis-server of its own on a Unix socket in a folder of its own."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="sluice-redis-")
        self.address = f"{self.folder}/redis.sock"
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", self.address, "--save", "", "--dir", self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not pathlib.Path(self.address).exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise SystemExit("redis-server did not start")
            time.sleep(0.02)

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def compare(sluice, redis, seed, count):
    comparison = Comparison(sluice, redis)
    comparison.commands()
    for resp in (2, 3):
        comparison.table(resp)
        comparison.random(resp, seed + resp, count)
    print(f"{comparison.compared} replies compared, {comparison.differences} differ")
    return 1 if comparison.differences else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice")
    parser.add_argument("--redis")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=20000)
    arguments = parser.parse_args()
    if arguments.sluice and arguments.redis:
        return compare(arguments.sluice, arguments.redis, arguments.seed, arguments.requests)
    if arguments.sluice or arguments.redis:
        parser.error("give both addresses or none")

    import server

    peer = subprocess.run([server.ROOT / "tools" / "peers", "redis"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if peer.returncode != 0:
        server.skip((peer.stderr.strip().splitlines() or ["tools/peers redis failed"])[-1])
    with Redis(peer.stdout.strip()) as redis, server.Server() as booted:
        return compare(booted.unix, redis.address, arguments.seed, arguments.requests)


if __name__ == "__main__":
    sys.exit(main())
