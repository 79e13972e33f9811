#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py: runs real daemons as nodes, with one redis-server, and prints how often each key was made.

    run.py BUILD [--nodes 16] [--clients 8] [--keys 100] [--median 0.3] [--no-tier] > run.json
    nodes.py --like run.json

Each node is a warmd with a store of its own. Its clients take all keys in one order, each client the next one. To
make a key they sleep, so two cores are enough for many nodes. All else, the daemons and Redis, is real. The result
is one line of JSON, which nodes.py reads to compare the simulation with it.
"""
import argparse
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../client/python"))
from nodes import draw_costs  # noqa: E402
from warm._client import Client  # noqa: E402


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def await_socket(connect):
    end = time.monotonic() + 60
    while True:
        try:
            connect().close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def connect_unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s


def start_redis():
    """Starts a redis-server that keeps nothing. Returns its process and its port."""
    port = free_port()
    redis = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                              "--appendonly", "no"], stdout=subprocess.DEVNULL)
    await_socket(lambda: socket.create_connection(("127.0.0.1", port)))
    return redis, port


def count_commands(port):
    """How often a redis-server has carried out each command, those inside of EVAL included."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"INFO commandstats\r\nQUIT\r\n")
        text = s.makefile().read()
    return {name: int(calls) for name, calls in re.findall(r"cmdstat_(\S+?):calls=(\d+)", text)}


class Node:
    def __init__(self, build, folder, number, options):
        self.path = f"{folder}/{number}.sock"
        self.daemon = subprocess.Popen(
            [f"{build}/bin/warmd", "--socket", self.path, "--store", f"{folder}/{number}", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await_socket(lambda: connect_unix(self.path))
        self.client = Client(self.path, connect_timeout=30, request_timeout=120)
        self.next, self.lock, self.ended, self.made = 0, threading.Lock(), 0.0, 0

    def work(self, costs, speed):
        while True:
            with self.lock:
                key, self.next = self.next, self.next + 1
            if key >= len(costs):
                self.ended = max(self.ended, time.monotonic())
                return
            lease = self.client.lease(f"sim:{key}", wait=300)
            if lease.value is None:
                time.sleep(costs[key] * speed)
                with self.lock:
                    self.made += 1
                lease.put(f"value {key} ".encode() * 500, cost_ms=int(costs[key] * 1000))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--median", type=float, default=0.3)
    parser.add_argument("--no-tier", action="store_true")
    a = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="warm-nodes.")
    redis, port = start_redis()
    nodes = []
    try:
        subprocess.run([f"{a.build}/bin/warm", "tier", "keygen", "node-1", f"{folder}/key"], check=True,
                       stdout=subprocess.DEVNULL)
        options = [] if a.no_tier else ["--tier", f"redis://127.0.0.1:{port}", "--tier-key", f"{folder}/key"]
        nodes = [Node(a.build, folder, n, options) for n in range(a.nodes)]
        costs = draw_costs(a.keys, a.median, 1)
        began = time.monotonic()
        r = random.Random(2)
        threads = [threading.Thread(target=n.work, args=(costs, s)) for n in nodes
                   for s in [r.lognormvariate(0, 0.1)] for _ in range(a.clients)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        stats = [n.client.stats() for n in nodes]
        counted = {name: sum(s[name] for s in stats) for name in
                   ("tier_hits", "tier_misses", "tier_leases", "tier_waits", "tier_hedges", "tier_races", "tier_late",
                    "tier_overtook", "tier_errors", "tier_timeouts", "tier_refused")}
        commands = count_commands(port)
        print(json.dumps({"counted": counted, "commands": commands, "nodes": a.nodes, "wide": a.clients,
                          "compiles_per_key": round(sum(n.made for n in nodes) / a.keys, 2),
                          "commands_per_node_and_key": round(sum(commands.values()) / a.nodes / a.keys, 2),
                          "makespan_s": round(max(n.ended for n in nodes) - began, 2),
                          "median_s": round(sorted(n.ended for n in nodes)[a.nodes // 2] - began, 2),
                          "costs": [round(c, 3) for c in costs]}))
    finally:
        for n in nodes:
            n.daemon.terminate()
        redis.terminate()
        for n in nodes:
            n.daemon.wait()
        redis.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
