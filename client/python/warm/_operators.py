# SPDX-License-Identifier: Apache-2.0
"""Operators that a program adds to torch. A graph names them, but torch's keys have nothing of what they do.

    traced     AOTAutograd goes through a composite operator, through the derivative and the fake kernel of any
               operator, and through __torch_dispatch__ of subclasses of Tensor. So it keeps no graph with operators
               or subclasses of others.
    described  Inductor calls an operator as it is. What it knows of it is its schema, its tags, and what its
               fake kernel returned. These become a part of the key.
    lowered    Inductor inlines the program's own lowering of an operator. Such a graph is not kept.

Any thread; no state.
"""

from __future__ import annotations

import sys
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


def _is_of_torch(function: Any) -> bool:
    name = getattr(function, "__module__", None) or "torch"
    return name == "torch" or name.startswith(("torch.", "functools", "_operator"))


def _foreign_class(gm: Any) -> str:
    """Returns the name of a subclass of Tensor that is not torch's and whose values a graph has, or ""."""
    for module in gm.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if graph is not None else ():
            value = node.meta.get("example_value")
            for one in value if isinstance(value, (list, tuple)) else (value,):
                if hasattr(one, "__tensor_flatten__") and not _is_of_torch(type(one)):
                    return type(one).__qualname__
    return ""


def why_not_traced(gm: Any) -> str:
    """Returns why AOTAutograd must not keep a graph, or ""."""
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
    for _, target in _calls(gm):
        if not _is_of_torch(lowerings.get(target)):
            return f"the lowering of {target} is not torch's: no key has its code"
    return ""


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
        lines.append(f"{target._schema} {sorted(map(str, target.tags))} {_value(node.meta['val'])}")
    return "\n".join(lines)
