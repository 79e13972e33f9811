# SPDX-License-Identifier: Apache-2.0
"""Sees which of many dictionaries have changed, and which of many objects refer to others than before.

Python 3.13 and older give a dictionary a new version at each change (PEP 509), which no function returns, so it is read
from memory. Whether it is where it should be is tried first. Where it is not, as in later Pythons, the identities of
all values are compared: it takes some milliseconds in place of 0.1.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import operator
import types
from typing import Any, Callable, Sequence

_VERSION_AT = 24  # bytes: behind the object's header and the number of entries
_WORD = 8
_NOTHING: dict[Any, Any] = {}


@functools.cache
def _memory() -> Any:
    return (ctypes.c_uint64 * (2**60 - 1)).from_address(0)


def _version(held: dict[Any, Any]) -> int:
    return ctypes.c_uint64.from_address(id(held) + _VERSION_AT).value


class _Object:
    a: Any


@functools.cache
def _has_versions(is_object: bool) -> bool:
    """Returns True if each change of a dictionary, or of an object's attributes, gives it a new version, and nothing else
    does. In Python 3.13 the latter is not so."""
    one = _Object()
    held = vars(one) if is_object else {"a": 1}
    for i in range(64):  # so often that Python specializes its code
        seen = [_version(held)]
        held["a"] = i
        seen.append(_version(held))
        if is_object:
            one.a = ~i
        else:
            held.update(a=~i)
        seen.append(_version(held))
        held["b"] = i
        seen.append(_version(held))
        del held["b"]
        seen.append(_version(held))
        held.get("a"), held.copy(), len(held)
        if len(set(seen)) != len(seen) or _version(held) != seen[-1]:
            return False
    return True


class _Identities(tuple[int, ...]):
    """The identities of a dictionary's values, which it keeps alive."""

    kept: Any


def of(held: dict[Any, Any], is_object: bool = False) -> Any:
    """Returns a mark, which is another one after each change. `is_object`: it has the attributes of an object."""
    if _has_versions(is_object):
        return _version(held)
    values = tuple(held.values())
    mark = _Identities(map(id, values))
    mark.kept = values
    return mark


def of_all(dicts: list[dict[Any, Any]], are_objects: bool = False) -> list[Any]:
    """Returns the marks of dictionaries."""
    if not _has_versions(are_objects):
        return [of(held, are_objects) for held in dicts]
    return list(_getter(dicts)(_memory())[:-2])


def _getter(dicts: Sequence[dict[Any, Any]]) -> Any:
    places = [(id(held) + _VERSION_AT) // _WORD for held in (*dicts, _NOTHING, _NOTHING)]
    return operator.itemgetter(*places)  # of a tuple, as these are two or more


class Watch:
    """Compares the marks of dictionaries with those that they had."""

    def __init__(self, dicts: Sequence[dict[Any, Any]], marks: Sequence[Any], are_objects: bool = False) -> None:
        self._has_versions = _has_versions(are_objects)
        self._dicts, self._marks = dicts, [*marks]
        self._get = _getter(dicts)

    def changed(self) -> list[int]:
        """Returns which dictionaries have changed, as indexes."""
        if self._has_versions:
            now = [*self._get(_memory())[:-2]]
        else:
            now = [tuple(map(id, held.values())) for held in self._dicts]
        if now == self._marks:
            return []
        return [i for i, (a, b) in enumerate(zip(now, self._marks)) if a != b]

    def set(self, i: int, mark: Any) -> None:
        self._marks[i] = mark


class _Held:
    """What objects hold, in one list: Python looks at each container whenever it collects garbage."""

    def __init__(self, objects: list[Any], inside: Callable[[Any], list[Any]]) -> None:
        self._objects, self._inside = objects, inside
        self._held: list[Any] = []
        self._ends = [0]
        self._newer: dict[int, list[Any]] = {}
        for one in objects:
            self._held += inside(one)
            self._ends.append(len(self._held))

    def has_changed(self, i: int) -> bool:
        """Returns True if an object holds others than at the last call."""
        now, seen = self._inside(self._objects[i]), self._newer.get(i)
        if seen is None:
            seen = self._held[self._ends[i] : self._ends[i + 1]]
        if len(now) == len(seen) and all(map(operator.is_, now, seen)):
            return False
        self._newer[i] = now
        return True


_GROUP = 64  # objects whose references are compared at once


class References:
    """Compares what objects refer to with what they referred to: cells, dictionaries, lists, sets. `paths` are their names."""

    def __init__(self, paths: list[str], parts: list[Any]) -> None:
        self.paths, self.parts = paths, parts
        kinds = {kind: 0 if kind is types.CellType else 1 if issubclass(kind, dict) else 2 for kind in {*map(type, parts)}}
        groups: tuple[list[int], ...] = ([], [], [])
        for i, part in enumerate(parts):
            groups[kinds[type(part)]].append(i)
        self._cells, self._dicts, self._others = groups
        cells, dicts, others = ([parts[i] for i in group] for group in groups)
        self._of_cells, self._in_cells = cells, _contents(cells)
        self._marks, self._in_dicts = Watch(dicts, of_all(dicts, True), are_objects=True), _Held(dicts, _keys_and_values)
        self._in_others = _Held(others, gc.get_referents)
        self._groups = [others[i : i + _GROUP] for i in range(0, len(others), _GROUP)]
        self._addresses = [_addresses(gc.get_referents(*group)) for group in self._groups]

    def changed(self) -> set[str]:
        """Returns the names of the objects that refer to others than at the last look."""
        return {self.paths[i] for i in (*self._changed_cells(), *self._changed_dicts(), *self._changed_others())}

    def _changed_cells(self) -> list[int]:
        seen, self._in_cells = self._in_cells, _contents(self._of_cells)
        if all(map(operator.is_, self._in_cells, seen)):
            return []
        return [i for i, a, b in zip(self._cells, self._in_cells, seen) if a is not b]

    def _changed_dicts(self) -> list[int]:
        changed = self._marks.changed()
        for i, mark in zip(changed, of_all([self.parts[self._dicts[i]] for i in changed], True)):
            self._marks.set(i, mark)
        return [self._dicts[i] for i in changed if self._in_dicts.has_changed(i)]  # torch takes some out for a moment

    def _changed_others(self) -> list[int]:
        seen, self._addresses = self._addresses, [_addresses(gc.get_referents(*group)) for group in self._groups]
        changed = [i for i, (a, b) in enumerate(zip(self._addresses, seen)) if a != b]
        places = (k for i in changed for k in range(i * _GROUP, i * _GROUP + len(self._groups[i])))
        return [self._others[k] for k in places if self._in_others.has_changed(k)]


def _keys_and_values(held: dict[Any, Any]) -> list[Any]:
    return [*held, *held.values()]


_content = operator.attrgetter("cell_contents")


def _contents(cells: list[Any]) -> list[Any]:
    try:
        return [*map(_content, cells)]
    except ValueError:  # one is empty
        return [next(iter(gc.get_referents(cell)), _NOTHING) for cell in cells]


_ITEMS_AT = 24  # bytes: in a list, behind its header and its length


def _addresses(values: list[Any]) -> bytes:
    """Returns the addresses of a list's values, as they are in memory."""
    if not values:
        return b""
    at = ctypes.c_void_p.from_address(id(values) + _ITEMS_AT).value
    return ctypes.string_at(at or 0, len(values) * _WORD)
