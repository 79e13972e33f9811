# SPDX-License-Identifier: Apache-2.0
"""Random graphs of PyTorch's own functions, as Dynamo gives them: what nobody wrote with keys in mind."""

import inspect
import operator
import warnings

import torch
import torch.nn.functional
import torch.overrides

import program
from program import Program, Statement, Unfit, Value

MODULES = (torch, torch, torch, torch.nn.functional, torch.nn.functional, torch.special, torch.linalg,
           torch.fft)
# Not for tensors of users, or with another result each time, or with a crash on what it is not for.
LEFT_OUT = ("fbgemm", "cudnn", "miopen", "quant", "mkldnn", "empty", "sparse", "batch_norm_", "_copy",
            "rnn", "lstm", "gru", "frombuffer", "embedding_bag", "as_strided", "histogramdd",
            "resize", "grid", "ctc_loss", "q_per", "set_", "get_", "crow", "ccol", "compressed")
SHAPES = ((8,), (5, 7), (16, 16), (2, 3, 8), (64, 33), (1, 4, 6, 6), (2000,))
NUMBERS = (0, 1, 2, -1, 0.5, 3, True)
SIZE_MAX = 8192  # elements of what goes on
TRIES = 60  # functions that are given what there is
TYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.complex64,
         torch.complex128) + program.FLOATS


def functions_of(module):
    """The public functions of a module that take tensors, in the order of their names."""
    known = torch.overrides.get_overridable_functions()
    known = {*known[module], *(known[torch.functional] if module is torch else ())}
    return [f for name, f in sorted(vars(module).items())
            if not name.startswith("_") and not name.endswith("_") and not inspect.isclass(f)
            and not any(word in name for word in LEFT_OUT) and callable(f) and f in known]


class Composer:
    def __init__(self, random):
        self.random = random
        kind = random.choice(SHAPES), random.choice(program.FLOATS + (torch.int64,))
        self.inputs = [Value(*kind) for _ in range(random.randint(1, 4))]
        self.tensors = dict(zip(self.inputs, program.fill(self.inputs, 0)))
        self.seen, self.statements = list(self.inputs), []

    def program(self):
        for _ in range(self.random.choice((2, 4, 8, 12))):
            self.step()
        used = {v for s in self.statements for v in s.operands()}
        leaves = [v for v in self.seen if v not in used and v not in self.inputs]
        self.random.shuffle(leaves)
        return Program(self.inputs, self.statements, leaves[:self.random.randint(1, 4)])

    def step(self):
        for _ in range(TRIES):
            f = self.random.choice(FUNCTIONS[self.random.choice(MODULES)])
            arguments = [self.random.choice(self.seen[-5:])
                         for _ in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
            if self.random.random() < 0.2:
                arguments[-1] = self.random.choice(NUMBERS)
            if self.random.random() < 0.1:
                arguments = [arguments]
            if self.took(f, arguments):
                return
        raise Unfit

    def took(self, f, arguments):
        """True if a function took the arguments and gave what others can be made of."""
        given = program.every(arguments, lambda v: self.tensors[v].clone())
        try:
            made = f(*given)
        except Exception:  # of whatever function, for whatever reason
            return False
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        if not results or not all(isinstance(v, torch.Tensor) and v.layout == torch.strided
                                  and v.dtype in TYPES and 0 < v.numel() <= SIZE_MAX for v in results):
            return False
        whole = Value((), None)
        self.statements.append(Statement(whole, f, arguments))
        if made is results[0]:
            whole.shape, whole.dtype = tuple(made.shape), made.dtype
            self.have(whole, made)
        else:
            for i, v in enumerate(results[:4]):
                part = Value(v.shape, v.dtype)
                self.statements.append(Statement(part, operator.getitem, [whole, i]))
                self.have(part, v)
        return True

    def have(self, value, tensor):
        self.tensors[value] = tensor
        self.seen.append(value)


FUNCTIONS = {module: functions_of(module) for module in MODULES}


def generate(random):
    """A random program that can be used."""
    warnings.simplefilter("ignore")  # of functions that are given what they are not for
    while True:
        try:
            made = Composer(random).program()
            made.text()  # values that decide shapes cannot be traced
            return made
        except Exception:  # of whatever function, for whatever reason
            continue
