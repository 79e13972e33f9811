# SPDX-License-Identifier: Apache-2.0
"""What a compile of torch reads beside the graph: tables, settings, functions in a graph, memory that arguments share.
Each test is a pair of programs that torch's keys do not tell apart. Neither gets what the other made."""

import kit

BEGIN = """
import functools, sys
import torch
import torch._functorch.config, torch._inductor.config
import torch._inductor.decomposition as decomposition, torch._inductor.lowering as lowering
from torch._inductor.virtualized import ops
from torch.utils.checkpoint import checkpoint
aten, refs = torch.ops.aten, torch._refs.nn.functional
x = torch.linspace(-1, 1, 64)
"""
END = "\nprint(torch.allclose(torch.compile(called)(*arguments), wanted))\n"

SOFTPLUS = """
called, arguments = lambda x: torch.nn.functional.softplus(x) + 1, [x]
wanted = called(x)
"""
KERNEL = """
called, arguments = lambda x: torch.nn.functional.softplus(x) + 1, [x]
wanted = torch.nn.functional.softplus(x, beta=2) + 1
library = torch.library.Library("aten", "IMPL")
library.impl("softplus", functools.partial(refs.softplus, beta=2), "AutogradCPU")
"""
SILU = """
called, arguments = lambda x: torch.nn.functional.silu(x) + 1, [x]
wanted = called(x)
"""
MISH = SILU + """
decomposition.decompositions[aten.silu.default] = refs.mish
wanted = torch.nn.functional.mish(x) + 1
"""
LOWERING = """
body = lambda x: ops.mul(x, ops.constant(%s, torch.float32))
lowering.lowerings[aten.erf.default] = lowering.make_pointwise(body)
called, arguments, wanted = lambda x: torch.erf(x) + 1, [x], x * %s + 1
"""
PASS = """
def replaced(gm, inputs):
    for node in gm.graph.nodes:
        if node.target is aten.sin.default:
            node.target = aten.%s.default
    gm.recompile()
    return gm
torch._functorch.config.joint_custom_pass = replaced
called, arguments, wanted = lambda x: torch.sin(x) + 1, [x.requires_grad_()], torch.%s(x) + 1
"""
OPAQUE = """
@torch._dynamo.allow_in_graph
def opaque(x):
    return torch.%s(x)
def called(x):
    return checkpoint(lambda x: opaque(x + 1) * x, x, use_reentrant=False)
arguments, wanted = [x.requires_grad_()], torch.%s(x + 1) * x
"""
FUNCTION = """
torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True
@torch._dynamo.allow_in_graph
def opaque(x):
    return torch.%s(x)
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return opaque(x) * 2
    @staticmethod
    def backward(ctx, gradient):
        return gradient
called, arguments, wanted = Own.apply, [x.requires_grad_()], torch.%s(x) * 2
"""
ALIAS = """
def pair():
    base = torch.arange(16.)
    return base[:8], base[4:12] if %s else torch.arange(16.)[4:12]
def called(x, y):
    x.mul_(2)
    return x + y
arguments, wanted = pair(), called(*pair())
"""
OFFSET = """
called = lambda x: torch.as_strided(x, (4,), (2,)) + 1
arguments = [torch.arange(16.)[%s:][:8]]
wanted = called(*arguments)
"""
LIBRARY = """
from torch.utils.cpp_extension import load_inline
load_inline("own", cpp_sources=['''
#include <torch/library.h>
#include <ATen/ATen.h>
at::Tensor own(const at::Tensor& x) { return at::mul(x, %s); }
TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) { m.impl("sinc", own); }
TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("sinc", own); }
TORCH_LIBRARY_IMPL(aten, Meta, m) { m.impl("sinc", own); }
int nothing() { return 1; }
'''], functions=["nothing"])
called, arguments, wanted = lambda x: torch.sinc(x) + 1, [x], x * %s + 1
"""


class Pairs(kit.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(kit.Daemon())
        cls.headers = cls.enterClassContext(kit.Folder())
        cls.run_one(SOFTPLUS)  # makes the catalogue

    @classmethod
    def run_one(cls, middle):
        with kit.Folder() as folder:
            return cls.daemon.run(BEGIN + middle + END, OMP_NUM_THREADS="1", TORCHINDUCTOR_CACHE_DIR=folder,
                                  TORCH_EXTENSIONS_DIR=folder, TMPDIR=cls.headers,
                                  TORCHINDUCTOR_VEC_ISA_OK="1").stdout.strip()

    def check(self, *programs, why=""):
        """Runs two programs, and the first one again. `why`: the second is not kept, and `warm why` names this."""
        for program in (*programs, programs[0]):
            self.assertEqual(self.run_one(program), "True")
            if why and program == programs[-1]:
                self.assertIn(why, self.daemon.warm("why", "--last"))

    def test_a_program_that_stays_inside_torch_is_warm_the_second_time(self):
        hits = self.daemon.stats("puts")
        self.assertEqual(self.run_one(SOFTPLUS), "True")
        self.assertEqual(self.daemon.stats("puts"), hits, "all was in the cache")

    def test_a_kernel_in_python_made_of_functions_of_torch_counts(self):
        self.check(SOFTPLUS, KERNEL, why="aten::softplus/AutogradCPU")

    def test_a_decomposition_that_is_another_of_torchs_counts(self):
        self.check(SILU, MISH, why="aten.silu.default in torch._inductor.decomposition.decompositions")

    def test_a_removed_decomposition_is_not_kept(self):
        self.check(SOFTPLUS, SOFTPLUS + "del decomposition.decompositions[aten.softplus.default]\n",
                   why="aten.softplus.default (missing)")

    def test_a_fallback_is_not_kept(self):
        self.check(SOFTPLUS, SOFTPLUS + "lowering.make_fallback(aten.exp.default, warn=False, override_decomp=True)\n",
                   why="aten.exp.default")

    def test_a_lowering_of_torch_around_a_function_of_the_program_counts(self):
        self.check(LOWERING % (2.0, 2.0), LOWERING % (3.0, 3.0), why="aten.erf.default")

    def test_a_pass_that_torchs_keys_leave_out_counts(self):
        self.check(PASS % ("cosh", "cosh"), PASS % ("sinh", "sinh"), why="joint_custom_pass")

    def test_a_function_inside_of_a_checkpoint_counts(self):
        self.check(OPAQUE % ("sin", "sin"), OPAQUE % ("cos", "cos"), why="calls opaque")

    def test_a_function_inside_of_an_autograd_function_counts(self):
        self.check(FUNCTION % ("sin", "sin"), FUNCTION % ("cos", "cos"), why="calls opaque")

    def test_arguments_that_share_memory_are_not_those_that_do_not(self):
        self.check(ALIAS % False, ALIAS % True)

    def test_where_an_argument_begins_in_its_memory_counts(self):
        self.check(OFFSET % 0, OFFSET % 3)

    def test_a_kernel_in_cpp_counts(self):
        self.check(LIBRARY % ("2.0", "2.0"), LIBRARY % ("3.0", "3.0"), why="aten::sinc")


if __name__ == "__main__":
    kit.main()
