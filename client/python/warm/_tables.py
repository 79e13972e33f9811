# SPDX-License-Identifier: Apache-2.0
"""The tables of _sources.py in this process, as entries: keys and texts (_texts.py).

A path "torch.ops:NAME" is the table of an operator's kernels in Python. After the first reading, those tables are read
again whose keys or values are other objects than before, and those that are new. One thread.
"""

from __future__ import annotations

import gc
import operator
import sys
from typing import Any, Iterator

from warm import _marks, _sources, _texts

KERNELS, OPERATORS = "warm:kernels", "torch.ops:"

Entries = list[tuple[str, str]]  # keys and texts


def _entry(reader: _texts.Reader, key: tuple[Any, ...], value: Any) -> tuple[str, str]:
    try:
        return "|".join(map(reader.whole, key)), reader.whole(value)
    except Exception as e:  # Unknown, or an object that does not like to be looked at
        return "|".join(map(str, key))[:200], f"? {e}"[:80]


def _counts(key: tuple[Any, ...], value: Any) -> bool:
    return not any(map(_sources.is_of_others, key)) and not _sources.is_empty(value)


def _read(root: str, tables: dict[str, Any]) -> dict[str, Entries]:
    """Returns the entries of tables. An entry without a text has one that begins with "?"."""
    reader, found = _texts.Reader(root), {}
    collects = gc.isenabled()
    gc.disable()  # it would look at all of torch several times
    try:
        for path, table in tables.items():
            found[path] = [_entry(reader, k, v) for k, v in _sources.leaves(table) if _counts(k, v)]
    finally:
        if collects:
            gc.enable()
    return found


def read(root: str) -> dict[str, Entries]:
    """Returns the entries of all tables that are there now. `root` is the folder that has torch's package."""
    return Watched(None).look(root, True)


class _Held:
    """What the containers of all tables held, by identity. torch takes some entries out for a moment."""

    def __init__(self, tables: dict[str, Any]) -> None:
        owners = {id(one): (one, path) for path, table in tables.items() for one in _sources.nested(table)}
        self._dicts = [(one, path) for one, path in owners.values() if isinstance(one, dict)]
        self._marks = _marks.Watch([one for one, _ in self._dicts], [_marks.of(one) for one, _ in self._dicts])
        self._held = [[*one, *one.values()] for one, _ in self._dicts]
        self._others = [(one, path, [*one]) for one, path in owners.values() if not isinstance(one, dict)]

    def changed(self) -> Iterator[str]:
        """Returns the paths of the tables that do not hold the same."""
        for i in self._marks.changed():
            one, path = self._dicts[i]
            self._marks.set(i, _marks.of(one))
            if not _is_same([*one, *one.values()], self._held[i]):
                yield path
        yield from (path for one, path, held in self._others if not _is_same([*one], held))


def _is_same(values: list[Any], held: list[Any]) -> bool:
    return len(values) == len(held) and all(map(operator.is_, values, held))


class Watched:
    """Reads the tables of this process, and then those that have changed. `known` are their paths; None: all there are."""

    def __init__(self, known: list[str] | None) -> None:
        self._known = known
        self._tables: dict[str, Any] = {}
        self._held = _Held({})
        self._operators = _marks.Watch([sys.modules], [None])

    def look(self, root: str, is_new: bool) -> dict[str, Entries]:
        """Returns the entries of the tables that have changed since the last look; at first, of all. `is_new`: there may
        be new tables in torch's modules."""
        stale = set(self._held.changed())
        if is_new or self._operators.changed():
            tables = self._find()
            stale.update(path for path, table in tables.items() if self._tables.get(path) is not table)
            self._tables = tables
        if not stale:
            return {}
        self._held = _Held(self._tables)
        return _read(root, {path: table for path, table in self._tables.items() if path in stale})

    def _find(self) -> dict[str, Any]:
        spaces, found = _sources.operators()
        self._operators = _marks.Watch(spaces, [_marks.of(space, True) for space in spaces], are_objects=True)
        if self._known is None:
            found.update((p, v) for p, v in _sources.containers().items() if _sources.is_read(v))
        else:
            found.update((p, v) for p in self._known if not p.startswith(OPERATORS) and (v := _sources.at(p)) is not None)
        found[KERNELS] = _sources.kernels
        return found
