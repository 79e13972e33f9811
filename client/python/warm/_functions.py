# SPDX-License-Identifier: Apache-2.0
"""What torch's modules, classes and objects hold by name: functions, classes, constants. A compile calls them by these
names, so one that a program puts in the place of torch's counts. The same for the libraries that torch computes with.

A space is the dictionary of a module, of a class, or of an object that a module or a class holds. Its path is "module:",
"module:Class.Inner" or "module:object". An entry is a name with a digest of its value (_values.py): of a function with its
defaults and all that it encloses; of a class's name; of a constant.

    the first graph         all spaces are compared with the catalogue
    each further graph      Python gives each dictionary a new version when it changes: those are compared again

Changes of a function or a class itself are in _in_place.py. One thread.
"""

from __future__ import annotations

import builtins
import dis
import marshal
import operator
import os
import sys
import tempfile
import types
from typing import Any, Container, NamedTuple

from warm import _marks, _values
from warm._operators import is_of_torch

_CALLED = tuple(
    f"torch.{name}"
    for name in (
        "_inductor. _functorch. _decomp. _refs. _prims. _prims_common. _higher_order_ops. _subclasses. _library. "
        "_meta_registrations. _ops. library. fx. functional. nn.functional. _tensor. _C. _guards. _utils. _compile. "
        "overrides. autograd. _dynamo.utils. _dynamo.device_interface. _dynamo.source. _dynamo.exc. _dynamo.backends. "
        "_export. distributed.tensor. distributed._functional_collectives. utils._ utils.flop_counter. utils.weak. "
        "utils.checkpoint. utils.hooks. cuda. accelerator. backends. masked. sparse. nested. _native. _linalg_utils. "
        "_lowrank. _jit_internal. _custom_op. _vmap_internals. cpu."
    ).split()
)
# The libraries that torch computes with, and modules of Python's own: those that modules of torch name, but for files,
# processes, threads, clocks and logs, which change no graph, and which others replace.
_LIBRARIES = ("sympy.", "triton.", "mpmath.libmp.")
_STANDARD = frozenset(
    "builtins math operator functools itertools collections textwrap re string copy heapq bisect dataclasses enum contextlib "
    "struct hashlib fractions numbers abc ast base64 collections.abc copyreg decimal dis inspect json keyword os random "
    "statistics types typing weakref".split()
)
# What others replace without harm to a compile, and what only some processes have.
_OF_BUILTINS = frozenset("print input open exit quit help license credits copyright breakpoint __import__ _".split())
_NOT_CALLED = ("torch._inductor.runtime.compile_tasks", "torch._inductor.compile_worker")  # what a compile wrote

# torch.fx sets this attribute before each use, to the code of the graph that it reads
_SET_BEFORE_USE = ("torch.fx.graph_module:_CodeOnlyModule", "forward")

_RANDOM = frozenset(("_base_dummy_index",))  # a constant of sympy
# torch.compile begins a compile, whose graph and settings are in the key. Lightning puts a function of its own around it.
# set_default_dtype() sets torch.Storage. Modules of Cython put a function of their own into inspect, frozendict one into
# collections.abc.
_OF_PROCESSES = ("exec", "fork", "kill", "nice", "popen", "posix_spawn", "register_at", "spawn", "system", "wait", "_exit")
_SKIPPED = {
    "builtins:": _OF_BUILTINS, "torch:": frozenset(("compile", "Storage")), _SET_BEFORE_USE[0]: frozenset((_SET_BEFORE_USE[1],)),
    "os:": frozenset(name for name in vars(os) if name.startswith(_OF_PROCESSES)), "typing:": frozenset(("TYPE_CHECKING",)),
    "inspect:": frozenset(("isgenerator",)), "collections.abc:MutableMapping": frozenset(("__subclasshook__",)),
}  # fmt: skip
_CONSTANT, _UNKNOWN = ord("="), ord("?")  # how entries begin (walk_entry of client/walk/walk.h)
_OF_MODULE, _OF_CLASS, _OF_OBJECT = range(3)  # walk_owner
_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_SETS = frozenset(dis.opmap[name] for name in ("STORE_GLOBAL", "STORE_ATTR", "DELETE_GLOBAL", "DELETE_ATTR"))
_SET_ATTRIBUTE, _LOAD, _LOAD_CELL = (dis.opmap[name] for name in ("STORE_ATTR", "LOAD_FAST", "LOAD_DEREF"))
_CHANGES = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "DELETE_SUBSCR"))
_CHANGERS = frozenset("append add update extend insert pop popitem remove discard clear setdefault appendleft".split())


# ---- spaces and entries ----


class Space(NamedTuple):
    path: str
    owner: Any  # a module, a class or an object
    held: dict[str, Any]
    digest: bytes  # of all entries
    entries: Any  # their digests by name; None: the catalogue has the digest


def _is_called(name: str) -> bool:
    if name == "torch" or name in _STANDARD or (name + ".").startswith(_LIBRARIES):
        return True
    return (name + ".").startswith(_CALLED) and not name.startswith(_NOT_CALLED)


_Found = tuple[str, Any, dict[str, Any]]  # a path, an owner and its dictionary


def _scan(walker: _values.Walker, known: Any, path: str, owner: Any, held: dict[str, Any]) -> tuple[Space, list[_Found]]:
    """Returns a space, and the spaces in it, of classes and objects."""
    if path.endswith(":"):
        of, begin, prefix = _OF_MODULE, getattr(owner, "__name__", path[:-1]), path
    elif isinstance(owner, type):
        of, begin, prefix = _OF_CLASS, f"{owner.__qualname__}.", f"{path}."
    else:
        of, begin, prefix = _OF_OBJECT, "", f"{path}."
    digests = known.get(path, ((),))[0]
    scope = of, begin, _SKIPPED.get(path, _RANDOM), path.startswith("torch._C"), digests
    digest, entries, inner = walker.space(path, owner, held, scope)
    return Space(path, owner, held, digest, entries), [(prefix + name, *one) for name, *one in inner]


def read(root: str) -> list[Space]:
    """Returns all spaces that a compile may read. `root` is the folder that has torch's package."""
    watched = Watched()
    todo = watched.changed()
    return watched.look(_values.Walker(root), todo) if todo else []


# ---- the catalogue's part ----


def _stored(spaces: list[Space]) -> set[str]:
    """Returns the names that torch's own functions set, as variables of modules or as attributes, but for those of `self`."""
    found: set[str] = set()
    todo = [code for space in spaces for value in space.held.values() if (code := _code_of(value)) is not None]
    for code in todo:  # which grows
        todo += [one for one in code.co_consts if type(one) is types.CodeType]
        text = code.co_code  # made anew each time
        operations = text[::2]
        for operation in _SETS:
            at = operations.find(operation)
            while at >= 0:
                before = at - 2 if operations[at - 1] == dis.EXTENDED_ARG else at - 1
                if operation != _SET_ATTRIBUTE or not _is_self(code, operations[before], text[2 * before + 1]):
                    found.update(code.co_names[text[2 * at + 1] :: 256])
                at = operations.find(operation, at + 1)
    return found


def _is_self(code: Any, operation: int, argument: int) -> bool:
    """Returns True for an operation that loads the variable `self`: the attributes of an object are none of its class."""
    if operation == _LOAD_CELL:
        return bool(_values.name_of_cell(code)(argument) == "self")
    return operation == _LOAD and bool(code.co_varnames[argument] == "self")


def changed_names(spaces: list[Space], names: set[str]) -> set[str]:
    """Returns those of `names` that torch's functions use in a line which changes a container."""
    found: set[str] = set()
    todo = [code for space in spaces for value in space.held.values() if (code := _code_of(value)) is not None]
    for code in todo:  # which grows
        todo += [one for one in code.co_consts if type(one) is types.CodeType]
        if names.isdisjoint(code.co_names):
            continue
        if not _CHANGERS.isdisjoint(code.co_names) or not _CHANGES.isdisjoint(code.co_code[::2]):
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
    """Returns for each path the digests of spaces, and, written by marshal, {name: (is needed, entries)}. A constant that
    torch itself changes is not in it, nor the name of a temporary file or folder."""
    found, first, stored = {}, {space.path: space for space in before}, _stored(after)
    for space in after:
        readings = [first.get(space.path, space), space]
        known: dict[str, tuple[Any, ...]] = {}
        for name, entry in (one for reading in readings for one in reading.entries.items()):
            is_needed, *entries = known.get(name, (name in readings[0].entries and entry[0] != _CONSTANT,))
            if entry[0] != _UNKNOWN and entry not in entries:
                entries.append(entry)
            known[name] = is_needed, *entries
        constants = {name for name, entry in space.entries.items() if entry[0] == _CONSTANT}
        changing = {name for name in constants if len(known[name]) > 2 or name in stored or _is_temporary(space.held.get(name))}
        kept = {name: value for name, value in known.items() if name not in changing and len(value) > 1}
        found[space.path] = tuple({reading.digest for reading in readings}), marshal.dumps(kept, 2)
    return found


def _is_temporary(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(tempfile.gettempdir())


def _code_of(value: Any) -> Any:
    for _ in range(4):
        if type(value) is types.FunctionType:
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


def _takes_effect(space: Space, name: str, known: dict[str, tuple[tuple[bytes, ...], bytes]]) -> bool:
    """Returns True if a name that torch does not have counts by being there: it hides another one, or Python looks for it.
    Classes and objects get constants of their own late, but in torch none that hides a constant."""
    if space.path.endswith(":"):
        if space.owner is builtins:  # notebooks and profilers put names there, which hide none
            return False
        return name in vars(builtins) or isinstance(space.held.get(name), types.ModuleType)  # of another place
    is_class = isinstance(space.owner, type)
    bases = space.owner.__mro__[1:] if is_class else type(space.owner).__mro__
    hidden = next((base for base in bases if name in base.__dict__), None)
    if space.entries[name][0] not in (_CONSTANT, _UNKNOWN):
        return hidden is not None or (is_class and name.startswith("__"))
    path = f"{hidden.__module__}:{hidden.__qualname__}" if hidden else ""
    entries = marshal.loads(known[path][1]) if path.startswith("torch.") and path in known else {}
    return name in entries and entries[name][1][0] == _CONSTANT


def _is_added_by_torch(value: Any) -> bool:
    code = _code_of(value)
    return is_of_torch(value) if code is not None or isinstance(value, type) else True


def foreign(known: dict[str, tuple[tuple[bytes, ...], bytes]], space: Space) -> str:
    """Returns the name of an entry of a space that is not as torch makes it, or "". `known` is pack's."""
    digests, packed = known.get(space.path, ((), b""))
    if not packed:  # a module that the catalogue does not have
        if not space.path.startswith("torch"):
            return ""
        return next((name for name in space.entries if not _is_added_by_torch(space.held.get(name))), "")
    if space.digest in digests:
        return ""
    entries = marshal.loads(packed)
    for name, entry in space.entries.items():
        value = space.held.get(name)
        if name in entries:
            if entry not in entries[name][1:] and not _is_hook(value):
                return name
        elif _takes_effect(space, name, known) and not _is_hook(value):
            return name
    missing = (name for name, (is_needed, *_) in entries.items() if is_needed and name not in space.entries)
    return next((f"{name} (missing)" for name in missing), "")


# ---- what this process has ----


class Todo(NamedTuple):
    again: list[int]  # spaces
    new: dict[str, Any]  # modules
    modules: set[str]  # those that may have other variables than before


class Watched:
    """Reads the spaces of this process, and then those that have changed. `known` is pack's; None: not known yet.
    `tables` are the paths of the variables that are tables: another one in its place counts."""

    def __init__(self, known: dict[str, Any] | None = None, tables: Container[str] = ()) -> None:
        self._known, self._tables = known, tables
        self._spaces: list[Space] = []
        self._modules: dict[str, Any] = {}
        self._others: set[str] = set()  # names of modules that no compile calls
        self._steady: dict[int, tuple[int, list[str], list[Any]]] = {}  # what counts in spaces that change often
        self._held: set[int] = set()  # the dictionaries of all spaces, by id
        self._watch = _marks.Watch()  # of those, by the index of the space
        self._of_modules = _marks.Watch()

    def changed(self, stale: Container[str] = ()) -> Todo | None:
        """Returns what has changed since the last look, with the spaces of the paths `stale`; at first, all. None: nothing."""
        again = [i for i in self._watch.changed() if not self._is_steady(i)]
        again += [i for i, space in enumerate(self._spaces) if space.path in stale and i not in again] if stale else []
        new = self._new_modules()
        if not again and not new:
            return None
        return Todo(again, new, {self._spaces[i].path.partition(":")[0] for i in again} | new.keys())

    def _new_modules(self) -> dict[str, Any]:
        if not self._modules:
            self._of_modules.add([None], [sys.modules])
        elif not self._of_modules.changed():
            return {}
        new = {}
        for name, module in list(sys.modules.items()):
            if name in self._others or self._modules.get(name) is module:
                continue
            if not _is_called(name):
                self._others.add(name)
            elif hasattr(module, "__dict__"):
                new[name] = module
        self._modules.update(new)
        return new

    def look(self, walker: _values.Walker, todo: Todo) -> list[Space]:
        """Returns the spaces that have changed, as they are now."""
        found, inside = [], []
        for i in todo.again:
            mark, (path, owner, held, *_) = _marks.of(self._spaces[i].held), self._spaces[i]
            self._spaces[i], inner = _scan(walker, {}, path, owner, held)
            found.append(self._spaces[i])
            inside += inner
            if self._known is not None:
                self._keep(self._spaces[i], mark)
        found += self._read(walker, inside, {})
        return found + self._read(walker, [(f"{n}:", m, vars(m)) for n, m in todo.new.items()], self._known or {})

    def _read(self, walker: _values.Walker, todo: list[_Found], known: dict[str, Any]) -> list[Space]:
        """Returns spaces, and those in them, which were not read before. A space whose digest is in `known` gets no entries."""
        found: list[Space] = []
        while todo := self._unread(todo):
            first = len(self._spaces)
            self._watch.add([*range(first, first + len(todo))], [held for _, _, held in todo])
            inside = []
            for one in todo:
                space, inner = _scan(walker, known, *one)
                self._spaces.append(space)
                inside += inner
            found += self._spaces[first:]
            todo = inside
        return found

    def _unread(self, found: list[_Found]) -> list[_Found]:
        unread = []
        for one in found:
            if id(one[2]) not in self._held:
                self._held.add(id(one[2]))
                unread.append(one)
        return unread

    def _keep(self, space: Space, mark: Any) -> None:
        """Notes the values that count in a space: torch itself changes its other variables at each graph. `mark` is from
        before it was read."""
        entries = marshal.loads(self._known[space.path][1]) if self._known and space.path in self._known else {}
        names = [name for name, entry in space.entries.items() if entry[0] != _CONSTANT or name in entries]
        prefix = space.path if space.path.endswith(":") else f"{space.path}."
        names += [name for name in space.held if f"{prefix}{name}" in self._tables]
        values = [space.held.get(name) for name in names]
        if _marks.of(space.held) == mark:
            self._steady[id(space.held)] = len(space.held), names, values

    def _is_steady(self, i: int) -> bool:
        """Returns True if what counts in a space has not changed."""
        space = self._spaces[i]
        size, names, values = self._steady.get(id(space.held), (-1, [], []))
        return len(space.held) == size and all(map(operator.is_, map(space.held.get, names), values))
