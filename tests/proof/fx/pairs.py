# SPDX-License-Identifier: Apache-2.0
"""The proof of the keys of FX graphs by their compiler.

    pairs.py --library libwarm.so [--cases N] [--seed N]

Each case is a random graph (program.py) and a chain of changes to it that KEYS.md calls irrelevant, of
which those stay that leave the key as it is. Inductor compiles the first and the last graph for the CPU,
without any cache; both run on the same inputs, and must give the same bits; of NaNs only that they are.
What differs is a wrong hit and is printed, with the seed that repeats the case. Changes that the key tells
apart are counted. Exit status 0 if there was no wrong hit and each graph could be compiled."""

import argparse
import collections
import os
import random as randomness
import sys
import tempfile
import time

FOLDER = tempfile.TemporaryDirectory(prefix="warm-proof-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = FOLDER.name  # before torch, which would use the user's
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch
import torch._inductor.config
from torch._inductor.compile_fx import compile_fx

import program
from keys import Keys

DRAWS = 4  # inputs that each graph is run on
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}


def inputs(values, seed):
    generator = torch.Generator().manual_seed(seed)
    made = []
    for v in values:
        if v.dtype.is_floating_point:
            size = 10.0 if seed % 3 == 1 else 1.0
            made.append((torch.randn(v.shape, generator=generator) * size).to(v.dtype))
        else:
            made.append(torch.randint(-5, 100, v.shape, generator=generator).to(v.dtype))
    return made


def results(graph):
    """For each draw of inputs what the compiled graph gives."""
    torch._dynamo.reset()
    compiled = compile_fx(graph.module(), inputs(graph.inputs, 0))
    return [[v.clone() for v in compiled(*inputs(graph.inputs, draw))] for draw in range(DRAWS)]


def same(x, y):
    """True if the bits are the same, those of two NaNs apart."""
    if not x.dtype.is_floating_point:
        return torch.equal(x, y)
    bits = BITS[x.element_size()]
    equal = x.contiguous().view(bits) == y.contiguous().view(bits)
    return bool((equal | ((x != x) & (y != y))).all())


def all_same(a, b):
    return all(same(x, y) for one, other in zip(a, b) for x, y in zip(one, other))


class Proof:
    def __init__(self, library):
        self.keys, self.counts = Keys(library), collections.Counter()

    def case(self, seed):
        random = randomness.Random(seed)
        base = last = program.generate(seed)
        key = self.keys.of_text(b"fx", base.text())
        for _ in range(random.choice((1, 3, 6))):
            change = random.choice(program.CHANGES)
            other = program.Program(base.inputs, change(last.statements, random), base.results)
            self.counts["tried " + change.__name__] += 1
            if self.keys.of_text(b"fx", other.text()) == key:
                last = other
            else:
                self.counts["missed " + change.__name__] += 1
        self.counts["cases"] += 1
        if last.text() != base.text():
            self.compare(seed, base, last)

    def compare(self, seed, base, last):
        given = results(base)
        self.counts["pairs"] += 1
        if all_same(given, results(last)):
            return
        if not all_same(given, results(base)):
            self.counts["unsteady"] += 1
            return
        self.counts["wrong"] += 1
        print(f"WRONG HIT: seed {seed}", base.text(), "---- has the key of", last.text(), sep="\n",
              flush=True)

    def show(self, seconds):
        counts = self.counts
        print(f"fx: {counts['cases']} cases, {counts['pairs']} pairs, {counts['wrong']} wrong hits, "
              f"{counts['unsteady']} with other bits each time, "
              f"{seconds / max(1, counts['cases']):.1f} s a case")
        for name in sorted(k[6:] for k in counts if k.startswith("tried ")):
            n, missed = counts["tried " + name], counts["missed " + name]
            print(f"  {name:10} {n:8} changes, {missed:6} with another key ({100 * missed / n:.2f} %)")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--library", required=True)
    options.add_argument("--cases", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    config = torch._inductor.config
    config.fx_graph_cache = config.fx_graph_remote_cache = False
    config.compile_threads = 1
    proof, start = Proof(options.library), time.monotonic()
    with torch.no_grad():
        for seed in range(options.seed, options.seed + options.cases):
            proof.case(seed)
    proof.show(time.monotonic() - start)
    return int(proof.counts["wrong"] > 0 or not proof.counts["pairs"])


if __name__ == "__main__":
    sys.exit(main())
