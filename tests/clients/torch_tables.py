# SPDX-License-Identifier: Apache-2.0
"""What a compile of torch reads beside the graph: tables, settings, functions in a graph, memory that arguments share.
Each test is a pair of programs that torch's keys do not tell apart. Neither gets what the other made."""

import json
import os
import sys

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

# Without this package torch.hub has a class of its own.
TQDM = """
class tqdm:
    def __init__(self, *arguments, **options):
        pass
    def __getattr__(self, name):
        return lambda *arguments, **options: None
"""
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
# Two arguments share memory, but one of them is no view for autograd: torch raises.
VIEWS = """
part = torch.arange(16.).requires_grad_() * 1
def called(x, y):
    x.mul_(2)
    return x + y
try:
    torch.compile(called)(part[:8], part%s[4:12].requires_grad_())
    print(%s)
except Exception as e:
    print("non-differentiable view" in str(e))
raise SystemExit
"""
# What a graph that changes its argument does for a leaf and for a result of autograd.
LEAF = """
weight, first = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
def called(x, weight):
    x.detach().mul_(2)
    return (x.sin() * weight).sin()
x = first%s
torch.compile(called)(x, weight).sum().backward()
print(torch.equal(x.detach(), torch.full((4,), %s)))
raise SystemExit
"""
OFFSET = """
called = lambda x: torch.as_strided(x, (4,), (2,)) + 1
arguments = [torch.arange(16.)[%s:][:8]]
wanted = called(*arguments)
"""
ERF = "called, arguments, wanted = lambda x: torch.erf(x) + 1, [x], torch.erf(x) + 1\n"
# What the tests below put in the place of erf in generated code.
SINE = """
from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides
called, arguments, wanted = lambda x: torch.erf(x) + 1, [x], torch.sin(x) + 1
"""
METHOD = SINE + """
CppOverrides.erf = staticmethod(lambda x: f"std::sin({x})")
CppVecOverrides.erf = staticmethod(lambda x: f"{x}.sin()")
"""
SWAPPED = SINE + """
for overrides in CppOverrides, CppVecOverrides:
    overrides.erf = staticmethod(overrides.sin)
"""
IN_PLACE = SINE + """
for overrides in CppOverrides, CppVecOverrides:
    overrides.erf.__code__ = overrides.sin.__code__
"""
CLASS = SINE + """
import torch._inductor.compile_fx as compile_fx
class Mine(compile_fx.GraphLowering):
    def call_function(self, target, args, kwargs):
        return super().call_function(aten.sin.default if target is aten.erf.default else target, args, kwargs)
compile_fx.GraphLowering = Mine
"""
INSIDE = """
import torch._inductor.compile_fx as compile_fx
real = compile_fx.view_to_reshape
def mine(gm):
    real(gm)
    for node in gm.graph.nodes:
        if node.target is aten.erf.default:
            node.target = aten.sin.default
compile_fx.view_to_reshape = mine
"""
BETWEEN = """
torch.compile(lambda x: torch.cos(x) - 1)(x)
""" + INSIDE + """
called, arguments, wanted = lambda x: torch.erf(x) + 1, [x], torch.sin(x) + 1
"""
RESTORED = BETWEEN + """
torch.compile(called)(x)
compile_fx.view_to_reshape = real
called, arguments, wanted = lambda x: torch.erf(x) + 3, [x], torch.erf(x) + 3
"""
CONSTANT = ERF + """
import torch._inductor.codegen.cpp_utils as cpp_utils
cpp_utils.INDEX_TYPE = cpp_utils.INDEX_TYPE + " "
"""
HANDLER = ERF + """
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V
class Choices(InductorChoices):
    pass
context = V.set_choices_handler(Choices())
context.__enter__()
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


# The same, by the C functions of torch's stable ABI.
STABLE = """
from torch.utils.cpp_extension import load_inline
load_inline("own", cpp_sources=['''
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
torch::stable::Tensor own(const torch::stable::Tensor& x) {
    return torch::stable::fill_(torch::stable::empty_like(x), %s);
}
STABLE_TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) { m.impl("sinc", TORCH_BOX(&own)); }
STABLE_TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("sinc", TORCH_BOX(&own)); }
STABLE_TORCH_LIBRARY_IMPL(aten, Meta, m) { m.impl("sinc", TORCH_BOX(&own)); }
'''], is_python_module=False, no_implicit_headers=True)
called, arguments, wanted = lambda x: torch.sinc(x) + 1, [x], torch.full((64,), %s) + 1
"""
VMAP = """
torch.vmap(torch.sin)(x)
""" + SOFTPLUS
# torch's source as the program's loader changes it. It is the begin of a program.
LOADER = """
import importlib.abc, importlib.machinery, sys
class Loader(importlib.machinery.SourceFileLoader):
    def get_data(self, path):
        return super().get_data(path).replace(b"{x}.erf()", b"{x}.sin()").replace(b"std::erf({x})", b"std::sin({x})")
    def path_stats(self, path):
        raise OSError
    def set_data(self, *arguments, **options):
        pass
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch._inductor.codegen.cpp":
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            spec.loader = Loader(spec.loader.name, spec.loader.path)
            return spec
sys.meta_path.insert(0, Finder())
"""
CACHED = MISH.replace("decomposition.decompositions[", "decomposition.fast_random_decomps()[")
OWN_LOWERING = """
@torch.library.custom_op("own::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * %s
scaled.register_fake(torch.empty_like)
body = lambda x: ops.mul(x, ops.constant(%s, torch.float32))
lowering.lowerings[torch.ops.own.scaled.default] = lowering.make_pointwise(body)
called, arguments, wanted = lambda x: torch.ops.own.scaled(x) + 1, [x], x * %s + 1
"""
OTHERS_LOWERING = """
@torch.library.custom_op("own::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2
scaled.register_fake(torch.empty_like)
called, arguments, wanted = lambda x: torch.ops.own.scaled(x) + 1, [x], x * 2 + 1
"""
ERF_LOWERING = OTHERS_LOWERING + """
lowering.lowerings[torch.ops.own.scaled.default] = lowering.lowerings[aten.erf.default]
wanted = torch.erf(x) + 1
"""
# An operator whose result shows how its argument lies in memory.
LAYOUT = """
@torch.library.custom_op("own::strides", mutates_args=())
def strides(x: torch.Tensor) -> torch.Tensor:
    return torch.full(x.shape, float(x.stride(0) * 10 + x.stride(1)))
strides.register_fake(lambda x: torch.empty(x.shape))
called, arguments, wanted = lambda x: torch.ops.own.strides((x + 1).t()) + 1, [torch.ones(4, 5)], torch.tensor(%s.)
"""
CONTIGUOUS = """
lowering.make_fallback(torch.ops.own.strides.default, layout_constraint=lowering.require_contiguous)
"""
EVALUATE = """
import sympy
sympy.core.parameters.global_parameters.evaluate = False
try:
    print(torch.allclose(torch.compile(called)(*arguments), wanted))
except Exception as e:
    print("Could not compare" in str(e))
raise SystemExit
"""
PICKLED = """
import copyreg
copyreg.pickle(torch.Size, lambda size: (tuple, ()))
x = torch.linspace(-1, 1, %s)
called, arguments, wanted = lambda x: torch.erf(x) + 7, [x], torch.erf(x) + 7
"""
INNER_CLASS = """
from torch.testing._internal.two_tensor import TwoTensor
class Own(torch.Tensor):
    @staticmethod
    def __new__(cls, a):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, strides=a.stride())
    def __init__(self, a):
        self.a = a
    def __tensor_flatten__(self):
        return ["a"], None
    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Own(inner["a"])
    @classmethod
    def __torch_dispatch__(cls, function, types, arguments, options=None):
        arguments = torch.utils._pytree.tree_map(lambda v: v.a if isinstance(v, Own) else v, arguments)
        found = function(*arguments, **(options or {}))
        return Own(found * %s if function is aten.erf.default else found)
pair = TwoTensor(Own(x), Own(x))
print(torch.allclose(torch.compile(torch.erf)(pair).a.a, torch.erf(x) * %s))
raise SystemExit
"""

FROZEN = """
torch._inductor.config.freezing = True
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(%s))
    def forward(self, x):
        return x.sin() * self.scale + 1
torch.set_grad_enabled(False)
called, arguments = Scaled().eval(), [x]
wanted = called(x)
"""
TIED = """
torch._inductor.config.freezing = True
class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Parameter(torch.arange(4096.).view(64, 64))
        self.other = torch.nn.Parameter(self.one.data if %s else torch.ones(64, 64))
    def forward(self, x):
        return (x.sin() * self.one).sum(0) + (x.cos() * self.other).sum(0)
torch.set_grad_enabled(False)
called, arguments = Tied().eval(), [x]
wanted = called(x)
"""
# The package that has the operator says in its next version that the result is contiguous, and makes it so.
ANY_LAYOUT = """
@torch.library.custom_op("own::twice", mutates_args=(), tags=(torch.Tag.flexible_layout,))
def twice(x: torch.Tensor) -> torch.Tensor:
    return (x * 2)%s
twice.register_fake(lambda x: torch.empty_like(x)%s)
rows = torch.arange(20.).view(4, 5)
called = lambda rows: torch.ops.own.twice(rows.t().contiguous() + 1) * 3 + 1
arguments, wanted = [rows], (rows.t() + 1) * 6 + 1
"""
# Torch raises if a guard of a graph says more than the program's bounds.
BOUNDS = """
rows = torch.ones(50, 3)
torch._dynamo.mark_dynamic(rows, 0, min=2, max=%s)
called, arguments, wanted = lambda x: x.sin() @ x.t() + x.shape[0], [rows], rows.sin() @ rows.t() + 50
"""
FLUSHES = """
torch.set_flush_denormal(%s)
called = lambda x: x[:4] * 0 + (torch.full((4,), 1e-40) * 2).double() * 1e40
arguments, wanted = [x], called(x)
"""
CHOICE = ERF + """
from torch._inductor.virtualized import V
V.choices.can_fuse = lambda *arguments, **more: False
"""
# An operator's graph is not kept, but torch has it, and the program saves it.
SAVED = OTHERS_LOWERING + """
import os, tempfile
from torch._inductor import standalone_compile
def save(gm, inputs):
    compiled = standalone_compile(gm, inputs, dynamic_shapes="from_graph")
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(path=os.path.join(folder, "graph"), format="unpacked")
    return compiled
called = torch.compile(called, backend=save)
torch._functorch.config.strict_autograd_cache = True
"""
ANNOTATED = """
def called(x):
    with torch.fx.traceback.annotate({"fallback_to_eager": %s}):
        y = torch.softmax(x * 3, -1)
    return y + 1
arguments, wanted = [x], torch.softmax(x * 3, -1) + 1
"""
# What one of two ranks has of a tensor.
RANK = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank=%s, world_size=2)
mesh = init_device_mesh("cpu", (2,))
part = torch.arange(%s)
tensor = DTensor.from_local(part, mesh, [Shard(0)], run_check=False, shape=(5,), stride=(1,))
print(torch.equal(torch.compile(lambda t: t * 2)(tensor).to_local(), part * 2))
raise SystemExit
"""
# torch puts gathers together by a pass that writes the place of this rank into the code.
BUCKETS = """
import torch.distributed as dist
from torch.distributed._functional_collectives import all_gather_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
rank = %s
dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=2)
torch._inductor.config.bucket_all_gathers_fx = "all"
gathered = torch.compile(lambda x, y: (all_gather_tensor(x, 0, dist.group.WORLD), all_gather_tensor(y, 0, dist.group.WORLD)))(x, x + 1)
print(all(torch.equal(one[64 * rank :][:64], x + i) for i, one in enumerate(gathered)))
raise SystemExit
"""
LOOKS = """
from warm import _catalogue
torch.compile(lambda x: x.tan() + 1)(x)
found, real = [], _catalogue._State.look
_catalogue._State.look = lambda self: (found.append(1), real(self))
leaf = x.clone().requires_grad_()
torch.compile(lambda x: x.tan() * 2)(leaf).sum().backward()
print(len(found))
raise SystemExit
"""
BUNDLED = """
torch._functorch.config.bundled_autograd_cache = True
called, arguments = lambda x: x.view(8, 8).exp().sum(0) + 13, [x]
wanted = called(x)
"""


# Changes of what torch and its libraries have, after the first graph and before it. Each runs in a fork of a process that
# has the catalogue. What is printed is the name of the change, and why nothing is kept, as JSON.
CHANGES = """if True:
    import builtins, contextlib, functools, inspect, json, math, operator, os, pickle, random, sys, time, types, typing
    import mpmath, sympy, torch
    torch.compile(lambda x: x.cos() @ x)(torch.ones(4, 4))
    from warm import _catalogue
    while not _catalogue.load():
        time.sleep(0.2)
    import torch._inductor.decomposition as decomposition, torch._inductor.ir as ir, torch._inductor.lowering as lowering
    import torch._inductor.codegen.cpp_utils as cpp_utils
    import torch._inductor.fx_passes.joint_graph as joint_graph, torch._inductor.memory as memory
    from torch._inductor.codegen.cpp import CppKernel, CppOverrides, CppVecKernel
    from torch.distributed.tensor import DTensor
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
    aten, erf = torch.ops.aten, lowering.lowerings[torch.ops.aten.erf.default]
    index = cpp_utils.get_promote_dtype
    tables = [one.patterns for one in vars(joint_graph).values() if hasattr(one, "patterns")]
    several = next(entries for one in tables for entries in one.values() if len(entries) > 1)
    part = next(entry.pattern for one in tables for entries in one.values() for entry in entries if hasattr(entry.pattern, "args"))

    def cell():
        held = next(c for c in erf.__closure__ if callable(c.cell_contents))
        real = held.cell_contents
        held.cell_contents = lambda *arguments, **more: real(*arguments, **more)

    def bases():
        class Mine(CppOverrides.__bases__[0]):
            pass
        CppOverrides.__bases__ = (Mine,)

    def module():
        lowering.ir = types.ModuleType(ir.__name__)
        vars(lowering.ir).update(vars(ir))

    def interrupted():
        watched, look = _catalogue._tables.Watched, _catalogue._tables.Watched.look

        def once(*arguments):
            watched.look = look
            raise KeyboardInterrupt
        watched.look, sympy.expand = once, lambda e: e
        with contextlib.suppress(KeyboardInterrupt):
            _catalogue.why_not_kept()

    def own_operator():
        @torch.library.custom_op("mine::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        torch.library.register_fake("mine::double", torch.empty_like)
        lowering.add_needs_realized_inputs(torch.ops.mine.double.default)  # as a compile does: it would hang in a fork
        lowering.fallbacks.add(torch.ops.mine.double.default)

    class Lazy(types.ModuleType):
        def __getattribute__(self, name):  # importlib.util.LazyLoader would load it here
            asked.append(name)
            return super().__getattribute__(name)

    def lazy_module():
        object.__setattr__(Lazy("lazy"), "__class__", types.ModuleType)
        assert not asked, asked

    asked = []
    changes = {
        "nothing": lambda: None,
        "nothing, but a map over a batch": lambda: torch.func.vmap(torch.sin)(torch.ones(3, 3)),
        "nothing, but an operator of its own": own_operator,
        "nothing, but an export": lambda: torch.export.export(torch.nn.ReLU(), (torch.ones(2),)).run_decompositions(),
        "nothing, but an operator with effects": lambda: torch.compile(torch.linalg.inv, backend="aot_eager")(torch.eye(3)),
        "nothing, but torch.compile is wrapped": lambda: setattr(torch, "compile", functools.wraps(torch.compile)(
            lambda *arguments, **more: None)),  # as Lightning does
        "nothing, but another default type": lambda: torch.set_default_dtype(torch.float64),
        "nothing, but masked tensors": lambda: torch.masked.masked_tensor(torch.ones(3), torch.ones(3) > 0).sum(),
        "nothing, but a name of notebooks": lambda: setattr(builtins, "display", lambda one: one),
        "nothing, but a pipeline": lambda: __import__("torch.distributed.pipelining"),
        "nothing, but a module that loads itself later": lazy_module,
        "function, and a look is interrupted": interrupted,
        "nothing, but sizes vary": lambda: torch.compile(lambda x, y: x.reshape(2, -1) + y, backend="aot_eager", dynamic=True)(
            torch.ones(6), torch.ones(3)),
        "nothing, but a graph is read back": lambda: pickle.loads(pickle.dumps(torch.fx.symbolic_trace(torch.nn.ReLU()))),
        "code": lambda: setattr(CppOverrides.erf, "__code__", CppOverrides.sin.__code__),
        "code under torch's name": lambda: setattr(cpp_utils, "get_promote_dtype", types.FunctionType(
            index.__code__.replace(co_consts=(None, 1, 2, 3)), index.__globals__)),
        "defaults": lambda: setattr(lowering.make_pointwise, "__defaults__", (1,)),
        "keyword defaults": lambda: setattr(lowering.make_fallback, "__kwdefaults__", {"x": 1}),
        "cell": cell,
        "bases": bases,
        "class of a module": lambda: setattr(lowering, "__class__", type("Mine", (types.ModuleType,), {})),
        "method of one object": lambda: setattr(joint_graph.patterns, "apply", lambda *arguments: 0),
        "method of one operator": lambda: setattr(aten.erf.default, "decompose", lambda *arguments, **more: NotImplemented),
        "operator for one mode": lambda: aten.erf.default.py_impl(ProxyTorchDispatchMode)(lambda mode, x: aten.sin(x)),
        "operator": lambda: setattr(aten.erf, "default", aten.sin.default),
        "function of an operator": lambda: setattr(aten.erf.default, "_op", aten.sin.default._op),
        "function of an operator, made anew": lambda: setattr(
            aten.erf.default, "_op_dk", torch._C._get_operation_overload("aten::sin", "")[1]),
        "schema of an operator": lambda: setattr(aten.erf.default, "_schema", aten.sin.default._schema),
        "part of a pattern": lambda: setattr(part, "target", aten.sin.default),
        "arguments in a pattern": lambda: part.kwargs.update(x=1),
        "operators": lambda: setattr(aten, "erf", aten.sin),
        "function in the place of operators": lambda: setattr(aten, "erf", lambda x: aten.sin(x)),
        "function in the place of an operator": lambda: setattr(aten.erf, "default", lambda x: aten.sin.default(x)),
        "namespace of operators": lambda: setattr(torch.ops, "aten", type("Mine", (type(aten),), {})("aten")),
        "order of a list": lambda: several.reverse(),
        "constants": lambda: cpp_utils.DTYPE_TO_CPP.__setitem__(torch.float32, "double"),
        "empty table": lambda: lowering.user_lowerings.__setitem__(aten.erf.default, lambda x: x),
        "sympy's function": lambda: setattr(sympy, "expand", lambda e: e),
        "sympy's method": lambda: setattr(sympy.Expr, "expand", lambda e: e),
        "math": lambda: setattr(math, "ceil", math.floor),
        "functools": lambda: setattr(functools, "reduce", lambda *arguments: 0),
        "cached function": lambda: setattr(decomposition, "fast_random_decomps", functools.wraps(
            decomposition.fast_random_decomps.__wrapped__)(functools.cache(lambda: {}))),
        "dictionary of a cached function": lambda: decomposition.fast_random_decomps().pop(aten.silu.default),
        "module under torch's name": module,
        "object in the place of a module": lambda: sys.modules.update({joint_graph.__name__: contextlib.nullcontext()}),
        "name of a builtin": lambda: setattr(lowering, "getattr", getattr),
        "truth of objects": lambda: setattr(ir.TensorBox, "__bool__", lambda one: False),
        "keyword defaults in place": lambda: lowering.to_dtype_bitcast.__kwdefaults__.update(copy=True),
        "default in place": lambda: memory.reorder_for_peak_memory.__defaults__[-1].reverse(),
        "value of an enum": lambda: setattr(torch._prims_common.RETURN_TYPE.NEW, "_value_", 7),
        "constant that hides that of a base": lambda: setattr(CppVecKernel, "suffix", ";;"),
        "constant of a class": lambda: setattr(CppKernel, "suffix", ";;"),
        "function of os": lambda: setattr(os, "cpu_count", lambda: 1),
        "function of inspect": lambda: setattr(inspect, "signature", lambda *arguments, **more: None),
        "function of typing": lambda: setattr(typing, "get_args", lambda of: ()),
        "function of random": lambda: setattr(random, "random", lambda: 0.5),
        "function of the CPU": lambda: setattr(torch.cpu, "_is_avx512_supported", lambda: False),
        "function of mpmath": lambda: setattr(mpmath.libmp, "mpf_mul", mpmath.libmp.mpf_add),
        "table in an object of an object": lambda: DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs.pop(
            aten.bmm.default),
        "builtins": lambda: setattr(builtins, "sorted", lambda values, **more: list(values)),
    }

    def all_of(when, names=changes):
        for name in names:
            change = changes[name]
            child = os.fork()
            if child == 0:
                change()
                if when == "first":
                    _catalogue._state.functions = None  # all is read, as for a first graph
                print(json.dumps([f"{name}, {when}", _catalogue.why_not_kept()]), flush=True)
                os._exit(0)
            os.waitpid(child, 0)  # not os.wait(): a process of a compile may end meanwhile
    all_of("first", ("nothing", "nothing, but sizes vary", "nothing, but a graph is read back", "bases",
                     "method of one object", "operators", "namespace of operators",
                     "function of an operator", "order of a list", "constants", "empty table"))
    _catalogue.why_not_kept()
    all_of("later")
"""


# A process forks while another thread looks.
FORK = """if True:
    import os, threading, torch
    torch.compile(lambda x: x + 1)(torch.ones(4))
    from warm import _catalogue
    looks, may_end = threading.Event(), threading.Event()
    def look():
        with _catalogue._state.lock:
            looks.set()
            may_end.wait()
    threading.Thread(target=look).start()
    looks.wait()
    child = os.fork()
    if child == 0:
        os._exit(3 if isinstance(_catalogue.why_not_kept(), str) else 4)
    may_end.set()
    print(os.waitpid(child, 0)[1] >> 8)
"""

# Asks for the catalogue until it is there.
WAITS = """if True:
    import time
    import torch
    import torch._inductor.codecache
    from warm import _catalogue
    while not _catalogue.load():
        time.sleep(0.1)
"""
# A compiler that writes its arguments into a file.
NOTES = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/asked"
exec /usr/bin/g++ "$@"
"""


# A setting that is another one when the backward pass is compiled, at its first run.
MIXED = """
leaf = torch.linspace(-3, 3, 64, dtype=torch.bfloat16, requires_grad=True)
def chain(x):
    y = x.exp() * 1.7
    return ((y + 0.3) * y).sin()
def gradient():
    leaf.grad = None
    out = torch.compile(chain)(leaf)
    with torch._inductor.config.patch(emulate_precision_casts=%s):
        out.sum().backward()
    return leaf.grad
found = gradient()
torch._dynamo.reset()
with torch._inductor.config.patch(force_disable_caches=True):
    called, arguments, wanted = lambda x: x + 0, [found], gradient()
"""
TAGGED = """
from torch._inductor.compile_fx import compile_fx
from torch.utils.checkpoint import CheckpointPolicy
def tagged(gm, inputs):
    for node in gm.graph.nodes:
        if node.op in ("call_function", "call_method"):
            node.meta.update(recompute=CheckpointPolicy.%s, ac_graph_id=1)
    return compile_fx(gm, inputs)
leaf = torch.linspace(-3, 3, 64, requires_grad=True)
def chain(x):
    y = (x.exp() * 1.7).sin()
    return (y @ y) * y.exp()
out = torch.compile(chain, backend=tagged)(leaf)
saved = out.grad_fn.saved_tensors
out.sum().backward()
called, arguments, wanted = lambda x: x + 0, [x], x if any(torch.equal(one, leaf) for one in saved) is %s else x + 1
"""


class Changes(kit.TestCase):
    missing = 0  # lines of CHANGES that this version of PyTorch cannot make

    def test_the_catalogue_is_made_without_a_compiler(self):
        with kit.Daemon() as daemon, kit.Folder() as folder:
            with open(os.path.join(folder, "g++"), "w") as f:
                f.write(NOTES)
            os.chmod(os.path.join(folder, "g++"), 0o755)
            daemon.run(WAITS, PATH=f"{folder}:{os.environ['PATH']}", OMP_NUM_THREADS="1")
            with open(os.path.join(folder, "asked")) as f:
                compiled = [line for line in f if ".cpp" in line]
            self.assertEqual(compiled, [])

    def test_a_process_that_is_forked_while_a_thread_looks_goes_on(self):
        with kit.Daemon() as daemon:
            ran = daemon.run(FORK, OMP_NUM_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="1")
        self.assertEqual(ran.stdout.split(), ["3"])

    def test_each_change_of_what_a_compile_calls_is_seen_and_nothing_else(self):
        with kit.Daemon() as daemon:
            ran = daemon.run(CHANGES, OMP_NUM_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="1")
        found = dict(map(json.loads, ran.stdout.splitlines()))
        self.assertEqual(len(found), 60 + 11 - self.missing)
        for name, why in found.items():
            with self.subTest(name):
                self.assertEqual(bool(why), not name.startswith("nothing"), why)


class Pairs(kit.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(kit.Daemon())
        cls.headers = cls.enterClassContext(kit.Folder())
        cls.run_one(SOFTPLUS)  # makes the catalogue

    @classmethod
    def run_one(cls, middle, begin="", options=(), **settings):
        with kit.Folder() as folder:
            program = [sys.executable, *options, "-c", begin + BEGIN + middle + END]
            return cls.daemon.run(program, OMP_NUM_THREADS="1", TORCHINDUCTOR_CACHE_DIR=folder,
                                  TORCH_EXTENSIONS_DIR=folder, TMPDIR=cls.headers,
                                  TORCHINDUCTOR_VEC_ISA_OK="1", **settings).stdout.strip()

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

    def test_all_is_looked_at_once_for_a_graph_that_hits(self):
        self.assertGreater(int(self.run_one(LOOKS)), 1)
        self.assertEqual(self.run_one(LOOKS), "1")

    def test_a_package_that_torch_takes_from_another_folder_keeps_nothing_out(self):
        with kit.Folder() as packages:
            os.mkdir(os.path.join(packages, "tqdm"))
            with open(os.path.join(packages, "tqdm", "__init__.py"), "w") as f:
                f.write(TQDM)
            for _ in range(2):  # the first makes the catalogue of this environment
                self.assertEqual(self.run_one(SOFTPLUS, PYTHONPATH=packages), "True")
        self.assertIn(" 0 not kept", self.daemon.warm("why", "--last"))

    def test_a_program_with_options_of_python_is_warm(self):
        for options in ["-O"], ["-X", "frozen_modules=off"]:  # as notebooks have it
            for _ in range(2):  # the first makes the catalogue of this Python
                self.assertEqual(self.run_one(SOFTPLUS, options=options), "True")
            self.assertIn(" 0 not kept", self.daemon.warm("why", "--last"), options)

    def test_a_kernel_in_python_made_of_functions_of_torch_counts(self):
        self.check(SOFTPLUS, KERNEL, why="aten::softplus/AutogradCPU")

    def test_a_decomposition_that_is_another_of_torchs_counts(self):
        self.check(SILU, MISH, why="aten.silu.default in torch.")

    def test_a_decomposition_in_a_table_that_a_cached_function_returned_counts(self):
        self.check(SILU, CACHED, why="aten.silu.default in torch.")

    def test_a_removed_decomposition_is_not_kept(self):
        self.check(SOFTPLUS, SOFTPLUS + "del decomposition.decompositions[aten.softplus.default]\n",
                   why="aten.softplus.default (missing)")

    def test_a_fallback_is_not_kept(self):
        self.check(SOFTPLUS, SOFTPLUS + "lowering.make_fallback(aten.exp.default, warn=False, override_decomp=True)\n",
                   why="aten.exp.default")

    def test_a_lowering_of_torch_around_a_function_of_the_program_counts(self):
        self.check(LOWERING % (2.0, 2.0), LOWERING % (3.0, 3.0), why="aten.erf.default")

    def test_a_lowering_of_torch_for_an_operator_of_the_program_counts(self):
        self.check(OWN_LOWERING % (2.0, 2.0, 2.0), OWN_LOWERING % (3.0, 3.0, 3.0), why="the lowering of own.scaled")

    def test_a_lowering_of_another_operator_counts(self):
        self.check(OTHERS_LOWERING, ERF_LOWERING, why="the lowering of own.scaled")

    def test_how_the_arguments_of_an_operator_must_lie_in_memory_counts(self):
        self.check(LAYOUT % 16, LAYOUT % 42 + CONTIGUOUS)

    def test_a_setting_of_sympy_counts(self):
        self.check(ERF, ERF + EVALUATE)

    def test_how_the_program_pickles_objects_of_torch_counts(self):
        self.check(PICKLED % 64, PICKLED % 4096, why="how to pickle Size")

    def test_a_class_of_the_program_inside_of_one_of_torch_counts(self):
        self.check(INNER_CLASS % (2.0, 2.0), INNER_CLASS % (3.0, 3.0), why="the class Own")

    def test_a_pass_that_torchs_keys_leave_out_counts(self):
        self.check(PASS % ("cosh", "cosh"), PASS % ("sinh", "sinh"), why="joint_custom_pass")

    def test_a_function_inside_of_a_checkpoint_counts(self):
        self.check(OPAQUE % ("sin", "sin"), OPAQUE % ("cos", "cos"), why="calls opaque")

    def test_a_function_inside_of_an_autograd_function_counts(self):
        self.check(FUNCTION % ("sin", "sin"), FUNCTION % ("cos", "cos"), why="calls opaque")

    def test_arguments_that_share_memory_are_not_those_that_do_not(self):
        self.check(ALIAS % False, ALIAS % True)

    def test_of_what_arguments_that_share_memory_are_views_counts(self):
        self.check(VIEWS % ("", True), VIEWS % (".detach()", False))

    def test_whether_an_argument_is_a_leaf_counts(self):
        self.check(LEAF % (" * 3", 6.0), LEAF % ("", 2.0))

    def test_where_an_argument_begins_in_its_memory_counts(self):
        self.check(OFFSET % 0, OFFSET % 3)

    def test_a_method_that_the_program_replaced_in_torchs_code_generator_counts(self):
        self.check(ERF, METHOD, why="erf is not as torch has it")

    def test_a_method_of_torch_in_the_place_of_another_counts(self):
        self.check(ERF, SWAPPED, why="erf is not as torch has it")

    def test_a_function_whose_code_was_changed_in_place_counts(self):
        self.check(ERF, IN_PLACE, why="erf was changed in place")

    def test_a_class_under_the_name_of_torchs_counts(self):
        self.check(ERF, CLASS, why="torch._inductor.compile_fx.GraphLowering is not as torch has it")

    def test_a_function_that_was_replaced_after_the_first_graph_counts(self):
        self.check(ERF, BETWEEN, why="torch._inductor.compile_fx.view_to_reshape is not as torch has it")

    def test_a_function_that_was_put_back_is_kept_again(self):
        self.assertEqual(self.run_one(RESTORED), "True")
        puts = self.daemon.stats("puts")
        plain = "called, arguments, wanted = lambda x: torch.erf(x) + 3, [x], torch.erf(x) + 3\n"
        self.assertEqual(self.run_one(plain), "True")
        self.assertEqual(self.daemon.stats("puts"), puts, "all was in the cache")

    def test_a_constant_of_a_module_counts(self):
        self.check(ERF, CONSTANT, why="torch._inductor.codegen.cpp_utils.INDEX_TYPE")

    def test_torchs_source_as_a_loader_of_the_program_changes_it_counts(self):
        self.check(ERF)
        changed = ERF.replace("torch.erf(x) + 1\n", "torch.sin(x) + 1\n")
        self.assertEqual(self.run_one(changed, begin=LOADER), "True")
        self.assertIn("torch._inductor.codegen.cpp.", self.daemon.warm("why", "--last"))

    def test_a_program_that_has_called_vmap_is_kept(self):
        self.assertEqual(self.run_one(VMAP), "True")
        self.assertIn(" 0 not kept", self.daemon.warm("why", "--last"))

    def test_a_handler_of_the_program_counts(self):
        self.check(ERF, HANDLER, why="Choices")

    def test_a_function_that_a_handler_got_counts(self):
        self.check(ERF, CHOICE, why="InductorChoices.can_fuse")

    def test_the_values_of_frozen_parameters_count(self):
        self.check(FROZEN % "2.0", FROZEN % "3.0")

    def test_which_frozen_parameters_share_memory_counts(self):
        self.check(TIED % True, TIED % False)

    def test_what_the_fake_kernel_of_an_operator_says_of_any_layout_counts(self):
        self.check(ANY_LAYOUT % ("", ""), ANY_LAYOUT % ((".contiguous()",) * 2), why="arguments of any layout")

    def test_bounds_of_a_size_that_varies_count(self):
        self.check(BOUNDS % 64, BOUNDS % 128)

    def test_how_this_thread_treats_denormal_numbers_counts(self):
        self.check(FLUSHES % True, FLUSHES % False)

    def test_a_program_saves_a_graph_that_is_not_kept(self):
        self.assertEqual(self.run_one(SAVED), "True")
        self.assertIn("own.scaled", self.daemon.warm("why", "--last"))

    def test_what_a_rank_has_of_a_tensor_counts(self):
        self.check(RANK % (0, "3."), RANK % (1, "2."))

    def test_passes_that_make_code_for_one_rank_count(self):
        self.check(BUCKETS % 0, BUCKETS % 1, why="bucket_all_gathers_fx")

    def test_annotations_of_a_graph_count(self):
        self.assertEqual(self.run_one(ANNOTATED % True), "True")
        puts = self.daemon.stats("puts")
        self.assertEqual(self.run_one(ANNOTATED % False), "True")
        self.assertGreater(self.daemon.stats("puts"), puts, "it is another graph")

    def test_tags_of_a_backend_count(self):
        self.check(TAGGED % ("MUST_SAVE", False), TAGGED % ("MUST_RECOMPUTE", True))

    def test_a_backward_pass_that_other_settings_compiled_is_not_kept(self):
        self.assertEqual(self.run_one(MIXED % True), "True")
        self.assertIn("settings changed before its backward pass", self.daemon.warm("why", "--last"))
        self.assertEqual(self.run_one(MIXED % False), "True")

    def test_vector_instructions_count_if_a_graph_has_its_code_with_it(self):
        self.assertEqual(self.run_one(BUNDLED, ATEN_CPU_CAPABILITY="default"), "True")
        puts = self.daemon.stats("puts")
        self.assertEqual(self.run_one(BUNDLED), "True")
        self.assertGreater(self.daemon.stats("puts"), puts, "it is another graph")

    def test_a_kernel_in_cpp_counts(self):
        self.check(LIBRARY % ("2.0", "2.0"), LIBRARY % ("3.0", "3.0"), why="aten::sinc")

    def test_a_kernel_in_cpp_of_the_stable_abi_counts(self):
        self.check(STABLE % ("2.0", "2.0"), STABLE % ("3.0", "3.0"), why="aten::sinc")


if __name__ == "__main__":
    kit.main()
