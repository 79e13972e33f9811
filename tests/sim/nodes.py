#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nodes.py: simulates many nodes with a tier that need the results of one job, by the rules of
daemon/service/tier_fetch.c.

    nodes.py [--nodes 1250] [--keys 500] [--wide 8] [--median 0.6] [--seeds 3] [--like FILE]

A node is a machine: its daemon merges the requests of its processes. Each node wants all keys in one order,
`wide` at a time. The time to make a key is log-normal. One node in a hundred is eight times slower, one in 250
dies. Redis answers after 1 ms, and takes 120 000 requests a second. 1250 nodes of eight ranks are 10 000 ranks.

Policies: alone (no tier), race (a tier without leases: each node that misses compiles), lease (ours). For each it
prints a line of JSON: the compiles for each key, and the makespan beside that of one machine alone.

`--like FILE` takes nodes, keys, costs and `wide` from a run of run.py, to compare the simulation with it.
"""
import argparse
import heapq
import json
import math
import random

LEASE, HEDGE, POLL_MIN, POLL_MAX = 10.0, 5.0, 0.05, 1.0
RACE_BELOW, RACE_AFTER = 0.1, 0.3
RTT, RATE = 0.001, 120e3


class Server:
    """A queue with a round trip and a rate."""

    def __init__(self, random_):
        self.free, self.n, self.random = 0.0, 0, random_

    def answers_at(self, now):
        self.n += 1
        half = RTT / 2 * math.exp(self.random.gauss(0, 0.35))
        self.free = max(now + half, self.free) + 1 / RATE
        return self.free + half


class Simulation:
    def __init__(self, policy, costs, nodes, wide, seed, faults=True, start=2.0):
        self.policy, self.costs, self.wide = policy, costs, wide
        self.random = r = random.Random(seed)
        self.events, self.order, self.now = [], 0, 0.0
        self.server = Server(r)
        self.speed = [r.lognormvariate(0, 0.1) * (8 if faults and r.random() < 0.01 else 1) for _ in range(nodes)]
        span = sum(costs) / wide
        self.dies = [r.uniform(0, span) if faults and r.random() < 0.004 else math.inf for _ in range(nodes)]
        self.next = [0] * nodes
        self.left = [len(costs)] * nodes
        self.ended = [None] * nodes
        self.there = [math.inf] * len(costs)  # when a key is in Redis
        self.lease = {}  # (key, slot): node, end
        self.making = [set() for _ in costs]
        self.done = set()
        self.compiles = 0
        for node in range(nodes):
            for _ in range(wide):
                self.at(r.random() * start if _ == 0 else 0.001, self.step, node)

    def at(self, when, do, *what):
        self.order += 1
        heapq.heappush(self.events, (when, self.order, do, what))

    def run(self):
        while self.events:
            self.now, _, do, what = heapq.heappop(self.events)
            if self.now < self.dies[what[0]]:
                do(*what)
        alive = sorted(t for n, t in enumerate(self.ended) if self.dies[n] == math.inf)
        one = self.alone()
        return {"policy": self.policy, "compiles_per_key": round(self.compiles / len(self.costs), 2),
                "makespan_s": round(alive[-1], 2), "median_s": round(alive[len(alive) // 2], 2),
                "one_machine_s": round(one, 2), "ratio": round(alive[-1] / one, 2),
                "median_ratio": round(alive[len(alive) // 2] / one, 2),
                "asks_per_node_and_key": round(self.server.n / len(self.left) / len(self.costs), 2)}

    def alone(self):
        """Returns the seconds that one machine takes by itself."""
        ends = [0.0] * self.wide
        for cost in self.costs:
            heapq.heappush(ends, heapq.heappop(ends) + cost)
        return max(ends)

    def step(self, node):
        key = self.next[node]
        if key == len(self.costs):
            return
        self.next[node] += 1
        if self.policy == "alone":
            self.make(node, key, None)
            return
        if self.policy == "lease":
            waits = RACE_AFTER if self.costs[key] < RACE_BELOW else max(HEDGE, 3 * self.costs[key])
            self.at(self.now + waits, self.make, node, key, None)
        self.ask(node, key, self.now, POLL_MIN, 0)

    def ask(self, node, key, since, poll, slot):
        if (node, key) not in self.done and node not in self.making[key]:
            self.at(self.server.answers_at(self.now), self.answer, node, key, since, poll, slot)

    def answer(self, node, key, since, poll, slot):
        if (node, key) in self.done or node in self.making[key]:
            return
        if self.there[key] <= self.now:
            self.finish(node, key)
        elif self.policy == "race":
            self.make(node, key, None)
        elif self.lease.get((key, slot), (0, 0))[1] <= self.now:
            self.lease[key, slot] = (node, self.now + LEASE)
            self.make(node, key, slot)
        else:
            patience = max(HEDGE, 3 * self.costs[key])
            late = self.now - since >= patience * (1 - 0.5**(slot + 1))
            again = self.now + poll * (0.75 + self.random.random() / 2)
            self.at(again, self.ask, node, key, since, min(poll * 1.5, POLL_MAX), slot + late)

    def make(self, node, key, slot):
        if (node, key) in self.done or node in self.making[key]:
            return
        self.compiles += 1
        self.making[key].add(node)
        took = self.costs[key] * self.speed[node]
        if slot is not None:  # renewed while its maker lives
            self.lease[key, slot] = (node, min(self.now + took, self.dies[node]) + LEASE)
        self.at(self.now + took, self.made, node, key)

    def made(self, node, key):
        if node not in self.making[key]:
            return  # another result came first
        self.making[key].discard(node)
        if self.policy != "alone" and self.there[key] == math.inf:
            self.there[key] = self.server.answers_at(self.now)
            for other in self.making[key]:
                self.at(self.there[key] + self.random.uniform(0, POLL_MAX), self.overtaken, other, key)
        self.finish(node, key)

    def overtaken(self, node, key):
        if node in self.making[key]:
            self.making[key].discard(node)
            self.finish(node, key)

    def finish(self, node, key):
        if (node, key) in self.done:
            return
        self.done.add((node, key))
        self.left[node] -= 1
        if self.left[node] == 0:
            self.ended[node] = self.now
        self.step(node)


def draw_costs(n, median, seed):
    r = random.Random(seed)
    return [min(60.0, max(0.1, r.lognormvariate(math.log(median), 1.3))) for _ in range(n)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--wide", type=int, default=8)
    parser.add_argument("--median", type=float, default=0.6, help="seconds that a key takes to make")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--policies", default="alone,race,lease")
    parser.add_argument("--like", help="a run of run.py")
    a = parser.parse_args()
    like = json.load(open(a.like)) if a.like else None
    for policy in a.policies.split(","):
        for seed in range(1, a.seeds + 1):
            costs = like["costs"] if like else draw_costs(a.keys, a.median, seed)
            nodes, wide = (like["nodes"], like["wide"]) if like else (a.nodes, a.wide)
            print(json.dumps(Simulation(policy, costs, nodes, wide, seed, faults=not like).run()), flush=True)


if __name__ == "__main__":
    main()
