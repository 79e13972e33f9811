#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""peers.py: runs many nodes with one redis-server by warm, ccache and sccache, and prints a table.

    peers.py BUILD [--nodes 16] [--clients 8] [--keys 500] [--median 0.6] [--ccache PROGRAM] [--sccache PROGRAM]

run.py runs warm's nodes. A peer's node is a cache folder of its own, for sccache with a server of its own too. All have
the same keys, costs and order. A peer's compiler is compiler.c. A peer runs processes for each key, and warm's clients
none: so compare a makespan with that of the same program without Redis.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from nodes import draw_costs
from run import await_socket, connect_unix, count_commands, start_redis

HERE = os.path.dirname(os.path.abspath(__file__))


class Peer:
    """The nodes of one program; `port` is Redis's, or None."""

    def __init__(self, program, folder, port):
        self.program, self.folder, self.port, self.servers = program, folder, port, []

    def open_node(self, node):
        """Starts what a node needs, and returns the environment of its clients."""
        return {}

    def close(self):
        for s in self.servers:
            s.terminate()
        for s in self.servers:
            s.wait()


class Ccache(Peer):
    def open_node(self, node):
        remote = f"redis://127.0.0.1:{self.port}" if self.port else ""
        return {"CCACHE_DIR": f"{node}/cache", "CCACHE_CONFIGPATH": "/dev/null", "CCACHE_REMOTE_STORAGE": remote}


class Sccache(Peer):
    def open_node(self, node):
        path = f"{node}/sock"
        environment = {"SCCACHE_SERVER_UDS": path, "SCCACHE_DIR": f"{node}/cache", "SCCACHE_CONF": "/dev/null"}
        redis = {"SCCACHE_REDIS_ENDPOINT": f"redis://127.0.0.1:{self.port}",
                 "SCCACHE_MULTILEVEL_CHAIN": "disk,redis"} if self.port else {}
        foreground = {"SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1", "SCCACHE_IDLE_TIMEOUT": "0"}
        # It makes no more at once than there are processors.
        preload = {"LD_PRELOAD": f"{self.folder}/processors.so"}
        self.servers.append(subprocess.Popen([self.program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                             env=os.environ | environment | redis | foreground | preload))
        await_socket(lambda: connect_unix(path))
        return environment


class Node:
    def __init__(self, peer, node, costs, speed):
        os.makedirs(f"{node}/costs")
        for key, cost in enumerate(costs):
            with open(f"{node}/costs/{key}.c", "w") as f:
                f.write(f"{cost * speed:.4f}\n")
        self.peer, self.path, self.n_keys = peer, node, len(costs)
        self.environment = os.environ | {"NODE": node} | peer.open_node(node)
        self.next, self.lock, self.ended, self.failed = 0, threading.Lock(), 0.0, 0

    def work(self):
        while True:
            with self.lock:
                key, self.next = self.next, self.next + 1
            if key >= self.n_keys:
                self.ended = max(self.ended, time.monotonic())
                return
            object_ = f"{self.path}/{key}.o"
            command = [self.peer.program, f"{self.peer.folder}/gcc", "-c", f"{self.peer.folder}/{key}.c", "-o", object_]
            run = subprocess.run(command, env=self.environment, cwd=self.peer.folder, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            if run.returncode != 0 or os.path.getsize(object_) != os.path.getsize(command[3]):
                with self.lock:
                    self.failed += 1

    def count_made(self):
        try:
            with open(f"{self.path}/made") as f:
                return len(f.readlines())
        except FileNotFoundError:
            return 0


def run_peer(kind, program, a, with_redis):
    folder = tempfile.mkdtemp(prefix="warm-peers.")
    redis, port = start_redis() if with_redis else (None, None)
    peer = kind(program, folder, port)
    try:
        costs, r = draw_costs(a.keys, a.median, 1), random.Random(2)
        for options, source, out in (["-static"], "compiler.c", "gcc"), (["-shared", "-fPIC"], "processors.c",
                                                                         "processors.so"):
            subprocess.run(["cc", "-O2", *options, "-o", f"{folder}/{out}", f"{HERE}/{source}"], check=True)
        for key in range(a.keys):
            with open(f"{folder}/{key}.c", "w") as f:
                f.write('const char value[] = "' + f"value {key} " * 500 + '";\n')
        nodes = [Node(peer, f"{folder}/node{n}", costs, r.lognormvariate(0, 0.1)) for n in range(a.nodes)]
        threads = [threading.Thread(target=n.work) for n in nodes for _ in range(a.clients)]
        began = time.monotonic()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if sum(n.failed for n in nodes):
            sys.exit(f"{program}: {sum(n.failed for n in nodes)} compiles failed")
        return {"compiles_per_key": sum(n.count_made() for n in nodes) / a.keys,
                "commands": count_commands(port) if port else {},
                "makespan_s": max(n.ended for n in nodes) - began}
    finally:
        peer.close()
        if redis:
            redis.terminate()
            redis.wait()
        shutil.rmtree(folder, ignore_errors=True)


def run_warm(a, with_redis):
    command = [sys.executable, f"{HERE}/run.py", a.build, "--nodes", str(a.nodes),
               "--clients", str(a.clients), "--keys", str(a.keys), "--median", str(a.median)]
    run = subprocess.run(command + ([] if with_redis else ["--no-tier"]), stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)


def say_commands(commands, a):
    each = {name.upper(): n / a.nodes / a.keys for name, n in commands.items()}
    often = sorted((name for name in each if each[name] >= 0.05), key=each.get, reverse=True)
    return f"{sum(each.values()):.1f}: " + ", ".join(f"{each[name]:.1f} {name}" for name in often)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--median", type=float, default=0.6, help="seconds that a key takes to make")
    parser.add_argument("--ccache", help="the program, of 4.7 or later with redis-storage")
    parser.add_argument("--sccache", help="the program, with Redis")
    a = parser.parse_args()
    runs = [("warm", lambda with_redis: run_warm(a, with_redis))]
    for kind, program in (Ccache, a.ccache), (Sccache, a.sccache):
        if program:
            version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
            name = version.splitlines()[0].replace("version ", "")
            runs.append((name, lambda with_redis, k=kind, p=program: run_peer(k, p, a, with_redis)))
    print(f"{a.nodes} nodes, {a.clients} clients each, {a.keys} keys, median {a.median} s\n\n"
          "| | compiles a key | makespan, s | of that alone | Redis's commands, for each node and key |\n"
          "|---|--:|--:|--:|---|", flush=True)
    for name, run in runs:
        alone, shared = run(False), run(True)
        for where, r in ("alone", alone), ("Redis", shared):
            ratio = f"{r['makespan_s'] / alone['makespan_s']:.2f}" if r is shared else "–"
            commands = say_commands(r["commands"], a) if r is shared else "–"
            print(f"| {name}, {where} | {r['compiles_per_key']:.2f} | {r['makespan_s']:.1f} | {ratio} | {commands} |",
                  flush=True)


if __name__ == "__main__":
    main()
