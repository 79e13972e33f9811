# SPDX-License-Identifier: Apache-2.0
"""One case after the other: random graphs, changed, keyed, compiled and run."""

import collections
import os
import random as randomness
import tempfile

FOLDER = tempfile.TemporaryDirectory(prefix="warm-proof-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = FOLDER.name  # before torch, which would use the user's
import torch
import torch._inductor.config
from torch._inductor.compile_fx import compile_fx

import functions
import gradients
import models
import program
from keys import Keys
from program import fill

DRAWS = 4  # inputs that each graph is run on
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}


class Whole:
    """A graph that is compiled as it is."""

    def __init__(self, program):
        self.program = program

    def inputs(self, draw):
        return fill(self.program.inputs, draw)

    def compiled(self, whole):
        call = compile_fx(whole.module(), self.inputs(0))
        return lambda given: call(*given)


def stage(seed, random):
    """A random graph, at a stage of its compile."""
    torch.manual_seed(seed)
    whole = random.choice((lambda: program.generate(seed), lambda: functions.generate(random),
                           lambda: models.generate(random)))()
    if random.random() < 0.3:
        return Whole(whole)
    try:
        joint = gradients.Joint(whole)
        at = random.choice((lambda: joint, lambda: gradients.Forward(joint),
                            lambda: gradients.Backward(joint)))()
        at.program.text()
    except Exception:  # of whatever function: not all has gradients
        return Whole(whole)
    return at if at.program.statements else Whole(whole)


def results(stage, graph):
    """For each draw of inputs what the compiled graph gives."""
    torch._dynamo.reset()
    compiled = stage.compiled(graph)
    made = []
    for draw in range(DRAWS):
        given = stage.inputs(draw)
        torch.manual_seed(draw)
        made.append([v if v is None else v.clone() for v in compiled(given)])
    return made


def same(x, y):
    """True if the bits are the same, those of two NaNs apart."""
    if x is None or y is None or (x.shape, x.dtype) != (y.shape, y.dtype):
        return x is y
    if x.is_complex():
        x, y = torch.view_as_real(x.resolve_conj()), torch.view_as_real(y.resolve_conj())
    if not x.dtype.is_floating_point:
        return torch.equal(x, y)
    bits = BITS[x.element_size()]
    equal = x.contiguous().view(bits) == y.contiguous().view(bits)
    return bool((equal | ((x != x) & (y != y))).all())


def all_same(a, b):
    return all(len(one) == len(other) and all(map(same, one, other)) for one, other in zip(a, b))


class Proof:
    def __init__(self, library):
        self.keys, self.counts = Keys(library), collections.Counter()
        config = torch._inductor.config
        config.fx_graph_cache = config.fx_graph_remote_cache = False
        config.compile_threads = 1

    def case(self, seed):
        with torch.no_grad():
            self.do(seed, randomness.Random(seed))

    def do(self, seed, random):
        at = stage(seed, random)
        base = last = at.program
        key = self.keys.of(b"fx", base.text().encode())
        self.counts["cases"] += 1
        if not key:
            self.counts["refused"] += 1
            return
        self.counts["of " + type(at).__name__.lower()] += 1
        for _ in range(random.choice((3, 8, 15))):
            change = random.choice(program.CHANGES)
            other = base.changed(change(last.statements, random))
            try:
                text = other.text()
            except Exception:  # what is made lies in memory as the first operand does: no view of it
                continue
            self.counts["tried " + change.__name__] += 1
            if self.keys.of_text(b"fx", text) == key:
                last = other
            else:
                self.counts["missed " + change.__name__] += 1
        if last.text() != base.text():
            self.compare(seed, at, last)

    def compare(self, seed, at, last):
        try:
            given = results(at, at.program)
        except Exception:  # not all that PyTorch traces does Inductor compile
            self.counts["failed"] += 1
            return
        self.counts["pairs"] += 1
        if all_same(given, results(at, last)):
            return
        if not all_same(given, results(at, at.program)):
            self.counts["unsteady"] += 1
            return
        self.counts["wrong"] += 1
        print(f"WRONG HIT: seed {seed}", at.program.text(), "---- has the key of", last.text(), sep="\n",
              flush=True)
