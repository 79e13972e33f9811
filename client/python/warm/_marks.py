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
from typing import Any, Sequence

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


class Watch:
    """Compares the marks of dictionaries with those that they had."""

    def __init__(self, dicts: Sequence[dict[Any, Any]], marks: Sequence[Any], are_objects: bool = False) -> None:
        self._has_versions = _has_versions(are_objects)
        self._dicts, self._marks = dicts, [*marks]
        places = [(id(held) + _VERSION_AT) // _WORD for held in (*dicts, _NOTHING, _NOTHING)]
        self._get = operator.itemgetter(*places)  # a tuple, as these are two or more

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


class References:
    """Compares what objects refer to with what they referred to: cells, lists, dictionaries. The garbage collector lists all
    of it in one pass. The objects are in groups, which have names."""

    def __init__(self, groups: dict[str, list[Any]]) -> None:
        self._groups = groups
        self._seen = {name: gc.get_referents(*objects) for name, objects in groups.items()}
        self._objects = tuple(one for objects in groups.values() for one in objects)
        self._addresses = _addresses(gc.get_referents(*self._objects))

    def changed(self) -> set[str]:
        """Returns the names of the groups whose objects refer to others than at the last look."""
        addresses = _addresses(gc.get_referents(*self._objects))
        if addresses == self._addresses:
            return set()
        self._addresses, found = addresses, set()
        for name, objects in self._groups.items():
            now, seen = gc.get_referents(*objects), self._seen[name]
            if len(now) != len(seen) or not all(map(operator.is_, now, seen)):
                self._seen[name] = now
                found.add(name)
        return found


_ITEMS_AT = 24  # bytes: in a list, behind its header and its length


def _addresses(values: list[Any]) -> bytes:
    """Returns the addresses of a list's values, as they are in memory."""
    if not values:
        return b""
    at = ctypes.c_void_p.from_address(id(values) + _ITEMS_AT).value
    return ctypes.string_at(at or 0, len(values) * _WORD)
