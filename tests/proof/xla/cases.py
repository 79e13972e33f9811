# SPDX-License-Identifier: Apache-2.0
"""Cases of the proof, one after another: a program, a chain of changes, the first and the last compiled
and compared. What they count is "NAME" or "NAME OF-WHAT"."""

import collections
import random as spelling

import numpy as np

import devices
import generate
import hlo
import shrink
import traced
import variants
from keys import Keys
from program import Style
from run import Cpu, Refused, different

STEPS_MAX = 40  # changes in a chain
APART = 0.03  # of what the key tells apart: compiled
SPELLINGS = 0.2  # of the cases: spelt otherwise
HLO = 0.25  # of the cases: of the HLO that XLA makes of the program


def compiler(gpu):
    if not gpu:
        return Cpu()
    from gpu import Gpu  # which needs a package more
    return Gpu(gpu)


class Proof:
    def __init__(self, options):
        self.several, self.traced = options.several, options.traced
        self.platform = "cuda" if options.gpu else "cpu"
        self.keys, self.xla = Keys(options.library), compiler(options.gpu)
        self.counts = collections.Counter()

    def case(self, seed):
        random = np.random.default_rng(seed)
        base = self.base(random)
        if base.partitions == 1 and random.random() < HLO:
            base = hlo.read(self.xla.hlo_text(base), base.replicas)
            self.counts["hlo"] += 1
        key = self.key(base)
        if random.random() < SPELLINGS:
            self.spellings(base, key, seed)
        chain = [(base, None, None)]
        changes = [c for c in variants.CHANGES if random.random() < 0.5] or [variants.order]
        for _ in range(int(random.integers(1, STEPS_MAX))):
            self.change(random, seed, key, chain, variants.one_of(random, changes))
        self.counts["cases"] += 1
        if len(chain) > 1:
            self.counts["pairs"] += 1
            given = self.given(base, seed)
            if given is None:
                self.counts["refused"] += 1
            elif different(given, self.xla.results(chain[-1][0], seed)):
                self.wrong_hit(seed, chain)

    def key(self, program):
        return self.keys.of_text(program.kind, program.text())

    def base(self, random):
        """A random program."""
        if random.random() < self.several:
            self.counts["several"] += 1
            return devices.generate(random)
        if random.random() < self.traced:
            self.counts["traced"] += 1
            return traced.generate(random, self.platform)
        return generate.generate(random)

    def given(self, program, seed):
        """Its results; None if the compiler does not take it."""
        try:
            return self.xla.results(program, seed)
        except Refused:
            return None

    def change(self, random, seed, key, chain, what):
        """One more program at the chain's end, if the key stays."""
        last = chain[-1][0]
        program, values, said = variants.changed(last, random, what)
        if not program:
            return
        self.counts[f"tried {what.__name__}"] += 1
        if self.key(program) == key:
            chain.append((program, values, what.__name__))
            return
        self.counts[f"missed {what.__name__}"] += 1
        if random.random() < APART:
            given = self.given(last, seed)
            other = given and different(given, self.xla.results(program, seed))
            self.counts[f"{'other' if other else 'same'} {said}"] += 1

    def spellings(self, program, key, seed):
        styled = program.text(Style(spelling.Random(seed)))
        spelt = [("style", program.kind, styled.encode())]
        if program.kind == b"mlir":
            bytecode, printed = self.xla.spellings(styled)
            spelt += [("bytecode", b"mlirbc", bytecode), ("printed", b"mlir", printed.encode())]
        for name, kind, data in spelt:
            self.counts[f"tried {name}"] += 1
            if self.keys.of(kind, data) != key:
                self.counts[f"missed {name}"] += 1

    def wrong_hit(self, seed, chain):
        """Or a program that XLA makes other code of when it is asked again."""
        steady = shrink.report(self, seed, chain)
        self.counts["wrong" if steady else "unsteady"] += 1
