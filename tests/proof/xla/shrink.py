# SPDX-License-Identifier: Apache-2.0
"""A wrong hit as little as it can be made, and printed."""

from program import Value
from run import different
from variants import places, uses

TRIES = 3  # sets of inputs on which a smaller pair is looked at


def report(proof, seed, chain):
    """Finds the two neighbours of the chain that differ, and prints them shrunk. False if the first
    program does not give the same bits each time that it is compiled, so that nothing is wrong."""
    given = {}

    def results(i):
        if i not in given:
            given[i] = proof.xla.results(chain[i][0], seed)
        return given[i]

    if different(results(0), proof.xla.results(chain[0][0], seed)):
        print(f"seed {seed}: the same program gives other bits when compiled again", flush=True)
        return False
    low, high = 0, len(chain) - 1  # results(low) are as results(0), results(high) are not
    while high - low > 1:
        middle = (low + high) // 2
        if different(results(0), results(middle)):
            high = middle
        else:
            low = middle
    other, values, change = chain[high]
    _, i = different(results(low), results(high))
    pair = Pair(proof, seed, chain[low][0], other, values)
    pair.shrink(i)
    print(f"WRONG HIT: seed {seed}, change {high} of {len(chain) - 1}: {change}",
          pair.one.text() + "---- has the key of\n" + pair.other.text(), sep="\n", flush=True)
    return True


class Pair:
    """Two programs with one key and other results; `values`: which of one is which of the other."""

    def __init__(self, proof, seed, one, other, values):
        self.proof, self.seed, self.one, self.other, self.values = proof, seed, one, other, values

    def shrink(self, i):
        """To the i-th result, and with as many values as possible as arguments."""
        self.attempt(lambda a, b, values: only_result(a, i) and only_result(b, i))
        at = len(self.one.main.ops) - 2
        while at >= 0:
            self.attempt(lambda a, b, values, at=at: as_argument(a, b, values, at))
            at = min(at, len(self.one.main.ops) - 1) - 1

    def attempt(self, change):
        """Keeps the change if it can be made and the pair is a wrong hit still."""
        here, there = {}, {}
        a, b = self.one.copy(here), self.other.copy(there)
        values = {here[v]: there[w] for v, w in self.values.items() if v in here and w in there}
        if change(a, b, values):
            sweep(a)
            sweep(b)
            if self.is_wrong(a, b):
                self.one, self.other, self.values = a, b, values

    def is_wrong(self, a, b):
        key, xla = self.proof.key, self.proof.xla
        return key(a) == key(b) and any(
            different(xla.results(a, seed), xla.results(b, seed))
            for seed in range(self.seed, self.seed + TRIES))


def only_result(program, i):
    last = program.main.ops[-1]
    last.operands, last.attributes = last.operands[i:i + 1], last.attributes[i:i + 1]
    return True


def as_argument(a, b, values, at):
    """What an operation of the first program gives comes from outside, in both."""
    op = a.main.ops[at]
    if at >= len(a.main.ops) - 1 or not all(v in values for v in op.results):
        return False
    for v in op.results:
        fresh = [Value(v.type), Value(v.type)]
        for program, new, old in zip((a, b), fresh, (v, values[v])):
            program.main.arguments.append(new)
            for user, i in uses(program, old):
                user.operands[i] = new
        values[fresh[0]] = fresh[1]
    return True


def sweep(program):
    """Takes away what nothing needs; arguments stay."""
    before = -1
    while before != len(places(program)):
        before = len(places(program))
        used = {v for _, _, op in places(program) for v in op.operands}
        for block in program.blocks():
            block.ops = [op for op in block.ops
                         if not op.results or any(v in used for v in op.results)]
        callees = {f for _, _, op in places(program) for f in op.functions()}
        program.functions = [f for f in program.functions if f in callees or f is program.main]
