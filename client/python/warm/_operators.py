# SPDX-License-Identifier: Apache-2.0
"""Operators that a program adds to torch. A graph names them, but torch's keys have nothing of what they do.

    traced     AOTAutograd goes through a composite operator, through the derivative and the fake kernel of any
               operator, and through __torch_dispatch__ of subclasses of Tensor. So it keeps no graph with operators
               or subclasses of others.
    opaque     A graph calls functions as they are, too: those of allow_in_graph, of fx.wrap, in modules. torch looks at
               these in the outermost graph alone. Here each graph inside of it counts: the bodies of checkpoint, cond,
               scan, autograd.Function, flex attention.
    described  Inductor calls an operator as it is. What it knows of it is its schema, its tags, what its fake kernel
               returned, and what its tables have of it. These become a part of the key.
    lowered    Inductor inlines another lowering of an operator. Such a graph is not kept.

Any thread; no state.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import hashlib
import inspect
import os
import sys
import types
from typing import Any, Iterator

_TORCH = frozenset(
    "aten prim prims inductor inductor_prims higher_order quantized quantized_decomposed _quantized sparse prepacked "
    "c10d c10d_functional _c10d_functional _c10d_functional_autograd _dtensor symm_mem fsdp rngprims debugprims "
    "profiler mkl mkldnn mkldnn_prepacked onednn quantization flex_lib streams export".split()
)  # namespaces


class Unknown(Exception):
    """Raised for an operator that no text describes."""


def _calls(gm: Any) -> Iterator[tuple[Any, Any]]:
    """Returns the calls of a graph and of its subgraphs: nodes with their operators. Some operators, for example
    auto_functionalized, have as argument the operator that they call."""
    for module in gm.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if graph is not None else ():
            if node.op == "call_function":
                yield node, node.target
                yield from ((node, v) for v in (*node.args, *node.kwargs.values()) if _is_foreign(v))


def _is_foreign(target: Any) -> bool:
    """Returns True for an operator that is not torch's."""
    if type(target).__name__ not in ("OpOverload", "OpOverloadPacket"):
        return False
    return str(target).partition(".")[0] not in _TORCH


_CODE = (types.FunctionType, functools.partial, types.MethodType)
_LIBRARIES = ("torch", "functools", "_operator", "operator", "math", "builtins", "contextlib", "numpy", "einops")


def _is_found(value: Any) -> bool:
    """Returns True if a function or a class is what its name finds in its module."""
    found: Any = sys.modules.get(str(getattr(value, "__module__", None)))
    for name in str(getattr(value, "__qualname__", "?")).split("."):
        found = getattr(found, name, None)
    return found is value


def is_of_torch(function: Any, around: tuple[Any, ...] = ()) -> bool:
    """Returns True if a function is torch's, with each that it wraps or encloses: if their code is in its files. `around`
    are the functions that enclose this one, which may call one of them."""
    if isinstance(function, functools.partial):
        return all(is_of_torch(one, around) for one in (function.func, *filter(callable, function.args)))
    if isinstance(function, types.MethodType):
        return is_of_torch(function.__func__, around) and is_of_torch(type(function.__self__))
    if isinstance(function, types.FunctionType):
        root = os.path.dirname(sys.modules["torch"].__file__ or "")
        if not function.__code__.co_filename.startswith(os.path.join(root, "")):
            return str(function.__module__).partition(".")[0] in _LIBRARIES[1:] and _is_found(function)
        around += (function,)
        cells = [c.cell_contents for c in function.__closure__ or () if c != types.CellType()]
        return all(is_of_torch(c, around) for c in cells if isinstance(c, _CODE) and not any(c is one for one in around))
    if isinstance(function, type):
        return str(function.__module__).partition(".")[0] in _LIBRARIES and _is_found(function)
    return str(getattr(function, "__module__", None) or "torch").partition(".")[0] in _LIBRARIES


def _is_of_torch(function: Any) -> bool:
    name = getattr(function, "__module__", None) or "torch"
    return name == "torch" or name.startswith(("torch.", "functools", "_operator"))


def _subclasses(gm: Any) -> Iterator[Any]:
    """Returns the values of subclasses of Tensor that a graph has, and those inside of them."""
    for module in gm.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if graph is not None else ():
            value = node.meta.get("example_value")
            todo = list(value) if isinstance(value, (list, tuple)) else [value]
            for one in todo:  # which grows
                if hasattr(one, "__tensor_flatten__"):
                    yield one
                    todo += [getattr(one, name) for name in one.__tensor_flatten__()[0]]


def _foreign_class(gm: Any) -> str:
    """Returns the name of a subclass of Tensor that is not torch's and whose values a graph has, or ""."""
    kinds = map(type, _subclasses(gm))
    return next((kind.__qualname__ for kind in kinds if not _is_of_torch(kind)), "")


def _opaque(gm: Any) -> str:
    """Returns the name of a function or module of the program that a graph, or one inside of it, calls; or ""."""
    for owner in gm.modules():
        graph = getattr(owner, "graph", None)
        for node in graph.nodes if graph is not None else ():
            promised = owner is gm and node.meta.get("is_wrapped") and node.meta.get("user_cache_hash")
            called = [v for v in (*node.args, *node.kwargs.values()) if isinstance(v, _CODE)]
            if node.op == "call_function" and not promised:
                called.append(node.target)
            if node.op == "call_module":
                called.append(type(owner.get_submodule(node.target)))
            for one in called:
                if not is_of_torch(one):
                    return str(getattr(one, "__qualname__", one))
    return ""


def why_not_traced(gm: Any) -> str:
    """Returns why AOTAutograd must not keep a graph, or ""."""
    name = _opaque(gm)
    if name:
        return f"the graph calls {name}, which is not torch's: no key has its code"
    name = _foreign_class(gm)
    if name:
        return f"the class {name} is not torch's: it is traced, and no key has its code"
    for _, target in _calls(gm):
        if _is_foreign(target):
            return f"the operator {target} is not torch's: it is traced, and no key has its code"
    return ""


def why_not_lowered(gm: Any) -> str:
    """Returns why Inductor must not keep a graph, or ""."""
    module = sys.modules.get("torch._inductor.lowering")
    lowerings = getattr(module, "lowerings", {})
    for _, target in _calls(gm):  # the tables of _sources.py have the lowerings of torch's operators
        found = lowerings.get(target)
        if not (_is_fallback(found, target) if found and _is_foreign(target) else _is_of_torch(found)):
            return f"the lowering of {target} is not torch's: no key has its code"
    return ""


def _is_fallback(lowering: Any, target: Any) -> bool:
    """Returns True if a lowering calls the operator, as the one that torch makes for an operator without a lowering."""
    enclosed = [c.cell_contents for c in getattr(inspect.unwrap(lowering), "__closure__", None) or ()]
    is_handler = getattr(lowering, "__qualname__", "") == "fallback_handler.<locals>.handler"
    return is_handler and is_of_torch(lowering) and any(one is target for one in enclosed)


def foreign(gm: Any) -> set[Any]:
    """Returns the operators of a graph that are not torch's."""
    return {target for _, target in _calls(gm) if _is_foreign(target)}


def _layout(target: Any) -> str:
    """Returns the name of the rule by which Inductor lays out the arguments of an operator. Raises Unknown."""
    lowering = sys.modules["torch._inductor.lowering"]
    rule = lowering._maybe_layout_constraints.get(target)
    if target not in lowering.lowerings:  # the same as if torch had decided it
        tag = sys.modules["torch._library.utils"].get_layout_constraint_tag(target, with_default=True)
        rule = lowering.tag_to_layout_constraint(tag) or rule
    if rule is None:  # its fake kernel is called again, with the arguments as Inductor has them
        raise Unknown(f"the operator {target} takes arguments of any layout: its fake kernel is in no key")
    if not is_of_torch(rule):
        raise Unknown(f"the layout of {target}")
    return str(getattr(rule, "__qualname__", ""))


def _memory(target: Any) -> str:
    """Returns the names of the arguments of an operator that must be in symmetric memory."""
    entry = sys.modules["torch._library.simple_registry"].singleton._data.get(target._schema.name)
    return str(sorted(getattr(getattr(entry, "symm_mem_args", None), "_symm_mem_args", None) or ()))


def _value(value: Any) -> str:
    """Returns what a kernel's fake result tells of the real one."""
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_value, value))})"
    if hasattr(value, "dtype") and hasattr(value, "stride"):
        parts = (value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.device, value.layout)
        return " ".join(map(str, parts))
    if value is None or isinstance(value, (bool, int, float, str)) or hasattr(value, "node"):
        return f"{type(value).__name__} {value}"
    raise Unknown(f"the result of an operator, {type(value).__name__}")


def described(gm: Any) -> str:
    """Returns what Inductor knows of a graph's foreign operators; "" if it has none. Raises Unknown."""
    lines = []
    for node, target in _calls(gm):
        if not _is_foreign(target):
            continue
        if "val" not in node.meta or not hasattr(target, "_schema"):
            raise Unknown(f"the operator {target}")
        known = f"{_value(node.meta['val'])} {_layout(target)} {_memory(target)}"
        lines.append(f"{target._schema} {sorted(map(str, target.tags))} {known}")
    return "\n".join(lines)


# ---- what else counts of a graph ----

_IN_KEYS = ("_checkpoint_context_fn",)  # torch keeps no graph with one that has no hash
_TAGS = ("recompute", "partitioner_tag")  # which part of the graph is in the forward and which in the backward pass


def _noted(value: Any) -> str:
    """Returns an annotation as text. Raises Unknown."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_noted(k)}: {_noted(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_noted, value))}]"
    if type(value) in (type(None), bool, int, float, str) or (isinstance(value, enum.Enum) and is_of_torch(type(value))):
        return repr(value)
    raise Unknown(f"an annotation of the graph, {type(value).__qualname__}, is in no key")


def annotations(gm: Any) -> str:
    """Returns what the program noted at the nodes of a graph, and at the bodies in it: torch.fx.traceback.annotate, tags of a
    backend, options of nested_compile_region, placements of local_map. torch's keys have nothing of it."""
    lines = []
    for name, module in gm.named_modules():
        for key, value in getattr(module, "meta", {}).items() if name else ():
            if key not in _IN_KEYS:
                lines.append(f"{name} {key}: {_noted(value)}")
        for i, node in enumerate(module.graph.nodes if hasattr(module, "graph") else ()):
            custom = {key: value for key, value in (node.meta.get("custom") or {}).items() if key != "call_id"}
            custom.update((key, node.meta[key]) for key in _TAGS if key in node.meta)
            if custom:
                lines.append(f"{name} {i} {_noted(custom)}")
    return "\n".join(lines)


def rank(gm: Any, values: Any) -> str:
    """Returns the rank of this process, its groups and its parts of the arguments, if a graph has DTensors: the code is for what one
    rank has of them, and asks groups by their names. torch's key has the mesh alone."""
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    if kind is None or not any(isinstance(one, kind) for one in (*values, *_subclasses(gm))):
        return ""
    world: Any = sys.modules["torch.distributed.distributed_c10d"]
    groups = {name: list(world.get_process_group_ranks(group)) for group, name in world._world.pg_names.items()}
    parts = [f"{place} {tuple(t.shape)} {t.stride()} {t.dtype}" for place, t in _tensors(values) if "." in place]
    return f"rank {world.get_rank()} {sorted(groups.items())} {parts}"


# ---- constants ----


def frozen(gm: Any) -> str:
    """Returns digests of the parameters that freezing made constants of a graph. torch's key has their shapes alone, but code has
    the value of a scalar, packed copies, and one constant for two names of the same memory."""
    digests: dict[int, str] = {}
    lines = []
    for name, one in sorted((*vars(gm).items(), *gm.named_buffers(recurse=False), *gm.named_parameters(recurse=False))):
        if not getattr(one, "_is_frozen_param", False):
            continue
        memory = one.untyped_storage()
        if memory._cdata not in digests:
            host = memory.cpu()
            digests[memory._cdata] = hashlib.sha256((ctypes.c_char * host.nbytes()).from_address(host.data_ptr())).hexdigest()
        lines.append(f"{name} at {one.storage_offset()} {digests[memory._cdata]}")
    return "\n".join(lines)


# ---- what the arguments are to each other ----


def bounds(shape_env: Any) -> str:
    """Returns the bounds that the program gave sizes which vary. A graph within other bounds has other guards, at which torch
    raises."""
    lines = []
    for one in getattr(shape_env, "tracked_fakes", None) or ():
        sizes = getattr(one.symbolic_context, "constraint_sizes", None) or ()
        ranges = [str(getattr(size, "vr", "")) for size in sizes]
        if any(ranges):
            lines.append(f"{tuple(one.fake.shape)} in {ranges}")
    return "\n".join(lines)


def _tensors(values: Any) -> Iterator[tuple[str, Any]]:
    """Returns the tensors among the arguments, and those in subclasses, with their places."""
    for i, value in enumerate(values):
        if hasattr(value, "__tensor_flatten__"):
            names, _ = value.__tensor_flatten__()
            yield from ((f"{i}.{place}", v) for place, v in _tensors([getattr(value, n) for n in names]))
        elif hasattr(value, "untyped_storage"):
            yield str(i), value


def relations(values: Any) -> str:
    """Returns which arguments share memory, how, and of what they are views; those that do not begin where their memory begins; and
    those that are results for autograd. torch's keys have none of it. "" for arguments apart from each other."""
    storages: dict[int, list[Any]] = {}
    for place, tensor in _tensors(values):
        try:
            offset = tensor.storage_offset()
            at = tensor.untyped_storage()._cdata
        except Exception:  # a layout without a storage
            continue
        storages.setdefault(at, []).append((place, offset, tensor))
    lines, bases = [], _Bases()
    results = [place for place, tensor in _tensors(values) if tensor.requires_grad and not tensor.is_leaf]
    if results:  # autograd lets a graph change these in place, but no leaf
        lines.append(f"no leaves: {results}")
    for group in storages.values():
        if len(group) > 1 or str(group[0][1]) != "0":
            texts = (f"{place} at {offset} of {tuple(t.shape)} {t.stride()} {t.dtype}" for place, offset, t in group)
            views = (bases.of(t) for _, _, t in group) if len(group) > 1 else ()
            lines.append(" with ".join((*texts, *views)))
    return "; ".join(lines)


class _Bases:
    """Numbers the tensors of which others are views for autograd: it tells these from others on the same memory."""

    def __init__(self) -> None:
        self._found: list[Any] = []

    def of(self, tensor: Any) -> str:
        base = None if tensor.is_inference() else tensor._base
        if base is None:
            return "itself"
        if not any(one is base for one in self._found):
            self._found.append(base)
        number = next(i for i, one in enumerate(self._found) if one is base)
        return f"view {number} of {tuple(base.shape)} {base.stride()}"
