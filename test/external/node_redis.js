// node_redis.js - npm `redis` does a round of every command. Started by node_redis.py.
//
//   node node_redis.js RESP PORT      with node_modules found through NODE_PATH
"use strict";
const assert = require("node:assert/strict");
const { createClient } = require("redis");

const resp = Number(process.argv[2]);
const port = Number(process.argv[3]);
const sent = new Set();

// Sends words as they are, and notes the command's name.
function raw(client, ...words) {
    sent.add(words[0].toLowerCase());
    return client.sendCommand(words.map(String));
}

async function connect() {
    const client = createClient({ RESP: resp, socket: { host: "127.0.0.1", port, reconnectStrategy: false } });
    client.on("error", () => {});
    await client.connect();
    return client;
}

async function connection(client) {
    assert.equal(await raw(client, "PING"), "PONG");
    assert.equal(await raw(client, "ECHO", "hello"), "hello");
    assert.equal(await raw(client, "SELECT", 0), "OK");
    assert.equal(await raw(client, "AUTH", "default", "any"), "OK");
    await assert.rejects(raw(client, "SELECT", 1), /DB index/);
    const hello = await raw(client, "HELLO", resp);
    assert.equal(Array.isArray(hello) ? hello[hello.indexOf("proto") + 1] : hello.proto, resp);
    assert.equal((await raw(client, "TIME")).length, 2);
    assert.equal(await raw(client, "CLIENT", "SETNAME", "node"), "OK");
    assert.equal(await client.clientGetName(), "node");
    assert.match(String((await client.clientInfo()).name), /node/);
    assert.ok((await client.clientList()).some((row) => row.name === "node"));
}

async function strings(client) {
    assert.equal(await client.set("s", "v"), "OK");
    sent.add("set");
    assert.equal(await client.get("s"), "v");
    sent.add("get");
    assert.equal(await client.get("none"), null);
    assert.equal(await client.set("s", "w", { GET: true }), "v");
    assert.equal(await client.set("s", "x", { NX: true }), null);
    assert.equal(await client.set("s", "x", { EX: 100 }), "OK");
    assert.equal(await raw(client, "APPEND", "s", "yz"), 3);
    assert.equal(await raw(client, "STRLEN", "s"), 3);
    assert.deepEqual(await client.mGet(["s", "none"]), ["xyz", null]);
    sent.add("mget");
    assert.equal(await raw(client, "INCR", "n"), 1);
    assert.equal(await raw(client, "INCRBY", "n", 41), 42);
    assert.equal(await raw(client, "DECR", "n"), 41);
    assert.equal(await raw(client, "DECRBY", "n", 51), -10);
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    assert.equal(await client.set("bytes", bytes), "OK");
    assert.equal(await client.strLen("bytes"), 256);
}

async function generic(client) {
    assert.equal(await raw(client, "EXISTS", "s", "none"), 1);
    assert.equal(await raw(client, "TYPE", "s"), "string");
    assert.equal(await raw(client, "EXPIRE", "s", 100), 1);
    assert.ok((await raw(client, "TTL", "s")) <= 100);
    assert.equal(await raw(client, "PEXPIRE", "s", 50000), 1);
    assert.ok((await raw(client, "PTTL", "s")) <= 50000);
    assert.equal(await raw(client, "PERSIST", "s"), 1);
    const met = [];
    let cursor = "0";
    do {
        const [next, keys] = await raw(client, "SCAN", cursor, "MATCH", "s", "COUNT", "1000");
        met.push(...keys);
        cursor = next;
    } while (cursor !== "0");
    assert.deepEqual(met, ["s"]);
    assert.deepEqual(await raw(client, "KEYS", "s"), ["s"]);
    assert.equal(typeof (await raw(client, "RANDOMKEY")), "string");
    assert.equal(await raw(client, "DEL", "s", "none"), 1);
    assert.equal(await raw(client, "UNLINK", "n", "none"), 1);
}

async function hashes(client) {
    assert.equal(await client.hSet("h", { a: "1", b: "2" }), 2);
    sent.add("hset");
    assert.deepEqual({ ...(await client.hGetAll("h")) }, { a: "1", b: "2" });
    sent.add("hgetall");
    assert.equal(await raw(client, "HGET", "h", "a"), "1");
    assert.equal(await raw(client, "HLEN", "h"), 2);
    assert.equal(await raw(client, "HEXISTS", "h", "b"), 1);
    assert.deepEqual(await raw(client, "HSCAN", "h", "0", "MATCH", "b"), ["0", ["b", "2"]]);
    assert.equal(await raw(client, "HDEL", "h", "a", "none"), 1);
    await assert.rejects(client.get("h"), /WRONGTYPE/);
}

async function sortedSets(client) {
    assert.equal(await client.zAdd("z", [{ score: 1, value: "a" }, { score: 2.5, value: "b" }]), 2);
    sent.add("zadd");
    assert.equal(await client.zScore("z", "b"), 2.5);
    sent.add("zscore");
    assert.deepEqual(await client.zRangeWithScores("z", 0, -1), [{ value: "a", score: 1 }, { value: "b", score: 2.5 }]);
    sent.add("zrange");
    assert.equal(await client.zAdd("z", { score: Infinity, value: "c" }), 1);
    assert.equal(await client.zScore("z", "c"), Infinity);
    assert.deepEqual(await raw(client, "ZSCAN", "z", "0", "MATCH", "c"), ["0", ["c", "inf"]]);
    assert.equal(await raw(client, "ZCARD", "z"), 3);
    assert.equal(await raw(client, "ZREM", "z", "a", "none"), 1);
}

async function server(client) {
    assert.match(await client.info(), /redis_version:7\.0\.15/);
    sent.add("info");
    assert.deepEqual({ ...(await client.configGet("log.ready")) }, { "log.ready": "json" });
    sent.add("config");
    assert.ok(Array.isArray(await raw(client, "FABRIC", "PORTS")));
    assert.equal(await raw(client, "COMMAND", "COUNT"), (await client.commandList()).length);
    assert.ok((await raw(client, "DBSIZE")) > 0);
    assert.equal(await raw(client, "FLUSHDB"), "OK");
    assert.equal(await raw(client, "FLUSHALL"), "OK");
    assert.equal(await client.dbSize(), 0);
}

async function pubsub(client) {
    const reader = await connect();
    const got = [];
    await reader.subscribe("news", (message) => got.push(message));
    sent.add("subscribe");
    for (const message of ["one", "two", "three"]) {
        assert.equal(await raw(client, "PUBLISH", "news", message), 1);
    }
    for (let tries = 0; got.length < 3 && tries < 500; tries++) {
        await new Promise((done) => setTimeout(done, 10));
    }
    assert.deepEqual(got, ["one", "two", "three"]);
    await reader.unsubscribe("news");
    sent.add("unsubscribe");
    assert.equal(await client.publish("news", "four"), 0);
    await reader.close();
}

async function pipeline(client) {
    const answers = await Promise.all(Array.from({ length: 2000 }, (_, i) => client.set(`p${i}`, String(i))));
    assert.ok(answers.every((answer) => answer === "OK"));
    const values = await Promise.all(Array.from({ length: 2000 }, (_, i) => client.get(`p${i}`)));
    values.forEach((value, i) => assert.equal(value, String(i)));
}

async function main() {
    const client = await connect();
    await client.flushAll();
    for (const step of [connection, strings, generic, hashes, sortedSets, pubsub, pipeline, server]) {
        await step(client);
        console.log(`RESP${resp} ${step.name}: ok`);
    }
    const leaver = await connect();
    assert.equal(await raw(leaver, "QUIT"), "OK");
    const missing = (await client.commandList()).filter((name) => !sent.has(name.toLowerCase()));
    assert.deepEqual(missing, [], "commands that this round does not send");
    await client.close();
}

main().then(() => process.exit(0), (error) => {
    console.error(error);
    process.exit(1);
});
