"""node_redis.py - npm `redis` does a round of every command with RESP2 and with RESP3."""

import os
import pathlib
import subprocess
import sys

import server

HERE = pathlib.Path(__file__).resolve().parent


def main():
    peer = subprocess.run([server.ROOT / "tools" / "peers", "node"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if peer.returncode != 0:
        server.skip((peer.stderr.strip().splitlines() or ["tools/peers node failed"])[-1])
    env = dict(os.environ, NODE_PATH=str(pathlib.Path(peer.stdout.strip()) / "node_modules"))
    with server.Server() as booted:
        for resp in (2, 3):
            subprocess.run(["node", HERE / "node_redis.js", str(resp), str(booted.port)], env=env, check=True, timeout=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
