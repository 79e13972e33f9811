# SPDX-License-Identifier: Apache-2.0
"""The proof of the keys of graphs by their compiler.

    pairs.py --library libwarm.so [--gpu FILE] [--several PART] [--functions PART] [--cases N] [--seed N]
             [--jobs N]

Each case is a random StableHLO program (generate.py; PART of them for four devices, devices.py, and PART
of the others of JAX's own functions, functions.py), or the HLO that XLA makes of it first, as text
(hlo.py), and a chain of changes to it that KEYS.md calls irrelevant (variants.py), of which those stay
that leave the key as it is. XLA compiles the first and the last program for the CPU, both run on the same
inputs, and must give the same bits; of NaNs only that they are. With --gpu it compiles both for the GPU
that FILE describes, which need not be there, and both must compute the same by what they say (computed.py).
What differs is a wrong hit: the two programs of the chain between which it happens are shrunk and printed,
with the seed that repeats the case. Spellings of one program, as MLIR prints it and as bytecode, must have
its key.

Changes that the key tells apart are counted, not failures; some of them are compiled, which shows what
the key's caution is worth. Programs run in processes of their own: XLA
crashes on some, which are counted and left out. Exit status 0 if there was no wrong hit and nearly
nothing crashed."""

import argparse
import collections
import json
import os
import subprocess
import sys
import threading
import time

CRASHED_MAX = 0.02  # of the cases


def work(options):
    """Does the cases and prints a line of JSON for each: all counts so far."""
    from cases import Proof  # the compiler is in the processes that work only
    proof = Proof(options)
    for seed in range(options.seed, options.seed + options.cases):
        proof.case(seed)
        print(json.dumps({"seed": seed, "counts": proof.counts, "compiled": proof.xla.compiled}),
              flush=True)


class Workers:
    """Processes that do the cases, each its own; one that crashed is followed by another."""

    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.counts = collections.Counter()

    def do(self, first, end):
        while first < end:
            first = self.one(first, end) + 1

    def one(self, first, end):
        """Runs a process over these seeds; gives the last that it did, or that it died of."""
        last, counts = first - 1, collections.Counter()
        with subprocess.Popen([sys.executable, __file__, "--work", "--library", self.options.library,
                               "--several", str(self.options.several),
                               "--functions", str(self.options.functions),
                               "--seed", str(first), "--cases", str(end - first),
                               *(["--gpu", self.options.gpu] if self.options.gpu else [])],
                              stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith('{"seed"'):
                    said = json.loads(line)
                    last, counts = said["seed"], collections.Counter(said["counts"])
                    counts["compiled"] = said["compiled"]
                else:
                    sys.stdout.write(line)
        with self.lock:
            self.counts.update(counts)
            if process.returncode:
                last += 1
                self.counts["crashed"] += 1
                print(f"seed {last}: exit status {process.returncode}", flush=True)
        return last

    def run(self):
        start, n = self.options.seed, self.options.jobs
        edges = [start + self.options.cases * i // n for i in range(n + 1)]
        threads = [threading.Thread(target=self.do, args=edge) for edge in zip(edges, edges[1:])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.counts


def show(counts, seconds):
    def of(name):
        return sorted(k.split(" ", 1)[1] for k in counts if k.startswith(name + " "))

    print(f"pairs: {counts['cases']} cases ({counts['functions']} of JAX's functions, "
          f"{counts['hlo']} of HLO, {counts['several']} for several devices, {counts['refused']} refused), {counts['pairs']} pairs, {counts['compiled']} programs "
          f"compiled, {counts['wrong']} wrong hits, {counts['crashed']} crashed, "
          f"{counts['unsteady']} with other bits each time, "
          f"{1000 * seconds / max(1, counts['cases']):.0f} ms a case")
    for what in of("tried"):
        n, missed = counts["tried " + what], counts["missed " + what]
        print(f"  {what:10} {n:8} changes, {missed:6} with another key ({100 * missed / n:.2f} %)")
    for what in sorted({*of("same"), *of("other")}):
        other = counts["other " + what]
        n = other + counts["same " + what]
        print(f"  told apart: {what}: {n} compiled, other bits {other} ({100 * other / n:.0f} %)")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--library", required=True)
    options.add_argument("--gpu", metavar="FILE")
    options.add_argument("--several", metavar="PART", type=float, default=0.2)
    options.add_argument("--functions", metavar="PART", type=float, default=0.1)
    options.add_argument("--cases", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.work:
        return work(options)
    start = time.monotonic()
    counts = Workers(options).run()
    show(counts, time.monotonic() - start)
    return int(counts["wrong"] > 0 or counts["crashed"] > CRASHED_MAX * options.cases
               or not counts["pairs"])


if __name__ == "__main__":
    sys.exit(main())
