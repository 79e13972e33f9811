# SPDX-License-Identifier: Apache-2.0
"""What jax.jit reads besides the traced function: the tables of rules in JAX's own modules.

    table                          how we see a change                what we do
    lowerings, of all platforms    all dictionaries of JAX's modules  in the key: each rule by module, name and line, with
    derivatives, transposes,       that have a primitive as a key,    its closure. A rule with code of the program: the
    batching, partial evaluation,  and dictionaries in them           function is jax.jit's
    discharge, remat, …
    handlers of types and values   the other dictionaries with        the same
                                   functions of those modules
    a primitive's own rules        its attributes                     the same
    functions of JAX's modules     the names of the modules, of       one that the program replaced by its own: the
    and of their classes           their classes, and of jaxlib's     function is jax.jit's. One in whose place there is
                                                                      another of JAX: in the key
    their defaults; constants      the functions; the same names      in the key

JAX registers rules lazily, so there is no single pristine state. A table counts as it is when a function is traced. Rules
for primitives and types of the program do not count: a function with such a primitive is jax.jit's anyway (_jaxpr.py).
Changes are seen by the identity of the values.

Any thread.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import marshal
import operator
import os
import sys
import threading
import types
import zlib
from typing import Any, Dict, Iterator, List, Tuple

from warm.jax._keys import Unknown

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
# All modules of JAX and jaxlib count, except those of _APART: they serve other platforms, files or people, or warm.jax.jit hands
# their functions to jax.jit.
_MODULES, _BUILDERS = ("jax._src.",), ("jaxlib.",)  # the second: builders of MLIR, under the names of any module
_APART = tuple(
    f"jax._src.{name}" for name in "export pallas tpu cudnn debugger clusters cloud_ internal_test_util test_ public_test_".split()
) + ("jaxlib.mosaic", "jaxlib.mlir._mlir_libs", "jaxlib._jax", "jaxlib.gpu_", "jaxlib.triton")  # fmt: skip
_OWN = frozenset(("jax", "jaxlib", "numpy", "ml_dtypes", "nanobind", "warm")) | frozenset(
    getattr(sys, "stdlib_module_names", ("builtins", "functools", "operator", "types", "typing", "enum"))
)  # packages whose types and compiled functions may be in JAX's rules
_OF_PRIMITIVES = ("abstract_eval", "bind_with_trace", "bind", "to_lojax", "is_high", "is_effectful")
_DICTIONARIES = (dict, collections.defaultdict, collections.OrderedDict)
_DEPTH_MAX = 16


@functools.lru_cache(maxsize=None)
def _folders() -> Tuple[str, ...]:
    import jax
    import jaxlib

    files = (jax.__file__, jaxlib.__file__, __file__)
    return tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in files)


@functools.lru_cache(maxsize=None)
def _is_own_file(file: str) -> bool:
    """True for a file of JAX, of Python or of warm."""
    of_python = file.startswith(os.path.dirname(os.__file__) + os.sep) and f"-packages{os.sep}" not in file
    return file.startswith(_folders()) or of_python or file.startswith("<frozen ")


def _is_own(function: types.FunctionType) -> bool:
    file = function.__code__.co_filename
    if _is_own_file(file):
        return True
    # Methods of dataclasses have no file, and code that Python's own compiler made for JAX may lack its folder.
    module = str(function.__globals__.get("__name__"))
    return not os.path.isabs(file) and module.partition(".")[0] in ("jax", "jaxlib")


def _modules(names: Tuple[str, ...] = _MODULES) -> List[types.ModuleType]:
    found = ((n, m) for n, m in list(sys.modules.items()) if n.startswith(names) and not n.startswith(_APART))
    return [m for _, m in found if isinstance(m, types.ModuleType)]


def _spaces() -> Iterator[Tuple[str, str, Any]]:
    """Returns the names of JAX's modules and their classes: the module, the class, and what its names refer to."""
    for module in _modules():
        where = module.__name__
        yield where, "", vars(module)
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == where:
                yield where, value.__qualname__, vars(value)
    for module in _modules(_BUILDERS):
        yield "", module.__name__, vars(module)


@functools.lru_cache(maxsize=None)
def _primitive_class() -> Any:
    from jax._src import core

    return core.Primitive


def _text(v: Any, depth: int = 0) -> str:
    """Returns a text of a rule, the same in each process. Raises Unknown for code of the program."""
    kind = type(v)
    if kind is types.FunctionType:
        return _function(v, depth)
    if kind in _SIMPLE:
        return repr(v)
    if kind is _primitive_class():
        return str(v.name)
    if depth > _DEPTH_MAX:
        return type(v).__name__
    if isinstance(v, functools.partial):
        return f"partial({_all((v.func, v.args, v.keywords), depth)})"
    if isinstance(v, types.MethodType):
        return f"method({_all((v.__func__, v.__self__), depth)})"
    if isinstance(v, (tuple, list)):
        return f"{type(v).__name__}({_all(v, depth)})"
    if isinstance(v, dict):
        return f"dict({_all([x for pair in v.items() for x in pair], depth)})"
    return _object(v, depth)


def _all(values: Any, depth: int) -> str:
    return ", ".join([_text(v, depth + 1) for v in values])


def _function(f: types.FunctionType, depth: int) -> str:
    if not _is_own(f):
        raise Unknown(f"{f.__module__}.{f.__qualname__}, a rule of the program for JAX's own primitives")
    code = f.__code__
    name = f"{f.__globals__.get('__name__')}.{code.co_name}:{code.co_firstlineno}"
    if code.co_name == "<lambda>":  # a line may have several
        constants = [c for c in code.co_consts if isinstance(c, _SIMPLE)]
        name += f" {zlib.crc32(code.co_code):x} {code.co_names}{constants}"
    if f.__closure__ is None and f.__defaults__ is None or depth > _DEPTH_MAX:
        return name
    cells = [_cell(c) for c in f.__closure__ or ()]
    return f"{name}({_all((*cells, *(f.__defaults__ or ())), depth)})"


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _object(v: Any, depth: int) -> str:
    kind = v if isinstance(v, type) else type(v)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__.partition(".")[0] not in _OWN:
        raise Unknown(f"{name}, in a rule for JAX's own primitives")
    if isinstance(v, type):
        return name
    if hasattr(v, "__dataclass_fields__"):  # an entry of the table of lowerings
        return f"{name}({_all([getattr(v, field) for field in v.__dataclass_fields__], depth)})"
    wrapped = getattr(v, "__wrapped__", None)
    inner = f"({_text(wrapped, depth + 1)})" if wrapped is not None else ""
    return f"{name} {getattr(v, '__name__', None) or getattr(v, 'name', '')}{inner}"


def _tables() -> Iterator[Tuple[str, Dict[Any, Any]]]:
    """Returns the dictionaries of JAX's modules, with their names."""
    for module in _modules():
        for name, value in list(vars(module).items()):
            if type(value) in _DICTIONARIES and value and not name.startswith("__"):
                yield f"{module.__name__}.{name}", value
                for key, inner in list(value.items()):
                    if isinstance(inner, dict) and isinstance(key, str):  # lowerings for one platform
                        yield f"{module.__name__}.{name}[{key}]", inner


def _is_rule(key: Any, value: Any) -> bool:
    if type(value) in (types.FunctionType, functools.partial, types.MethodType):
        return not isinstance(key, str) or isinstance(value, functools.partial)
    return isinstance(key, _primitive_class()) and not isinstance(value, dict)


def _is_programs(key: Any) -> bool:
    """True for a primitive or a type of the program."""
    from jax._src import core

    from warm.jax._jaxpr import _primitives

    if isinstance(key, core.Primitive):
        return key not in _primitives
    return isinstance(key, type) and key.__module__.partition(".")[0] not in _OWN


def _lines(tables: List[Tuple[str, Dict[Any, Any]]]) -> List[str]:
    lines = set()
    every = [(table, key, value) for table, entries in tables for key, value in list(entries.items())]
    rules = [rule for rule in every if _is_rule(*rule[1:])]
    primitives = {key for _, key, _ in rules if isinstance(key, _primitive_class())}
    rules += [(name, p, vars(p)[name]) for p in primitives for name in _OF_PRIMITIVES if name in vars(p)]
    for table, key, value in rules:
        try:
            lines.add(f"{table} {key}: {_text(value)}")
        except Unknown:
            if not _is_programs(key):
                raise
    return sorted(lines)


_PARTS_OF = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")
_HOLDERS = {staticmethod: "__func__", classmethod: "__func__", property: "fget"}


def _unwrapped(value: Any) -> Any:
    """Returns the function that a method, a property or a partial function calls; anything else as it is."""
    holder = "func" if isinstance(value, functools.partial) else _HOLDERS.get(type(value))
    return getattr(value, holder) if holder else value


def _name_lines() -> Iterator[str]:
    """Returns a line for each name whose function has another one, or is from another module. Raises Unknown for a function
    of the program."""
    for where, owner, names in _spaces():
        for name, value in list(names.items()):
            value = _unwrapped(value)
            if type(value) is types.FunctionType:
                code, home = value.__code__, value.__globals__.get("__name__")
                if not _is_own(value) and not str(home).startswith("namedtuple_"):
                    raise Unknown(f"{where or owner}.{name}, which the program replaced")
                if code.co_name != name or home != (where or home):
                    yield f"{where}.{owner}.{name} {home}.{code.co_name}:{code.co_firstlineno}"
            elif isinstance(value, type) and value.__name__ != name and name.lstrip("_")[:1].isupper():  # no loop's variable
                yield f"{where}.{owner}.{name} {value.__module__}.{value.__qualname__}"
            elif type(value) in _SIMPLE and name.lstrip("_").isupper():
                yield f"{where}.{owner}.{name}={value!r}"


def _default_lines(functions: List[types.FunctionType]) -> Iterator[str]:
    for f in functions:
        both = f.__defaults__, f.__kwdefaults__
        if not any(both) or not _is_own(f):
            continue
        try:
            text = marshal.dumps(both, 0).hex()
        except ValueError:  # objects
            text = _text(both)
        yield f"{f.__module__}.{f.__qualname__}:{f.__code__.co_firstlineno} {text}"


_lock = threading.Lock()


class _Known:
    """The digest of the rules, with the values that they were, and the codes and defaults. These stay alive, so an identity
    stays theirs."""

    def __init__(self) -> None:
        self.names = [(names, list(names.values())) for _, _, names in _spaces()]
        self.n_modules = len(_modules())
        tables = list(_tables())
        self.tables = [(table, list(table.values())) for _, table in tables]
        found = (_unwrapped(value) for _, values in (*self.names, *self.tables) for value in values)
        self.functions = [value for value in found if type(value) is types.FunctionType]
        self.parts = [*map(_PARTS_OF, self.functions)]
        self.tables += [(f.__kwdefaults__, list(f.__kwdefaults__.values())) for f in self.functions if f.__kwdefaults__]
        text = "\n".join([*_lines(tables), *sorted(_name_lines()), *sorted({*_default_lines(self.functions)})])
        self.digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()

    def is_current(self) -> bool:
        if len(_modules()) != self.n_modules:
            return False
        both = (*self.names, *self.tables)
        is_same = all(len(now) == len(values) and all(map(operator.is_, now.values(), values)) for now, values in both)
        return is_same and all(map(operator.eq, map(_PARTS_OF, self.functions), self.parts))


_known: List[_Known] = []


def digest() -> bytes:
    """Returns a digest of all rules that are JAX's. Raises Unknown if one has code of the program."""
    with _lock:
        if not _known or not _known[0].is_current():
            _known[:] = [_Known()]
        return _known[0].digest
