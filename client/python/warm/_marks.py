# SPDX-License-Identifier: Apache-2.0
"""Sees which of many dictionaries, lists, sets and cells refer to others than before. libwarm-python.so compares them
(client/walk/watch.h).

Python 3.12 and older give a dictionary a new version at each change (PEP 509), which no function returns, so it is read
from memory. Whether it is where it should be is tried first. Where it is not, the identities of all values are compared.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from warm import _values

_VERSION_AT = 24  # bytes: behind the object's header and the number of entries


def _version(held: dict[Any, Any]) -> int:
    return ctypes.c_uint64.from_address(id(held) + _VERSION_AT).value


class _Object:
    a: Any


@functools.cache
def _has_versions() -> bool:
    """Returns True if each change of an object's attributes gives their dictionary a new version, and nothing else does."""
    one = _Object()
    held = vars(one)
    held["a"] = 1
    for i in range(64):  # so often that Python specializes its code
        seen = [_version(held)]
        held["a"] = i
        seen.append(_version(held))
        one.a = ~i
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


def of(held: dict[Any, Any]) -> Any:
    """Returns a mark, which is another one after each change."""
    if _has_versions():
        return _version(held)
    values = tuple(held.values())
    mark = _Identities(map(id, values))
    mark.kept = values
    return mark


class Watch:
    """Compares what objects refer to with what they referred to at the last look. `compares`: a dictionary that is as before
    has not changed, though it did meanwhile: torch takes some values out for a moment."""

    def __init__(self, compares: bool = False) -> None:
        self._library = _values.library()
        self._watch = self._library.watch_open(_has_versions(), compares)
        if not self._watch:
            raise MemoryError

    def __del__(self) -> None:
        if getattr(self, "_watch", None):
            self._library.watch_close(self._watch)

    def add(self, names: list[Any], objects: list[Any]) -> None:
        """Watches objects from now on, under their names."""
        if self._library.watch_add(self._watch, names, objects):
            raise MemoryError

    def changed(self) -> list[Any]:
        """Returns the names of those that have changed since the last look."""
        return self._library.watch_changed(self._watch)  # type: ignore[no-any-return]
