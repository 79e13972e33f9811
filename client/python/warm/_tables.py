# SPDX-License-Identifier: Apache-2.0
"""The tables of _sources.py in this process, as entries: digests of keys and values (_values.py).

A table of constants that torch itself changes, or that is empty at first, is loose: only functions of the program in it count.
A path "torch.ops:NAME" is the table of an operator's kernels in Python. One thread.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Any, Collection, Iterable, Iterator, NamedTuple

from warm import _sources, _values

KERNELS, OPERATORS = "warm:kernels", "torch.ops:"

_OF_INDUCTOR = frozenset(
    f"torch._inductor.lowering:{name}"
    for name in ("lowerings", "fallbacks", "needs_realized_inputs", "_maybe_layout_constraints")
)  # which have each operator that it lowered: _operators.py looks at them

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_NAME_MAX = 200


Entry = tuple[bytes, bytes, tuple[Any, ...]]  # the digest of a key, that of its value (each may be b""), and the key itself, for its name


class Table(NamedTuple):
    digest: bytes  # b"" if it is loose, or if something in it has none
    entries: list[Entry]  # none if the digest is known
    programs: list[str]  # functions of the program in a loose table


def name_of(key: tuple[Any, ...]) -> str:
    """Returns the name of an entry for `warm why`, which is the same in each process."""
    return _ADDRESS.sub("", "|".join(map(str, key)))[:_NAME_MAX]


def _counts(path: str, key: tuple[Any, ...], value: Any) -> bool:
    """Returns False for what torch notes of an operator of others, and for what is empty."""
    has_names = path.startswith(("torch.library:", "torch._library."))
    return not any(_sources.is_of_others(one, has_names) for one in key or (value,)) and not _sources.is_empty(value)


def _read(walker: _values.Walker, tables: dict[str, Any], known: dict[str, tuple[bytes, ...]]) -> dict[str, Table]:
    """Returns tables. `known` has the digests that each may have; without one it is loose."""
    found = {}
    for path, table in tables.items():
        if path in known and not known[path]:
            walker.note(path, [*map(_plain, _sources.nested(table))])
            foreign = (one for k, v in _sources.leaves(table) for one in (*k, v) if _sources.is_foreign(one))
            found[path] = Table(b"", [], [str(one)[:80] for one in foreign])
            continue
        digest = walker.table(path, table)
        entries = []
        if not digest or digest not in known.get(path, ()):
            leaves = ((k, v) for k, v in _sources.leaves(table) if _counts(path, k, v))
            entries = [(walker.value(path, k), walker.value(path, v), k or (v,)) for k, v in leaves]
        found[path] = Table(digest, entries, [])
    return found


def _plain(value: Any) -> Any:
    """Returns the dictionary that an OrderedSet of torch has."""
    return value._dict if type(value).__name__ == "OrderedSet" else value


def read(root: str) -> dict[str, Table]:
    """Returns all tables that are there now. `root` is the folder that has torch's package."""
    return Watched(None).look(_values.Walker(root), (), frozenset())


class Watched:
    """Reads the tables of this process, and then those that have changed. `known` are the digests that each may have, by
    its path; None: all tables there are."""

    def __init__(self, known: dict[str, tuple[bytes, ...]] | None) -> None:
        self._known = known
        self._tables: dict[str, Any] = {}
        self._of_module: dict[str, list[str]] = {}  # the paths of `known`
        for path in known or ():
            self._of_module.setdefault(path.partition(":")[0], []).append(path)
        self._returned = [path for path in known or () if path.endswith("()")]  # at any time
        self._operators = _sources.Operators()

    def look(self, walker: _values.Walker, modules: Collection[str], changed: AbstractSet[str]) -> dict[str, Table]:
        """Returns the tables of the paths `changed`, and those that are new since the last look; at first, all. `modules` are
        those that may have other tables now."""
        found = self._find(modules)
        again = {path for path, table in found.items() if self._tables.get(path) is not table} | (changed & self._tables.keys())
        self._tables.update(found)
        return _read(walker, {path: self._tables[path] for path in again}, self._known or {})

    def with_operators(self, operators: Iterable[Any]) -> Iterator[tuple[Any, str, bool]]:
        """Returns operators of others with the paths of the tables that have them, and True for those that have more of it
        than that."""
        named: dict[int, list[Any]] = {}
        for operator in operators:
            for name in (operator, getattr(operator, "overloadpacket", operator)):
                named.setdefault(id(name), []).append(operator)
        for path, table in self._tables.items() if named else ():
            if path in _OF_INDUCTOR or path.startswith(OPERATORS):
                continue
            for held in _sources.nested(table):
                for name in named.keys() & map(id, held):
                    yield from ((operator, path, isinstance(held, dict)) for operator in named[name])

    def _find(self, modules: Collection[str]) -> dict[str, Any]:
        """Returns the tables of some modules, at first of all; and those of operators, if there are other operators."""
        found: dict[str, Any] = {}
        if self._known is None and (modules or not self._tables):
            found.update(_sources.containers())
        due = modules if self._tables else self._of_module
        for path in (*self._returned, *(path for module in due for path in self._of_module.get(module, ()))):
            if not path.startswith((OPERATORS, KERNELS)):
                found.update([(path, table)] if (table := _sources.at(path)) is not None else ())
        found.update(self._operators.changed())
        found[KERNELS] = _sources.kernels
        return found
