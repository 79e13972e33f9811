# SPDX-License-Identifier: Apache-2.0
"""What a program adds to torch itself, and no key of a graph has. A graph of aten's operators does not show it.

    kernels     for torch's operators, in Python: AOTAutograd traces through them.
    lowerings   for torch's operators: Inductor inlines them.
    patterns    in Inductor's lists: they replace parts of each graph.
    compilers   a function around compile_fx_inner changes graphs behind AOTAutograd's key; so does a table of
                decompositions.
    settings    that choose operators while AOTAutograd traces. A change of them becomes a part of the key.

With one of the first four no graph is kept that it could change. Any thread.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any, Iterator

from warm._operators import _TORCH, _is_foreign

_LISTS = "torch._inductor.fx_passes."  # modules that have lists of patterns
_SDP = ("flash", "mem_efficient", "math", "cudnn", "overrideable")  # kernels of scaled_dot_product_attention

_kernels: dict[str, str] = {}  # operators with kernels of the program: by "namespace/name/key", as torch names them
_checked: dict[int, Any] = {}  # lowerings and patterns of torch by id; it keeps them, so that an id stays theirs
_variables: dict[str, tuple[int, list[Any]]] = {}  # of Inductor's modules: how many there are, and the lists of these
_counts: dict[int, tuple[Any, int]] = {}  # lists of patterns of torch alone, by id, with the number of patterns
_order: list[int] = []  # of the kernels of scaled_dot_product_attention, as torch sets it
_py_kernels: list[str] = []  # the same for py_impl, which nothing undoes


def is_of_torch(function: Any) -> bool:
    """Returns True if a function, and each that it wraps, is torch's."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
            continue
        space = getattr(function, "__globals__", None)
        name = space.get("__name__") if space else getattr(function, "__module__", None)
        if str(name or "torch").partition(".")[0] not in ("torch", "functools", "_operator", "contextlib"):
            return False
        if not hasattr(function, "__wrapped__"):
            return True
        function = function.__wrapped__


# ---- kernels ----


def watch_kernels(module: ModuleType) -> None:
    """Hooks torch.library.Library.impl: notes kernels of others for torch's operators."""
    real = module.Library.impl

    @functools.wraps(real)
    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: Any = "", **options: Any) -> Any:
        if self.ns not in _TORCH or not _is_kernel_of_others(self.ns, fn):
            return real(self, op_name, fn, dispatch_key, **options)
        before = set(self._op_impls)
        found = real(self, op_name, fn, dispatch_key, **options)
        name = str(op_name).rpartition("::")[2]
        for one in set(self._op_impls) - before or {f"{self.ns}/{name}/{dispatch_key or self.dispatch_key}"}:
            _kernels[one] = f"{self.ns}::{name}"
        return found

    module.Library.impl = impl
    _order[:] = _sdp_order(module.torch)


def _is_kernel_of_others(namespace: str, function: Any) -> bool:
    if not is_of_torch(function):
        return True
    space = getattr(function, "__globals__", None) or {}
    return namespace == "aten" and str(space.get("__name__")).startswith("torch._library.")  # it wraps one of others


def watch_py_kernels(module: ModuleType) -> None:
    """Hooks py_impl of torch's operators: notes kernels of others."""
    real = module.OpOverload.py_impl

    @functools.wraps(real)
    def py_impl(self: Any, key: Any) -> Any:
        register = real(self, key)

        def inner(function: Any) -> Any:
            found = register(function)
            if not _is_foreign(self) and not is_of_torch(function):
                _py_kernels.append(str(self))
            return found

        return inner

    module.OpOverload.py_impl = py_impl


def _kernel() -> str:
    """Returns an operator of torch with a kernel of the program, or ""."""
    if _py_kernels:
        return _py_kernels[0]
    if _kernels:
        there = sys.modules["torch.library"]._impls
        for key, name in list(_kernels.items()):
            if key in there:
                return name
    registry: Any = sys.modules.get("torch._library.simple_registry")
    for entry in list(registry.singleton._data.values()) if registry else ():
        name = str(entry.qualname)
        if name.partition("::")[0] in _TORCH:
            for kernel in entry.fake_impl.kernels:
                if not is_of_torch(kernel.func):
                    return name
    return ""


# ---- lowerings and patterns ----


def _lowering() -> str:
    """Returns an operator of torch with a lowering of the program, or ""."""
    module = sys.modules.get("torch._inductor.lowering")
    for table in ("lowerings", "user_lowerings"):
        for target, function in list(getattr(module, table, {}).items()):
            if id(function) in _checked:
                continue
            if type(target).__name__ == "OpOverload" and not is_of_torch(function) and not _is_foreign(target):
                return str(target)
            if is_of_torch(function):
                _checked[id(function)] = function
    return ""


def _entries(value: Any, depth: int = 0) -> Iterator[Any]:
    """Returns the entries of a list of patterns, or of a collection of lists."""
    patterns = getattr(value, "patterns", None) if type(value).__name__ == "PatternMatcherPass" else value
    if hasattr(patterns, "extra_check"):
        yield patterns
    elif isinstance(patterns, (dict, list, tuple)) and depth < 4:
        for one in list(patterns.values()) if isinstance(patterns, dict) else patterns:
            yield from _entries(one, depth + 1)


def _count(value: Any, depth: int = 0) -> int:
    """Returns how many entries a list of patterns has, or a collection of lists. It is called for each graph."""
    patterns = getattr(value, "patterns", None) if type(value).__name__ == "PatternMatcherPass" else value
    if patterns is not value and isinstance(patterns, dict):
        return sum(map(len, patterns.values()))
    if isinstance(patterns, (dict, list, tuple)) and depth < 4:
        return sum(_count(one, depth + 1) for one in (patterns.values() if isinstance(patterns, dict) else patterns))
    return 1


def _functions(entry: Any) -> Iterator[Any]:
    """Returns the functions of a pattern: its own, and those that register_replacement enclosed."""
    for function in (getattr(entry, "handler", None), entry.extra_check, getattr(entry, "normalize_args", None)):
        if callable(function):
            yield function
        for cell in getattr(function, "__closure__", None) or ():
            try:
                inner = cell.cell_contents
            except ValueError:  # it is empty
                continue
            if callable(inner) and (hasattr(inner, "__code__") or isinstance(inner, functools.partial)):
                yield inner


def _lists() -> Iterator[Any]:
    """Returns the variables of Inductor's modules that may be lists of patterns."""
    lowerings = getattr(sys.modules.get("torch._inductor.lowering"), "lowerings", None)  # long, and checked by itself
    for name in [name for name in list(sys.modules) if name.startswith(_LISTS)]:
        names = vars(sys.modules[name])
        known = _variables.get(name)
        if known is None or known[0] != len(names):
            kinds = ("PatternMatcherPass", "dict", "list", "defaultdict")
            found = {n: v for n, v in list(names.items()) if type(v).__name__ in kinds and not n.startswith("__")}
            known = _variables[name] = len(names), [v for v in found.values() if v is not lowerings]
        yield from known[1]


def _pattern() -> str:
    """Returns the name of a function of the program in Inductor's lists of patterns, or ""."""
    for value in _lists():
        n = _count(value)
        known = _counts.get(id(value))
        if known is not None and known[1] == n:
            continue
        for entry in _entries(value):
            if id(entry) in _checked:
                continue
            for function in _functions(entry):
                if not is_of_torch(function):
                    return getattr(function, "__qualname__", "") or repr(function)
            _checked[id(entry)] = entry
        _counts[id(value)] = value, n
    return ""


def why_not_kept() -> str:
    """Returns why neither AOTAutograd nor Inductor must keep a graph, or ""."""
    for what, name in (("kernel for", _kernel()), ("lowering for", _lowering()), ("pattern", _pattern())):
        if name:
            return f"the program gave torch its own {what} {name}: no key has its code"
    return ""


# ---- compilers and settings ----


def _inner() -> Any:
    """Returns the inner_compile of the compile_fx that this thread is in, or None. AOTConfig has it only later."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch._inductor.compile_fx" and "inner_compile" in frame.f_locals:
            return frame.f_locals["inner_compile"]
        frame = frame.f_back  # type: ignore[assignment]
    return None


def why_not_of_config(config: Any) -> str:
    """Returns why AOTAutograd must not keep a graph with this AOTConfig, or ""."""
    inner = _inner()
    if inner is not None and not is_of_torch(inner):
        return "the program gave compile_fx its own inner_compile: no key has its code"
    for target, function in (getattr(config, "decompositions", None) or {}).items():
        if not _is_foreign(target) and not is_of_torch(function):
            return f"the decomposition of {target} is not torch's: no key has its code"
    return ""


def _sdp_order(torch: Any) -> list[int]:
    return list(getattr(torch._C, "_get_sdp_priority_order", list)())


def settings() -> str:
    """Returns the settings that choose operators while AOTAutograd traces, and that are not as torch sets them."""
    torch = sys.modules["torch"]
    found = [f"sdp {n}" for n in _SDP if not getattr(torch._C, f"_get_{n}_sdp_enabled", lambda: True)()]
    order = _sdp_order(torch)
    if order != _order:
        found.append(f"sdp order {order}")
    found += [f"{n} off" for n in ("mkldnn", "cudnn") if not getattr(torch._C, f"_get_{n}_enabled", lambda: True)()]
    return ", ".join(found)
