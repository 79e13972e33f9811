# SPDX-License-Identifier: Apache-2.0
"""What torch's modules, classes and objects hold by name: functions, classes, constants. A compile calls them by these
names, so one that a program puts in the place of torch's counts. The same for the libraries that torch computes with.

A space is the dictionary of a module, of a class, or of an object that a module or a class holds. Its path is "module:",
"module:Class.Inner" or "module:object". An entry is a name with what marshal can write of its value: a function's file and
line, its defaults, and the text of what it encloses (_texts.py); a class's name; a constant.

    the first graph         all spaces are compared with the catalogue
    each further graph      Python gives each dictionary a new version when it changes: those are compared again

Changes of a function or a class itself are in _in_place.py. One thread.
"""

from __future__ import annotations

import dis
import functools
import gc
import hashlib
import marshal
import operator
import os
import sys
import types
from typing import Any, Container, NamedTuple

from warm import _marks, _texts
from warm._operators import is_of_torch

_CALLED = tuple(
    f"torch.{name}"
    for name in (
        "_inductor. _functorch. _decomp. _refs. _prims. _prims_common. _higher_order_ops. _subclasses. _library. "
        "_meta_registrations. _ops. library. fx. functional. nn.functional. _tensor. _C. _guards. _utils. _compile. "
        "overrides. autograd. _dynamo.utils. _dynamo.device_interface. _dynamo.source. _dynamo.exc. _dynamo.backends. "
        "_export. distributed.tensor. distributed._functional_collectives. utils._ utils.flop_counter. utils.weak. "
        "utils.checkpoint. utils.hooks. cuda. accelerator. backends. masked. sparse. nested. _native. _linalg_utils. "
        "_lowrank. _jit_internal. _custom_op. _vmap_internals."
    ).split()
)
# The libraries that torch computes with, and modules of Python's own that depend on nothing outside.
_LIBRARIES = ("sympy.", "triton.")
_STANDARD = frozenset(
    "builtins math operator functools itertools collections textwrap re string copy heapq bisect dataclasses enum contextlib "
    "struct hashlib fractions numbers".split()
)
# What others replace without harm to a compile, and what only some processes have.
_OF_BUILTINS = frozenset("print input open exit quit help license credits copyright breakpoint __import__ _".split())
_NOT_CALLED = ("torch._inductor.runtime.compile_tasks", "torch._inductor.compile_worker")  # what a compile wrote

# torch.fx sets this attribute before each use, to the code of the graph that it reads
_SET_BEFORE_USE = ("torch.fx.graph_module:_CodeOnlyModule", "forward")

_FUNCTION = types.FunctionType
_RANDOM = "_base_dummy_index"  # a constant of sympy
_CONSTANT = "="  # what entries of constants have in front of the value
_SYMPY = f"{os.sep}sympy{os.sep}"
_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_BUILTIN = frozenset(_texts._BUILTIN)
_PLAIN = frozenset((bool, int, float, str, bytes, type(None)))
_WRAPPERS = frozenset((property, functools.partial, functools.cached_property, types.MethodType,
                       type(functools.cache(len))))  # fmt: skip
_CONSTANTS = _PLAIN | {tuple, frozenset, complex}
_COUNTED = frozenset((_FUNCTION, staticmethod, classmethod, *_BUILTIN, *_WRAPPERS))
_SETS = frozenset(dis.opmap[name] for name in ("STORE_GLOBAL", "STORE_ATTR", "DELETE_GLOBAL", "DELETE_ATTR"))
_CHANGES = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "DELETE_SUBSCR"))
_CHANGERS = frozenset("append add update extend insert pop popitem remove discard clear setdefault appendleft".split())
_NO_CLOSURE = ((), ("__class__",))  # super() needs the latter
_BASES = "__bases__"  # names the entry of a class or of an object itself
_code, _enclosed = operator.attrgetter("__code__"), operator.attrgetter("__closure__")
_PARTS = tuple(map(operator.attrgetter, ("co_name", "co_filename", "co_firstlineno")))  # of a code
_DEFAULTS = tuple(map(operator.attrgetter, ("__defaults__", "__kwdefaults__")))  # of a function


# ---- spaces and entries ----


class Space(NamedTuple):
    path: str
    owner: Any  # a module, a class or an object
    held: dict[str, Any]
    mark: Any  # _marks.of(held), from before it was read
    rows: list[tuple[Any, ...]]


def _is_called(name: str) -> bool:
    if name == "torch" or name in _STANDARD or (name + ".").startswith(_LIBRARIES):
        return True
    return (name + ".").startswith(_CALLED) and not name.startswith(_NOT_CALLED)


def _functions(pairs: list[tuple[str, Any]]) -> list[tuple[Any, ...]]:
    """Returns the entries of functions that enclose nothing: one pass for each part, as there are tens of thousands."""
    if not pairs:
        return []
    names, functions = zip(*pairs)
    codes = [*map(_code, functions)]
    return [*zip(names, *(map(part, codes) for part in _PARTS), *(map(part, functions) for part in _DEFAULTS))]


def _one(function: Any) -> tuple[Any, ...]:
    return _functions([("", function)])[0][1:]


def _row(reader: _texts.Reader, name: str, value: Any, kind: type) -> tuple[Any, ...] | None:
    """Returns the entry of a value that is no plain function; None if it does not count."""
    if kind is _FUNCTION:
        code = value.__code__
        if _SYMPY in code.co_filename:  # it encloses tables that sympy fills
            return name, code.co_name, code.co_filename, code.co_firstlineno
        return name, reader.whole(value)
    if kind is staticmethod or kind is classmethod:
        inner = value.__func__
        if type(inner) is _FUNCTION and inner.__code__.co_freevars in _NO_CLOSURE:
            return name, kind.__name__, *_one(inner)
        return name, kind.__name__, reader.whole(inner)
    if kind in _BUILTIN:
        return name, "builtin", value.__name__, str(getattr(value, "__qualname__", ""))
    return (name, reader.whole(value)) if kind in _WRAPPERS else None


def _itself(owner: Any) -> tuple[Any, ...]:
    """Returns the entry of a module, a class or an object itself: its class and its bases."""
    bases = owner.__bases__ if isinstance(owner, type) else ()
    return _BASES, *(f"{one.__module__}.{one.__qualname__}" for one in (type(owner), *bases))


def _scan(reader: _texts.Reader, path: str, owner: Any, held: dict[str, Any]) -> tuple[Space, list[Any]]:
    """Returns a space, and the spaces in it, of classes and objects: paths, owners and dictionaries."""
    mark, inner, is_object = _marks.of(held, True), [], not isinstance(owner, (type, types.ModuleType))
    pairs, reader.path = list(held.items()), path
    if path == _SET_BEFORE_USE[0]:
        pairs = [pair for pair in pairs if pair[0] != _SET_BEFORE_USE[1]]
    plain = [pair for pair in pairs if type(pair[1]) is _FUNCTION and _enclosed(pair[1]) is None]
    rows = [_itself(owner), *_functions(plain)]
    for name, value in pairs:
        kind = type(value)
        if kind is _FUNCTION and _enclosed(value) is None:
            continue
        if issubclass(kind, type):
            rows.append((name, "class", value.__module__, value.__qualname__))
            if _is_in(value, owner, path):
                inner.append((name, value, gc.get_referents(value.__dict__)[0]))
        elif kind in _COUNTED or (kind in _CONSTANTS and not is_object):
            row = _counted(reader, path, name, value)
            rows.extend([row] if row else ())
        elif not name.startswith("__"):
            if callable(value) and not isinstance(value, types.ModuleType):
                rows.append((name, "called", kind.__qualname__, str(value) if kind.__name__ in _texts._OPERATORS else ""))
            if _is_object(kind) and hasattr(value, "__dict__") and not is_object:
                inner.append((name, value, vars(value)))
    if path == "builtins:":
        rows = [row for row in rows if row[0] not in _OF_BUILTINS]
    prefix = path if path.endswith(":") else f"{path}."
    return _written(Space(path, owner, held, mark, rows)), [(prefix + name, *one) for name, *one in inner]


def _counted(reader: _texts.Reader, path: str, name: str, value: Any) -> tuple[Any, ...] | None:
    """Returns the entry of a value that is no class and no plain function; None if it does not count."""
    kind = type(value)
    try:
        if kind in _COUNTED:
            return _row(reader, name, value, kind)
        if name.startswith("__") or name == _RANDOM or path.startswith("torch._C"):  # the latter has addresses
            return None
        return name, _CONSTANT, value if kind in _PLAIN else reader.whole(value)
    except Exception as e:  # _texts.Unknown, or an object that does not like to be looked at
        return name, f"? {e}"[:80]


def _is_in(value: type, owner: Any, path: str) -> bool:
    """Returns True for a class that a module or a class defines. False for a class of C++: most cannot be changed, and none
    of them is called by a compile."""
    if value is owner or path.startswith("torch._C") or type(value).__name__ == "tensortype":
        return False
    if path.endswith(":"):
        return bool(value.__module__ == owner.__name__)
    return isinstance(owner, type) and value.__qualname__.startswith(f"{owner.__qualname__}.")


@functools.cache
def _is_object(kind: type) -> bool:
    """Returns True for a class of torch whose objects have attributes that a compile may call. Operators are looked at in
    _sources.py, and patterns in the passes that have them."""
    if not kind.__module__.startswith("torch.") or kind.__name__ in _texts._OPERATORS[:2] + _texts._IGNORED:
        return False
    return not (issubclass(kind, types.ModuleType) or hasattr(kind, "pattern_eq") or hasattr(kind, "__torch_function__"))


def _defaults(part: Any) -> Any:
    """Returns defaults of a function, with the classes of those that are no constants."""
    if isinstance(part, dict):
        return [*part, _defaults(tuple(part.values()))]
    return tuple(value if type(value) in _PLAIN else type(value).__qualname__ for value in part)


def _written(space: Space) -> Space:
    """Returns a space whose entries marshal can write: defaults may be objects."""
    try:
        marshal.dumps(space.rows, 2)
        return space
    except ValueError:
        rows = []
    for row in space.rows:
        try:
            marshal.dumps(row, 2)
        except ValueError:
            row = tuple(_defaults(part) if isinstance(part, (tuple, dict)) else part for part in row)
        rows.append(row)
    return space._replace(rows=rows)


def _modules() -> dict[str, Any]:
    """Returns the modules that a compile may read, by name."""
    return {name: module for name, module in list(sys.modules.items()) if _is_called(name) and isinstance(module, types.ModuleType)}


def _read(reader: _texts.Reader, todo: list[Any], known: Container[int] = ()) -> list[Space]:
    """Returns spaces, and those in them, but none whose dictionary is known, by id."""
    found = []
    seen: set[int] = set()
    for one in todo:  # which grows
        space, inner = _scan(reader, *one)
        found.append(space)
        todo += [i for i in inner if id(i[2]) not in known and id(i[2]) not in seen]
        seen.update(id(i[2]) for i in inner)
    return found


def read(root: str) -> list[Space]:
    """Returns all spaces that a compile may read. `root` is the folder that has torch's package."""
    return Watched().look(_texts.Reader(root))


# ---- the catalogue's part ----


def digest(rows: Any) -> bytes:
    return hashlib.blake2b(marshal.dumps(rows, 2), digest_size=8).digest()


def _is_known(row: tuple[Any, ...]) -> bool:
    return not (isinstance(row[1], str) and row[1].startswith("?"))


def _stored(spaces: list[Space]) -> set[str]:
    """Returns the names that torch's own functions set, as variables of modules or as attributes."""
    found: set[str] = set()
    todo = [code for space in spaces for value in space.held.values() if (code := _code_of(value)) is not None]
    for code in todo:  # which grows
        todo += [one for one in code.co_consts if type(one) is types.CodeType]
        pairs = zip(code.co_code[::2], code.co_code[1::2])
        found.update(name for op, i in pairs if op in _SETS for name in code.co_names[i::256])
    return found


def changed_names(spaces: list[Space], names: set[str]) -> set[str]:
    """Returns those of `names` that torch's functions use in a line which changes a container."""
    found: set[str] = set()
    todo = [code for space in spaces for value in space.held.values() if (code := _code_of(value)) is not None]
    for code in todo:  # which grows
        todo += [one for one in code.co_consts if type(one) is types.CodeType]
        changes = not _CHANGERS.isdisjoint(code.co_names) or not _CHANGES.isdisjoint(code.co_code[::2])
        if changes and not names.isdisjoint(code.co_names):
            found.update(names & _in_changing_lines(code))
    return found


def _in_changing_lines(code: Any) -> set[str]:
    """Returns the names that a code calls a method of that changes them, and those that it stores an item in."""
    found: set[str] = set()
    open_names: set[str] = set()  # of this line, without an item taken or stored yet
    last = ""
    for one in dis.get_instructions(code):
        if one.starts_line is not None:
            open_names.clear()
        if one.opcode in _CHANGES:
            found |= open_names
        if one.opcode in _CHANGES or one.opname == "BINARY_SUBSCR":
            open_names.clear()
        elif one.opname.startswith("LOAD_"):
            if one.argval in _CHANGERS:
                found.add(last)
            last = str(one.argval)
            open_names.add(last)
    return found


def pack(before: list[Space], after: list[Space]) -> dict[str, tuple[tuple[bytes, ...], bytes]]:
    """Returns for each path the digests of all entries, and, written by marshal, {name: (is needed, digests)}. A constant
    that torch itself changes is not in it."""
    found, first, stored = {}, {space.path: space for space in before}, _stored(after)
    for space in after:
        readings = [first.get(space.path, space).rows, space.rows]
        needed = {row[0] for row in readings[0]}
        known: dict[str, tuple[Any, ...]] = {}
        for row in (*readings[0], *readings[1]):
            is_needed, *digests = known.get(row[0], (row[0] in needed and row[1] != _CONSTANT,))
            if _is_known(row) and digest(row) not in digests:
                digests.append(digest(row))
            known[row[0]] = is_needed, *digests
        constants = {row[0] for row in space.rows if row[1] == _CONSTANT}
        changing = {name for name in constants if len(known[name]) > 2 or name in stored}
        kept = {name: value for name, value in known.items() if name not in changing and len(value) > 1}
        found[space.path] = tuple({digest(rows) for rows in readings}), marshal.dumps(kept, 2)
    return found


def _code_of(value: Any) -> Any:
    for _ in range(4):
        if type(value) is _FUNCTION:
            return value.__code__
        value = value.__func__ if isinstance(value, (staticmethod, classmethod, types.MethodType)) else value
        value = value.fget if type(value) is property else value
    return None


def _is_hook(value: Any) -> bool:
    """Returns True for a function or class of this package, which it put in the place of torch's."""
    if isinstance(value, type):
        return str(getattr(sys.modules.get(value.__module__), "__file__", "")).startswith(_OWN)
    code = _code_of(value)
    return code is not None and code.co_filename.startswith(_OWN)


def _overrides(space: Space, name: str) -> bool:
    is_class = isinstance(space.owner, type)
    bases = space.owner.__mro__[1:] if is_class else type(space.owner).__mro__
    return any(name in base.__dict__ for base in bases)


def _is_added_by_torch(value: Any) -> bool:
    code = _code_of(value)
    return is_of_torch(value) if code is not None or isinstance(value, type) else True


def foreign(known: tuple[tuple[bytes, ...], bytes] | None, space: Space) -> str:
    """Returns the name of an entry of a space that is not as torch makes it, or "". `known` is pack's, None for a module
    that the catalogue does not have."""
    if known is None:
        if not space.path.startswith("torch"):
            return ""
        return next((row[0] for row in space.rows if not _is_added_by_torch(space.held.get(row[0]))), "")
    if digest(space.rows) in known[0]:
        return ""
    entries = marshal.loads(known[1])
    for row in space.rows:
        value = space.held.get(row[0])
        if row[0] in entries:
            if digest(row) not in entries[row[0]][1:] and not _is_hook(value):
                return str(row[0])
        elif row[1] != _CONSTANT and _is_known(row) and _overrides(space, row[0]) and not _is_hook(value):
            return str(row[0])
    held = {row[0] for row in space.rows}
    return next((f"{name} (missing)" for name, (is_needed, *_) in entries.items() if is_needed and name not in held), "")


# ---- what this process has ----


class Watched:
    """Reads the spaces of this process, and then those that have changed. `known` is pack's; None: not known yet.
    `tables` are the paths of the variables that are tables: another one in its place counts."""

    def __init__(self, known: dict[str, Any] | None = None, tables: Container[str] = ()) -> None:
        self._known, self._tables = known, tables
        self._spaces: list[Space] = []
        self._modules: dict[str, Any] = {}
        self._steady: dict[int, tuple[int, list[str], list[Any]]] = {}  # what counts in spaces that change often
        self._watch = _marks.Watch([sys.modules], [None], are_objects=True)

    def look(self, reader: _texts.Reader, stale: Container[str] = ()) -> list[Space]:
        """Returns the spaces that have changed since the last look, and those of the paths `stale`; at first, all."""
        changed = self._watch.changed()
        again = [self._spaces[i - 1] for i in changed if i and not self._is_steady(i)]
        known = {id(space.held) for space in again}
        again += [space for space in self._spaces if space.path in stale and id(space.held) not in known] if stale else []
        is_new = bool(changed) and changed[0] == 0
        if not again and not is_new:
            return []
        mark, modules = _marks.of(sys.modules, True), _modules() if is_new else self._modules
        todo = [(f"{n}:", m, vars(m)) for n, m in modules.items() if self._modules.get(n) is not m]
        known = {id(space.held) for space in self._spaces}
        found = _read(reader, [*(space[:3] for space in again), *todo], known)
        for space in found[: len(again)] if self._known is not None else ():
            self._keep(space)
        self._modules = modules
        self._replace(mark, found)
        return found

    def _replace(self, mark: Any, found: list[Space]) -> None:
        """Notes the spaces that were read, in the place of those that they were. `mark` is that of sys.modules."""
        places = {id(space.held): i for i, space in enumerate(self._spaces)}
        new = [space for space in found if id(space.held) not in places]
        self._watch.set(0, mark)
        for space in found:
            if id(space.held) in places:
                self._spaces[places[id(space.held)]] = space
                self._watch.set(places[id(space.held)] + 1, space.mark)
        if new:
            self._spaces += new
            marks = [mark, *(space.mark for space in self._spaces)]
            self._watch = _marks.Watch([sys.modules, *(space.held for space in self._spaces)], marks, are_objects=True)

    def _keep(self, space: Space) -> None:
        """Notes the values that count in a space: torch itself changes its other variables at each graph."""
        entries = marshal.loads(self._known[space.path][1]) if space.path in self._known else {}
        names = [row[0] for row in space.rows if row[1] != _CONSTANT or row[0] in entries]
        prefix = space.path if space.path.endswith(":") else f"{space.path}."
        names += [name for name in space.held if f"{prefix}{name}" in self._tables]
        values = [space.held.get(name) for name in names]
        if _marks.of(space.held, True) == space.mark:
            self._steady[id(space.held)] = len(space.held), names, values

    def _is_steady(self, i: int) -> bool:
        """Returns True if what counts in a space has not changed."""
        space = self._spaces[i - 1]
        size, names, values = self._steady.get(id(space.held), (-1, [], []))
        mark = _marks.of(space.held, True)
        if len(space.held) != size or not all(map(operator.is_, map(space.held.get, names), values)):
            return False
        self._watch.set(i, mark)
        return True
