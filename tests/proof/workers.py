# SPDX-License-Identifier: Apache-2.0
"""Cases of a proof in processes of their own, each with the seeds that follow one another: compilers crash,
and one process that did is followed by another, behind the seed that it died of."""

import argparse
import collections
import json
import os
import subprocess
import sys
import threading

CRASHED_MAX = 0.02  # of the cases


def add_arguments(options):
    options.add_argument("--cases", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--work", action="store_true", help=argparse.SUPPRESS)


def work(options, case):
    """In a process that works: does the cases; case(seed) gives all counts so far."""
    for seed in range(options.seed, options.seed + options.cases):
        print(json.dumps({"seed": seed, "counts": case(seed)}), flush=True)


def run(options, script, arguments):
    """The counts of all cases, each done by `script --work` with these arguments. Counts "crashed"."""
    return Workers(options, [sys.executable, script, "--work", *arguments]).run()


def passed(options, counts):
    return (not counts["wrong"] and counts["crashed"] <= CRASHED_MAX * options.cases
            and counts["pairs"] > 0)


def show_changes(counts):
    for name in sorted(k[6:] for k in counts if k.startswith("tried ")):
        n, missed = counts["tried " + name], counts["missed " + name]
        print(f"  {name:10} {n:8} changes, {missed:6} with another key ({100 * missed / n:.2f} %)")


class Workers:
    def __init__(self, options, command):
        self.options, self.command, self.lock = options, command, threading.Lock()
        self.counts = collections.Counter()

    def run(self):
        start, n = self.options.seed, self.options.jobs
        edges = [start + self.options.cases * i // n for i in range(n + 1)]
        threads = [threading.Thread(target=self.do, args=edge) for edge in zip(edges, edges[1:])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.counts

    def do(self, first, end):
        while first < end:
            first = self.one(first, end) + 1

    def one(self, first, end):
        """Runs a process over these seeds; gives the last that it did, or that it died of."""
        last, counts = first - 1, collections.Counter()
        with subprocess.Popen([*self.command, "--seed", str(first), "--cases", str(end - first)],
                              stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith('{"seed"'):
                    said = json.loads(line)
                    last, counts = said["seed"], collections.Counter(said["counts"])
                else:
                    sys.stdout.write(line)
        with self.lock:
            self.counts.update(counts)
            if process.returncode:
                last += 1
                self.counts["crashed"] += 1
                print(f"seed {last}: exit status {process.returncode}", flush=True)
        return last
