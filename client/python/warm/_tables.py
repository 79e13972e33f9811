# SPDX-License-Identifier: Apache-2.0
"""The tables of _sources.py in this process, as entries: keys and texts (_texts.py).

A table of constants that torch itself changes, or that is empty at first, is loose: only functions of the program in it are
entries. A path "torch.ops:NAME" is the table of an operator's kernels in Python. After the first reading, those tables are read
again whose keys or values are other objects than before, and those that are new. One thread.
"""

from __future__ import annotations

import operator
import sys
from typing import AbstractSet, Any, Container, Iterator

from warm import _marks, _sources, _texts

KERNELS, OPERATORS = "warm:kernels", "torch.ops:"
PROGRAMS = "? the program's"  # the text of an entry of a loose table

Entries = list[tuple[str, str]]  # keys and texts


def _entry(reader: _texts.Reader, key: tuple[Any, ...], value: Any) -> tuple[str, str]:
    try:
        return "|".join(map(reader.whole, key)), reader.whole(value)
    except Exception as e:  # Unknown, or an object that does not like to be looked at
        return "|".join(map(str, key))[:200], f"? {e}"[:80]


def _counts(key: tuple[Any, ...], value: Any) -> bool:
    return not any(map(_sources.is_of_others, key)) and not _sources.is_empty(value)


def _read(reader: _texts.Reader, tables: dict[str, Any], loose: Container[str]) -> dict[str, Entries]:
    """Returns the entries of tables. An entry without a text has one that begins with "?"."""
    found = {}
    for path, table in tables.items():
        reader.path = path
        if path in loose:
            foreign = (one for k, v in _sources.leaves(table) for one in (*k, v) if _sources.is_foreign(one))
            found[path] = [(str(one)[:80], PROGRAMS) for one in foreign]
        else:
            found[path] = [_entry(reader, k, v) for k, v in _sources.leaves(table) if _counts(k, v)]
    return found


def read(root: str) -> dict[str, Entries]:
    """Returns the entries of all tables that are there now. `root` is the folder that has torch's package."""
    return Watched(None).look(_texts.Reader(root), ())


class _Held:
    """What the containers of all tables held, by identity. torch takes some entries out for a moment."""

    def __init__(self, tables: dict[str, Any]) -> None:
        owners = {id(one): (_plain(one), path) for path, table in tables.items() for one in _sources.nested(table)}
        self._dicts = [(one, path) for one, path in owners.values() if isinstance(one, dict)]
        self._marks = _marks.Watch([one for one, _ in self._dicts], [_marks.of(one) for one, _ in self._dicts])
        self._held = [[*one, *one.values()] for one, _ in self._dicts]
        others: dict[str, list[Any]] = {}
        for one, path in owners.values():
            if not isinstance(one, dict):
                others.setdefault(path, []).append(one)
        self._others = _marks.References(others)

    def changed(self) -> Iterator[str]:
        """Returns the paths of the tables that do not hold the same."""
        for i in self._marks.changed():
            one, path = self._dicts[i]
            self._marks.set(i, _marks.of(one))
            values = [*one, *one.values()]
            if not _is_same(values, self._held[i]):
                self._held[i] = values
                yield path
        yield from self._others.changed()


def _plain(value: Any) -> Any:
    """Returns the dictionary that an OrderedSet of torch has."""
    return value._dict if type(value).__name__ == "OrderedSet" else value


def _is_same(values: list[Any], held: list[Any]) -> bool:
    return len(values) == len(held) and all(map(operator.is_, values, held))


class Watched:
    """Reads the tables of this process, and then those that have changed. `known` are their paths; None: all there are.
    `loose` are those of loose tables."""

    def __init__(self, known: list[str] | None, loose: Container[str] = ()) -> None:
        self._known, self._loose = known, loose
        self._tables: dict[str, Any] = {}
        self._held = _Held({})
        self._operators = _marks.Watch([sys.modules], [None])
        self._seen: dict[str, Any] = {}  # operators

    def look(self, reader: _texts.Reader, modules: Container[str], changed: AbstractSet[str] = frozenset()) -> dict[str, Entries]:
        """Returns the entries of the tables that have changed since the last look, and of those of the paths `changed`; at
        first, of all. `modules` are those that may have other tables now."""
        stale = set(self._held.changed()) | (changed & self._tables.keys())
        found = self._find(modules)
        new = [path for path, table in found.items() if self._tables.get(path) is not table]
        self._tables.update(found)
        if not stale and not new:
            return {}
        if new or not all(path in self._loose for path in stale):  # the latter change with each graph
            self._held = _Held(self._tables)
        return _read(reader, {path: self._tables[path] for path in (*stale, *new)}, self._loose)

    def _find(self, modules: Container[str]) -> dict[str, Any]:
        """Returns the tables of some modules, at first of all; and those of operators, if there are other operators."""
        found: dict[str, Any] = {}
        if self._known is None and (modules or not self._tables):
            found.update(_sources.containers())
        for path in self._known or ():
            module = path.partition(":")[0]
            if (module in modules or not self._tables) and module not in (OPERATORS[:-1], KERNELS.partition(":")[0]):
                found.update([(path, table)] if (table := _sources.at(path)) is not None else ())
        if self._operators.changed():
            spaces, kernels = _sources.operators(self._seen)
            self._operators = _marks.Watch(spaces, [_marks.of(space, True) for space in spaces], are_objects=True)
            found.update(kernels)
        found[KERNELS] = _sources.kernels
        return found
