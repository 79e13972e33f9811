# SPDX-License-Identifier: Apache-2.0
"""Digests of functions and of values that functions hold. Two values with one digest do the same in each process.

    a function      where its code stands, the values it encloses, its defaults. Code of torch's files, and of those of the
                    libraries that it computes with, counts by file and line: the catalogue's name has the identity of
                    these files, and _in_place.py sees code that is made under their names. Other code counts by its bytes.
    plain values    their repr
    containers, and objects of classes of Python code: the digests of what they hold
    all others      none: a C++ kernel, a ScriptFunction, a class that its name does not find

This file has the rules: how the objects of a type are read. libwarm-python.so reads them (client/walk/walk.h). A Walker
remembers what it read, so it lives only as long as nothing changes. One thread.
"""

from __future__ import annotations

import collections
import ctypes
import dis
import enum
import functools
import gc
import os
import sys
import types
from typing import Any, Callable

from warm import _library

# walk_how and walk_flag of client/walk/walk.h
_NAME, _STR, _BYTES, _INT, _REPR, _TEXT, _ATTRIBUTES, _MAPPING, _SET, _SEQUENCE, _OBJECT, _FUNCTION, _CODE, _WRAPPED = range(14)
_COUNTS, _CONSTANT, _CLASS, _MODULE, _HOLDS, _OPERATOR, _CHANGES, _STATE = (1 << i for i in range(8))

_CHANGING = frozenset((list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict))
_BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType,
            types.MethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
            types.ClassMethodDescriptorType)  # fmt: skip
_WRAPPERS = (property, functools.partial, functools.cached_property, types.MethodType, type(functools.cache(len)),
             staticmethod, classmethod)  # fmt: skip
_REPRS = frozenset("NoneType bool int float complex ellipsis NotImplementedType dtype device layout "
                   "memory_format DispatchKeySet FunctionSchema ForwardRef UnionType _GenericAlias GenericAlias "
                   "_UnionGenericAlias TypeVar _SpecialForm _LiteralGenericAlias _CallableGenericAlias".split())  # fmt: skip
# Operators, and what a compile reads of them. Their kernels are in tables of their own.
_OPERATORS = {"OpOverload": ("_name", "_tags"), "OpOverloadPacket": ("_qualified_op_name",),
              "HigherOrderOperator": ("_name",)}  # fmt: skip
_IGNORED = ("_DispatchModule", "_SafeKernelFunction", "Graph", "Logger", "lock", "RLock", "_local", "_abc_data")  # no compile reads them
_PLAIN = (bool, int, float, str, bytes, type(None))
_STORE = dis.opmap["STORE_DEREF"]

# Variables and attributes that torch itself sets when it first uses a function or an object.
_STATES = frozenset(("checked", "ordered_kwargs_for_cpp_kernel", "_inverted_"))

LIBRARIES = ("sympy", "mpmath", "triton")  # that torch computes with
_SHALLOW = f"{os.sep}sympy{os.sep}"  # its functions enclose tables that it fills


def folder_of(name: str) -> str:
    """Returns the folder of a package, with a slash at its end."""
    return os.path.join(os.path.dirname(os.path.abspath(sys.modules[name].__file__ or "")), "")


# ---- how the objects of a type are read ----


def _builtin(value: Any) -> str:
    owner = getattr(value, "__self__", None)
    name = getattr(owner, "__name__", "") or type(owner).__name__
    return f"{getattr(value, '__module__', None)} {name} {value.__name__}"


def _class(value: Any) -> str:
    """Returns the name of a class. Raises TypeError if it is not torch's and its name does not find it."""
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not value and not str(value.__module__).startswith(("torch.", "builtins", "typing")):
        raise TypeError(value.__qualname__)
    return f"{value.__module__}.{value.__qualname__}"


def _tensor(value: Any) -> str:
    return f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.device}"


_HOW: dict[type, tuple[int, Any]] = {
    str: (_STR, None),
    bytes: (_BYTES, None),
    int: (_INT, None),
    object: (_NAME, None),  # a sentinel
    types.FunctionType: (_FUNCTION, None),
    types.CodeType: (_CODE, None),
    types.MethodType: (_ATTRIBUTES, ("__func__", "__self__")),
    functools.partial: (_ATTRIBUTES, ("func", "args", "keywords")),
    staticmethod: (_ATTRIBUTES, ("__func__",)),
    classmethod: (_ATTRIBUTES, ("__func__",)),
    property: (_ATTRIBUTES, ("fget", "fset", "fdel")),
    types.ModuleType: (_ATTRIBUTES, ("__name__",)),
    type(functools.cache(len)): (_WRAPPED, None),  # another function may have its __wrapped__
    **dict.fromkeys(_BUILTIN[:2], (_TEXT, _builtin)),
    **dict.fromkeys(_BUILTIN[2:], (_ATTRIBUTES, ("__qualname__",))),  # of a class
}


def _how(kind: type) -> tuple[int, Any]:
    if kind in _HOW:
        return _HOW[kind]
    if issubclass(kind, type):
        return _TEXT, _class
    if kind.__name__ in _REPRS and kind.__module__ in ("builtins", "types", "typing", "torch", "torch._C"):
        return _REPR, None
    if hasattr(kind, "__members__") and not issubclass(kind, enum.Enum):  # an enumeration of C++
        return _INT, None
    if hasattr(kind, "annotation_str"):  # a type of C++
        return _TEXT, repr
    for base in kind.__mro__:
        if base.__name__ in _OPERATORS:
            return _ATTRIBUTES, _OPERATORS[base.__name__]
        if base.__module__ == "sympy.core.basic":  # its objects remember their hash
            return _TEXT, repr
    if kind.__name__ in _IGNORED:
        return _NAME, None
    if issubclass(kind, (dict, types.MappingProxyType)):
        return _MAPPING, None
    if issubclass(kind, (set, frozenset)) or kind.__name__ == "OrderedSet":
        return _SET, "_dict" if kind.__name__ == "OrderedSet" else None
    if issubclass(kind, (list, tuple, collections.deque)):
        return _SEQUENCE, None
    if hasattr(kind, "__torch_function__") and hasattr(kind, "stride"):
        return _TEXT, _tensor
    if kind.__name__.endswith("GraphModule"):
        return _TEXT, lambda value: value.code
    slots = (slot for base in kind.__mro__ for slot in base.__dict__.get("__slots__", ()))
    return _OBJECT, tuple(slot for slot in slots if slot not in ("__dict__", "__weakref__"))


def _holds(kind: type) -> bool:
    """Returns True for a class of torch whose objects have attributes that a compile may call. Operators are looked at in
    _sources.py, and patterns in the passes that have them."""
    if not kind.__module__.startswith("torch.") or kind.__name__ in ("OpOverload", "OpOverloadPacket", *_IGNORED):
        return False
    return not (issubclass(kind, types.ModuleType) or hasattr(kind, "pattern_eq") or hasattr(kind, "__torch_function__"))


def _flags(kind: type) -> int:
    found = {
        _COUNTS: kind is types.FunctionType or kind in _BUILTIN or kind in _WRAPPERS,
        _CONSTANT: kind in _PLAIN or kind in (tuple, frozenset, complex) or issubclass(kind, enum.Enum),
        _CLASS: issubclass(kind, type),
        _MODULE: issubclass(kind, types.ModuleType),
        _HOLDS: _holds(kind),
        _OPERATOR: kind.__name__ in _OPERATORS,
        _CHANGES: kind in _CHANGING,
        _STATE: kind in _PLAIN,
    }
    return sum(flag for flag, is_set in found.items() if is_set)


def _kind_of(kind: type) -> tuple[int, int, str, Any]:
    how, argument = _how(kind)
    return how, _flags(kind), f"{kind.__module__}.{kind.__qualname__}", argument


@functools.cache
def _set_inside(code: types.CodeType) -> frozenset[str]:
    """Returns the variables of enclosing functions that a function, or one in it, sets: it counts with them."""
    if not code.co_freevars:
        return frozenset()
    inner = [_set_inside(one) for one in code.co_consts if type(one) is types.CodeType]
    found: frozenset[str] = frozenset().union(*inner)
    if _STORE in code.co_code[::2]:
        found = found.union(_stored(code))
    return found.intersection(code.co_freevars)


def name_of_cell(code: types.CodeType) -> Callable[[int], str]:
    """Returns a function that returns the name of a variable of cells by the number that an instruction has for it."""
    return getattr(code, "_varname_from_oparg", None) or (code.co_cellvars + code.co_freevars).__getitem__


def _stored(code: types.CodeType) -> set[str]:
    """Returns the variables of enclosing functions, and for functions in it, that a code sets."""
    name = name_of_cell(code)
    found, high = set(), 0
    for op, low in zip(code.co_code[::2], code.co_code[1::2]):
        if op == _STORE:
            found.add(name(high | low))
        high = (high | low) << 8 if op == dis.EXTENDED_ARG else 0
    return found


# ---- the library ----


@functools.cache
def library() -> ctypes.PyDLL:
    """Returns libwarm-python.so. Raises _library.Unavailable."""
    path = next(filter(os.path.exists, _library.files("libexec/warm/libwarm-python.so")), "")
    if not path:
        raise _library.Unavailable("libwarm-python.so was not found")
    found, o = ctypes.PyDLL(path), ctypes.py_object
    found.walk_open.argtypes, found.walk_open.restype = [o], ctypes.c_void_p
    found.walk_close.argtypes, found.walk_close.restype = [ctypes.c_void_p], None
    found.walk_value.argtypes, found.walk_value.restype = [ctypes.c_void_p, o, o], o
    found.walk_table.argtypes, found.walk_table.restype = found.walk_value.argtypes, o
    found.walk_space.argtypes, found.walk_space.restype = [ctypes.c_void_p, o, o, o, o], o
    found.walk_parts.argtypes, found.walk_parts.restype = [ctypes.c_void_p], o
    found.libraries_loaded.argtypes, found.libraries_loaded.restype = [], ctypes.c_ulonglong
    found.libraries_register.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int]
    found.watch_open.argtypes, found.watch_open.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_void_p
    found.watch_close.argtypes, found.watch_close.restype = [ctypes.c_void_p], None
    found.watch_add.argtypes, found.watch_add.restype = [ctypes.c_void_p, o, o], ctypes.c_int
    found.watch_changed.argtypes, found.watch_changed.restype = [ctypes.c_void_p], o
    return found


class Walker:
    """Reads values into digests. `root` is the folder that has torch's package. Raises _library.Unavailable."""

    def __init__(self, root: str) -> None:
        libraries = (os.path.join(root, "torch", ""), *(folder_of(name) for name in LIBRARIES if name in sys.modules))
        self._rules = (_kind_of, _set_inside, gc.get_referents, _STATES, _STORE, libraries, _SHALLOW, sys.modules, None)
        self._noted: tuple[list[str], list[Any]] = ([], [])  # more of what can change in place
        self._library = library()
        self._walker = self._library.walk_open(self._rules)
        if not self._walker:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "_walker", None):
            self._library.walk_close(self._walker)

    def value(self, path: str, value: Any) -> bytes:
        """Returns the digest of a value that is no part of another; b"" if it has none."""
        try:
            return self._library.walk_value(self._walker, path, value)  # type: ignore[no-any-return]
        except ctypes.ArgumentError:  # an object that does not like to be looked at
            return b""

    def table(self, path: str, table: Any) -> bytes:
        """Returns the digest of a container, by that of each value in it; b"" if one has none."""
        return self._library.walk_table(self._walker, path, table)  # type: ignore[no-any-return]

    def space(self, path: str, owner: Any, held: dict[str, Any], scope: tuple[Any, ...]) -> Any:
        """Returns the digest of a namespace, its entries if it is not known, and the namespaces in it (walk_space)."""
        return self._library.walk_space(self._walker, path, owner, held, scope)

    def note(self, path: str, parts: list[Any]) -> None:
        """Adds to parts()."""
        self._noted[0].extend([path] * len(parts))
        self._noted[1].extend(parts)

    def parts(self) -> tuple[list[str], list[Any]]:
        """Returns what can change in place of all that was read: paths, and the objects."""
        paths, parts = self._library.walk_parts(self._walker)
        return self._noted[0] + paths, self._noted[1] + parts
