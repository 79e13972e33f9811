# SPDX-License-Identifier: Apache-2.0
"""What torch's modules and classes hold by name: functions, classes, constants. A compile calls them by these names, so
one that a program puts in the place of torch's counts.

A space is the dictionary of a module or of a class. Its path is "module:" or "module:Class.Inner". An entry is a name with what marshal can write of its value: a function's file and line, its
defaults, and the text of what it encloses (_texts.py); a class's name; a constant.

    the first graph         all spaces are compared with the catalogue
    each further graph      Python gives each dictionary a new version when it changes: those are compared again

A function that is changed in place, such as by its __code__, is seen at the first graph alone. One thread.
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
_NOT_CALLED = ("torch._inductor.runtime.compile_tasks", "torch._inductor.compile_worker")  # what a compile wrote

# torch.fx sets this attribute before each use, to the code of the graph that it reads
_SET_BEFORE_USE = ("torch.fx.graph_module:_CodeOnlyModule", "forward")

_FUNCTION = types.FunctionType
_CONSTANT = "="  # what entries of constants have in front of the value
_SYMPY = f"{os.sep}sympy{os.sep}"
_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_BUILTIN = frozenset(_texts._BUILTIN)
_PLAIN = frozenset((bool, int, float, str, bytes, type(None)))
_WRAPPERS = frozenset((property, functools.partial, functools.cached_property, types.MethodType,
                       type(functools.cache(len))))  # fmt: skip
_COUNTED = frozenset((_FUNCTION, staticmethod, classmethod, *_BUILTIN, *_WRAPPERS))
_SETS = frozenset(dis.opmap[name] for name in ("STORE_GLOBAL", "STORE_ATTR", "DELETE_GLOBAL", "DELETE_ATTR"))
_NO_CLOSURE = ((), ("__class__",))  # super() needs the latter
_get = operator.attrgetter("__code__.co_name", "__code__.co_filename", "__code__.co_firstlineno", "__defaults__",
                           "__kwdefaults__")  # fmt: skip


# ---- spaces and entries ----


class Space(NamedTuple):
    path: str
    owner: Any  # a module or a class
    held: dict[str, Any]
    mark: Any  # _marks.of(held), from before it was read
    rows: list[tuple[Any, ...]]


def _is_called(name: str) -> bool:
    return name == "torch" or ((name + ".").startswith(_CALLED) and not name.startswith(_NOT_CALLED))


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
            return name, kind.__name__, *_get(inner)
        return name, kind.__name__, reader.whole(inner)
    if kind in _BUILTIN:
        return name, "builtin", value.__name__, str(getattr(value, "__qualname__", ""))
    return (name, reader.whole(value)) if kind in _WRAPPERS else None


def _scan(reader: _texts.Reader, path: str, owner: Any, held: dict[str, Any]) -> tuple[Space, list[Any]]:
    """Returns a space, and the spaces of the classes in it: paths, classes and dictionaries."""
    rows: list[tuple[Any, ...]] = []
    classes: list[Any] = []
    mark, home = _marks.of(held), owner.__name__ if path.endswith(":") else ""
    for name, value in list(held.items()):
        kind = type(value)
        if (path, name) == _SET_BEFORE_USE:
            continue
        if kind is _FUNCTION and value.__code__.co_freevars in _NO_CLOSURE:
            code = value.__code__
            rows.append((name, code.co_name, code.co_filename, code.co_firstlineno, value.__defaults__, value.__kwdefaults__))
        elif kind in _PLAIN:
            if not name.startswith("__") and not path.startswith("torch._C"):  # the latter has addresses
                rows.append((name, _CONSTANT, value))
        elif issubclass(kind, type):
            rows.append((name, "class", value.__module__, value.__qualname__))
            if value.__module__ == home if home else value.__qualname__.startswith(f"{owner.__qualname__}."):
                classes.append((name, value))
        elif kind in _COUNTED:
            try:
                row = _row(reader, name, value, kind)
            except Exception as e:  # _texts.Unknown, or an object that does not like to be looked at
                row = name, f"? {e}"[:80]
            rows.append(row)
    inside = path if path.endswith(":") else f"{path}."
    dicts = [(inside + n, c, gc.get_referents(c.__dict__)[0]) for n, c in classes if _is_scanned(c, owner, path)]
    return _written(Space(path, owner, held, mark, rows)), dicts


def _is_scanned(value: type, owner: Any, path: str) -> bool:
    """Returns False for a class of C++: most cannot be changed, and none of them is called by a compile."""
    return value is not owner and not path.startswith("torch._C") and type(value).__name__ != "tensortype"


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
    """Returns spaces, and those of the classes in them, but no class whose dictionary is known, by id."""
    found = []
    for one in todo:  # which grows
        space, classes = _scan(reader, *one)
        found.append(space)
        todo += [c for c in classes if id(c[2]) not in known]
    return found


def read(root: str) -> list[Space]:
    """Returns all spaces that a compile may read. `root` is the folder that has torch's package."""
    return Watched(root).look()


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
    bases = getattr(space.owner, "__mro__", ())[1:]
    return any(name in base.__dict__ for base in bases)


def _is_added_by_torch(value: Any) -> bool:
    code = _code_of(value)
    return is_of_torch(value) if code is not None or isinstance(value, type) else True


def foreign(known: tuple[tuple[bytes, ...], bytes] | None, space: Space) -> str:
    """Returns the name of an entry of a space that is not as torch makes it, or "". `known` is pack's, None for a module
    that the catalogue does not have."""
    if known is None:
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

    def __init__(self, root: str, known: dict[str, Any] | None = None, tables: Container[str] = ()) -> None:
        self._root, self._known, self._tables = root, known, tables
        self._spaces: list[Space] = []
        self._modules: dict[str, Any] = {}
        self._steady: dict[int, tuple[int, list[str], list[Any]]] = {}  # what counts in spaces that change often
        self._watch = _marks.Watch([sys.modules], [None])

    def look(self) -> list[Space]:
        """Returns the spaces that have changed since the last look; at first, all."""
        changed = self._watch.changed()
        again = [self._spaces[i - 1] for i in changed if i and not self._is_steady(i)]
        is_new = bool(changed) and changed[0] == 0
        if not again and not is_new:
            return []
        mark, modules = _marks.of(sys.modules), _modules() if is_new else self._modules
        todo = [(f"{n}:", m, vars(m)) for n, m in modules.items() if self._modules.get(n) is not m]
        reader, known = _texts.Reader(self._root), {id(space.held) for space in self._spaces}
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
            self._watch = _marks.Watch([sys.modules, *(space.held for space in self._spaces)], marks)

    def _keep(self, space: Space) -> None:
        """Notes the values that count in a space: torch itself changes its other variables at each graph."""
        entries = marshal.loads(self._known[space.path][1]) if space.path in self._known else {}
        names = [row[0] for row in space.rows if row[1] != _CONSTANT or row[0] in entries]
        prefix = space.path if space.path.endswith(":") else f"{space.path}."
        names += [name for name in space.held if f"{prefix}{name}" in self._tables]
        values = [space.held.get(name) for name in names]
        if _marks.of(space.held) == space.mark:
            self._steady[id(space.held)] = len(space.held), names, values

    def _is_steady(self, i: int) -> bool:
        """Returns True if what counts in a space has not changed."""
        space = self._spaces[i - 1]
        size, names, values = self._steady.get(id(space.held), (-1, [], []))
        mark = _marks.of(space.held)
        if len(space.held) != size or not all(map(operator.is_, map(space.held.get, names), values)):
            return False
        self._watch.set(i, mark)
        return True
