# SPDX-License-Identifier: Apache-2.0
"""What torch's dispatcher was told after torch's own import.

    from Python    every kernel passes a method of torch._C._DispatchModule. The hooks below note each kernel for an
                   operator of torch, and each fallback, in _sources.kernels, until its library ends.
    from C++       a library that registers has the constructor of torch::Library or of c10::RegisterOperators, or the
                   functions of torch's stable ABI for that, among its symbols. If such a library is loaded, beside torch's
                   own, the dumps of torch's operators count.

Any thread.
"""

from __future__ import annotations

import ctypes
import os
import re
from types import ModuleType
from typing import Any

from warm import _sources, _values
from warm._operators import _TORCH

# In names of symbols. The last two are C functions, of libraries that know no class of torch.
_SIGNS = (b"5torch7Library", b"17RegisterOperators", b"10Dispatcher", b"torch_library_impl", b"torch_library_init")
_FROM_PYTHON = re.compile(r"\.py:\d+ ::")
_SAMPLES = ("aten::sin", "aten::add.Tensor", "aten::_to_copy")  # the tables of these have all fallbacks

_spaces: dict[int, str] = {}  # namespaces of libraries, by id
_noted: dict[int, list[tuple[str, Any]]] = {}  # what each library registered, by id


# ---- from Python ----


def _note(library: Any, name: Any, key: Any, function: Any) -> None:
    space, _, rest = str(name).rpartition("::")
    space = space or _spaces.get(id(library), "")
    if space and space != "_" and space not in _TORCH:
        return
    one = f"{space}::{rest}/{key}"
    _sources.kernels.setdefault(one, []).append(function)
    _noted.setdefault(id(library), []).append((one, function))


def _forget(library: Any) -> None:
    for one, function in _noted.pop(id(library), ()):
        there = _sources.kernels.get(one, [])
        there[:] = [f for f in there if f is not function]
        if not there:
            _sources.kernels.pop(one, None)


def _bind(name: str, found: Any) -> None:
    for function in found or () if name.partition("::")[0] in _TORCH else ():
        if callable(function):
            _sources.bound[id(function)] = function, name


def _watch_operators(torch: Any) -> None:
    """Notes which functions belong to which operator: those that are there, and what the dispatcher gives from now on."""

    def hooked(real: Any) -> Any:
        def get(name: str, *overload: str) -> Any:
            found = real(name, *overload)
            _bind(".".join(filter(None, (name, *overload))), found)
            return found

        return get

    for name in ("_get_operation_overload", "_jit_get_operation"):
        setattr(torch._C, name, hooked(getattr(torch._C, name)))
    for name, operator in _sources.all_operators():
        space, _, rest = name.partition(".")
        held, name = vars(operator), f"{space}::{rest}".removesuffix(".default")
        _bind(name, (held["_op"], held.get("_op_dk")))


def watch(module: ModuleType) -> None:
    """Hooks the dispatcher's modules. `module` is torch.library."""
    _watch_operators(module.torch)
    core: Any = module.torch._C
    make, kind = core._dispatch_library, core._DispatchModule

    def _dispatch_library(what: Any, space: Any, *arguments: Any) -> Any:
        library = make(what, space, *arguments)
        _spaces[id(library)] = str(space)
        return library

    def hooked(real: Any, note: Any) -> Any:
        def method(self: Any, *arguments: Any, **options: Any) -> Any:
            found = real(self, *arguments, **options)
            try:
                note(self, arguments)
            except Exception:
                _sources.kernels["?"] = [object()]  # nothing that a catalogue has
            return found

        return method

    kind.impl = hooked(kind.impl, lambda m, a: _note(m, a[0], a[1], a[2]))
    kind.fallback = hooked(kind.fallback, lambda m, a: _note(m, "_::", a[0], a[1]))
    for name in ("impl_t_t", "impl_with_aoti_compile", "fallback_fallthrough", "register_ad_inplace_or_view_fallback"):
        if hasattr(kind, name):
            setattr(kind, name, hooked(getattr(kind, name), lambda m, a, n=name: _note(m, a[0] if a else "", n, n)))
    kind.reset = hooked(kind.reset, lambda m, a: _forget(m))
    core._dispatch_library = _dispatch_library


# ---- from C++ ----


def additions() -> int:
    """Returns how many libraries this process has loaded so far."""
    return int(_values.library().libraries_loaded())


def has_registering_library(torch_root: str) -> bool:
    """Returns True if a library that is not torch's registers operators or kernels."""
    own, signs = os.fsencode(os.path.join(torch_root, "torch", "")), (ctypes.c_char_p * len(_SIGNS))(*_SIGNS)
    found = _values.library().libraries_register(own, signs, len(_SIGNS))
    if found < 0:
        raise MemoryError
    return found == 1


def dumps(torch_root: str) -> dict[str, str]:
    """Returns what C++ registered for torch's operators, as text by operator."""
    core: Any = __import__("torch")._C
    found = {}
    for name in core._dispatch_get_all_op_names():
        if name.partition("::")[0] in _TORCH:
            found[name] = _plain(core._dispatch_dump(name))
    for name in _SAMPLES:
        found[f"{name} table"] = _plain(core._dispatch_dump_table(name))
    return found


def _plain(dump: str) -> str:
    """Returns the lines of C++ of a dump. A kernel in Python makes one in C++ inactive, which its hook has seen."""
    lines = [line.replace(" (inactive)", "") for line in dump.splitlines() if not _FROM_PYTHON.search(line)]
    return "\n".join(sorted(lines))
