# SPDX-License-Identifier: Apache-2.0
"""Texts of functions and of values that functions hold. Two values with one text do the same in each process.

    a function      where its code stands, the values it encloses, its defaults. Code of torch's files, and of those of the
                    libraries that it computes with, counts by file and line: the catalogue's name has the identity of
                    these files, and _in_place.py sees code that is made under their names. Other code counts by its bytes.
    plain values    their repr
    containers, and objects of classes of Python code: the texts of what they hold
    all others      Unknown: a C++ kernel, a ScriptFunction, a class that its name does not find

A Reader reads many values, and remembers what it read, so it lives only as long as nothing changes. One thread.
"""

from __future__ import annotations

import collections
import dis
import enum
import functools
import hashlib
import os
import sys
import types
from typing import Any, Callable

_DEPTH_MAX = 60
_STEPS_MAX = 20000  # values that one text is made of
_LONG = 160  # characters: a longer text of a part stands as its digest, so that parts that are shared cost once
_NEVER = 1 << 30
_CHANGING = frozenset((list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict))
_BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType,
            types.MethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
            types.ClassMethodDescriptorType)  # fmt: skip
_LISTS = (list, tuple, collections.deque)
_REPR = frozenset("NoneType bool int float complex str bytes ellipsis NotImplementedType dtype device layout "
                  "memory_format DispatchKeySet FunctionSchema ForwardRef UnionType _GenericAlias GenericAlias "
                  "_UnionGenericAlias TypeVar _SpecialForm _LiteralGenericAlias _CallableGenericAlias".split())  # fmt: skip
_OPERATORS = ("OpOverload", "OpOverloadPacket", "HigherOrderOperator")  # their kernels are in tables of their own
_IGNORED = ("_DispatchModule", "_SafeKernelFunction", "Graph", "Logger", "lock", "RLock", "_local", "_abc_data")  # no compile reads them


# Variables and attributes that torch itself sets when it first uses a function or an object.
_STATES = ("checked", "ordered_kwargs_for_cpp_kernel")
_PLAIN = (bool, int, float, str, bytes, type(None))
_STORE = dis.opmap["STORE_DEREF"]


LIBRARIES = ("sympy", "mpmath", "triton")  # that torch computes with


def folder_of(name: str) -> str:
    """Returns the folder of a package, with a slash at its end."""
    return os.path.join(os.path.dirname(os.path.abspath(sys.modules[name].__file__ or "")), "")


class Unknown(Exception):
    """Raised for a value without a text."""


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _set_inside(code: types.CodeType) -> frozenset[str]:
    """Returns the variables of enclosing functions that a function, or one in it, sets: it counts with them."""
    if not code.co_freevars:
        return frozenset()
    inner = [_set_inside(one) for one in code.co_consts if type(one) is types.CodeType]
    found = frozenset().union(*inner)
    if _STORE in code.co_code[::2]:
        found = found.union(one.argval for one in dis.get_instructions(code) if one.opcode == _STORE)
    return found.intersection(code.co_freevars)


def _is_state(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (type(value) is tuple and all(map(_is_state, value)))


class Reader:
    """Reads values into texts. `root` is the folder that has torch's package."""

    def __init__(self, root: str) -> None:
        self._torch = os.path.join(root, "torch", "")
        self._libraries = tuple(folder_of(name) for name in LIBRARIES if name in sys.modules)
        self._codes: dict[int, str] = {}  # by id: its function keeps the code
        self._sets: dict[int, frozenset[str]] = {}  # variables that a code encloses and sets, by its id
        self._known: dict[int, tuple[Any, str]] = {}
        self._open: dict[int, int] = {}  # what is being read now, by id: how deep it is
        self._low = _NEVER  # the least depth of an open value that the text refers to as itself
        self._steps = 0
        self.path = ""  # of what is read now
        self.parts: dict[int, tuple[str, Any]] = {}  # what can change in place of all that was read, with its path, by id
        self._kinds: dict[type, Callable[[Any], str]] = {
            types.FunctionType: self._part(self._function),
            types.MethodType: lambda v: f"{self.text(v.__func__)} of {self.text(v.__self__)}",
            functools.partial: lambda v: f"partial({self.text(v.func)}, {self.text(v.args)}, {self.text(v.keywords)})",
            staticmethod: lambda v: self.text(v.__func__),
            classmethod: lambda v: f"class {self.text(v.__func__)}",
            property: lambda v: f"property {self.text((v.fget, v.fset, v.fdel))}",
            types.ModuleType: lambda v: f"module {v.__name__}",
            types.CodeType: self._code,
        }
        self._kinds.update(dict.fromkeys(_BUILTIN, self._builtin))

    def whole(self, value: Any) -> str:
        """Returns the text of a value that is no part of another. Raises Unknown."""
        self._steps, self._low = 0, _NEVER
        self._open.clear()
        return self.text(value)

    def text(self, value: Any) -> str:
        kind = self._kinds.get(type(value))
        if kind is None:
            kind = self._kinds[type(value)] = self._kind(type(value))
        return kind(value)

    def _kind(self, kind: type) -> Callable[[Any], str]:
        """Returns the function that reads objects of a class."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        bases = {base.__name__ for base in kind.__mro__}
        if issubclass(kind, type):
            return self._class
        if kind is object:  # a sentinel
            return lambda v: "object"
        if issubclass(kind, enum.Enum):
            return lambda v: f"{name} {v.name}"
        if kind.__name__ in _REPR and kind.__module__ in ("builtins", "types", "typing", "torch", "torch._C"):
            return repr
        if hasattr(kind, "__members__") or hasattr(kind, "annotation_str"):  # an enumeration, a type of C++
            return functools.cache(lambda v: f"{name} {v!r}")
        if bases.intersection(_OPERATORS):
            return self._part(lambda v: f"operator {v}")
        if kind.__name__ in _IGNORED:
            return lambda v: name
        if any(base.__module__ == "sympy.core.basic" for base in kind.__mro__):  # objects of sympy remember their hash
            return lambda v: f"{name} {v!r}"
        return self._part(self._reader_of(kind, name))

    def _reader_of(self, kind: type, name: str) -> Callable[[Any], str]:
        if issubclass(kind, (dict, types.MappingProxyType)):
            return lambda v: f"{name}{{{', '.join(f'{self.text(k)}: {self.text(x)}' for k, x in list(v.items()))}}}"
        if issubclass(kind, (set, frozenset)) or kind.__name__ == "OrderedSet":
            return lambda v: f"{name}{{{', '.join(sorted(map(self.text, list(v))))}}}"
        if issubclass(kind, _LISTS):
            return lambda v: f"{name}({', '.join(map(self.text, list(v)))})"
        if kind.__name__ == "_lru_cache_wrapper":
            return lambda v: f"{name} of {self.text(v.__wrapped__)}"
        if hasattr(kind, "__torch_function__") and hasattr(kind, "stride"):
            return lambda v: f"{name} {v.dtype} {tuple(v.shape)} {v.stride()} {v.device}"
        if kind.__name__.endswith("GraphModule"):
            return lambda v: f"{name} {v.code}"
        return self._object_of(kind, name)

    def _part(self, read: Callable[[Any], str]) -> Callable[[Any], str]:
        """Returns `read` with a memory. The text of a value in a circle depends on where the circle was entered, so
        it is not remembered."""

        memory, opened = self._known, self._open

        def remembered(value: Any) -> str:
            me = id(value)
            known = memory.get(me)
            if known is not None:
                return known[1]
            open_at = opened.get(me)
            if open_at is not None:
                self._low = min(self._low, open_at)
                return f"itself {type(value).__qualname__}"
            depth = len(opened)
            self._steps += 1
            if self._steps > _STEPS_MAX or depth > _DEPTH_MAX:
                raise Unknown("a value with too many parts")
            opened[me] = depth
            made = read(value)
            del opened[me]
            if type(value) in _CHANGING:
                self.parts[me] = self.path, value
            if len(made) > _LONG:
                made = f"{made[:40]} {digest(made)}"
            if self._low > depth:
                memory[me] = value, made
            elif self._low == depth:
                self._low = _NEVER
            return made

        return remembered

    # ---- functions ----

    def _code(self, code: Any) -> str:
        known = self._codes.get(id(code))
        if known is None:
            name = getattr(code, "co_qualname", code.co_name)
            if code.co_filename.startswith(self._torch):
                known = f"{name} {code.co_filename[len(self._torch):]}:{code.co_firstlineno}"
            elif code.co_filename.startswith(self._libraries):
                known = f"{name} {code.co_filename}:{code.co_firstlineno}"
            else:
                parts = (code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, code.co_flags,
                         code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount)  # fmt: skip
                known = f"{name} {parts} {self.text(code.co_consts)}"
            self._codes[id(code)] = known
        return known

    def _cell(self, cell: Any, is_set: bool) -> str:
        self.parts[id(cell)] = self.path, cell
        try:
            value = cell.cell_contents
        except ValueError:
            return "empty"
        return "a state" if is_set and _is_state(value) else self.text(value)

    def _function(self, function: Any) -> str:
        code = function.__code__
        made = self._code(code)
        if function.__closure__:
            if id(code) not in self._sets:
                self._sets[id(code)] = _set_inside(code) if code.co_filename.startswith(self._torch) else frozenset()
            names, sets = zip(code.co_freevars, function.__closure__), self._sets[id(code)]
            made += f"[{', '.join(self._cell(cell, name in sets) for name, cell in names if name not in _STATES)}]"
        if function.__defaults__ or function.__kwdefaults__:
            made += f"({self.text(function.__defaults__)}, {self.text(function.__kwdefaults__)})"
        if not code.co_filename.startswith(self._torch):
            made += f" in {function.__globals__.get('__name__')}"
        return made

    @staticmethod
    def _builtin(value: Any) -> str:
        owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
        name = getattr(owner, "__name__", "") or type(owner).__name__
        return f"{getattr(value, '__module__', None)} {name} {value.__name__}"

    # ---- classes and objects ----

    @staticmethod
    def _class(value: Any) -> str:
        """Returns the name of a class, if its name finds it or it is torch's."""
        found: Any = sys.modules.get(value.__module__)
        for name in value.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is not value and not str(value.__module__).startswith(("torch.", "builtins", "typing")):
            raise Unknown(f"the class {value.__qualname__}")
        return f"class {value.__module__}.{value.__qualname__}"

    def _object_of(self, kind: type, name: str) -> Callable[[Any], str]:
        """Returns the reader of objects that have attributes."""
        slots = [s for c in kind.__mro__ for s in c.__dict__.get("__slots__", ()) if s != "__weakref__"]
        is_found = functools.cache(lambda: self._class(kind))

        def read(value: Any) -> str:
            try:
                held = object.__getattribute__(value, "__dict__")
            except AttributeError:
                held = None
            if held is None and not slots:
                raise Unknown(f"an object of the class {kind.__qualname__}")
            is_found()
            if held is not None:
                self.parts[id(held)] = self.path, held
            parts = [f"{k}={self.text(v)}" for k, v in sorted((held or {}).items()) if k not in _STATES]
            parts += [f"{s}={self.text(getattr(value, s))}" for s in slots if hasattr(value, s)]
            return f"{name} ({', '.join(parts)})"

        return read
