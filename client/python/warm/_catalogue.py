# SPDX-License-Identifier: Apache-2.0
"""The catalogue of a build of torch: which entries torch itself puts into the tables of _sources.py.

A process of its own makes it (_catalogue_maker.py). It has for each table the entries at the first graph, and those
after all that torch registers late. An entry of a program's table is torch's if the catalogue has its key with its
text. A missing entry is torch's if the catalogue does not have it at the first graph either.

    program: a graph ──▶ is there a catalogue? ──▶ compare ──▶ torch's alone: get and put
                            │ no                          └──▶ else: neither, and `warm why` names the entry
                            └──▶ start its maker; get nothing; hold back what is put until it is there

Any thread.
"""

from __future__ import annotations

import atexit
import functools
import gc
import hashlib
import itertools
import json
import operator
import os
import sys
import threading
import time
import zlib
from typing import Any, Callable, Iterable

from warm import _client, _dispatcher, _sources, _texts

KERNELS, PY_KERNELS, DUMPS = "warm:kernels", "warm:py_kernels", "warm:dumps"  # tables that no path finds
_OURS = ("_texts.py", "_sources.py", "_operators.py", "_dispatcher.py", "_catalogue.py", "_catalogue_maker.py")

Entries = "dict[str, list[tuple[str, str]]]"  # keys and texts, by the path of the table


def root() -> str:
    """Returns the folder that has torch's package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["torch"].__file__ or "")))


# ---- reading the tables ----


def _table(path: str) -> Any:
    if path == KERNELS:
        return _sources.kernels
    return _sources.py_kernels() if path == PY_KERNELS else _sources.at(path)


def _entry(reader: _texts.Reader, key: tuple[Any, ...], value: Any) -> tuple[str, str]:
    try:
        return "|".join(map(reader.whole, key)), reader.whole(value)
    except Exception as e:  # Unknown, or an object that does not like to be looked at
        return "|".join(map(str, key))[:200], f"? {e}"[:80]


def _counts(key: tuple[Any, ...], value: Any) -> bool:
    return not any(map(_sources.is_of_others, key)) and not _sources.is_empty(value)


def read(paths: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """Returns the entries of tables. An entry without a text has one that begins with "?"."""
    reader, found = _texts.Reader(root()), {}
    collects = gc.isenabled()
    gc.disable()  # it would look at all of torch several times
    try:
        for path in paths:
            table = _table(path)
            if table is not None:
                found[path] = [_entry(reader, k, v) for k, v in _sources.leaves(table) if _counts(k, v)]
    finally:
        if collects:
            gc.enable()
    return found


def paths() -> list[str]:
    """Returns the paths of all tables that are there now."""
    return [KERNELS, PY_KERNELS, *(p for p, v in _sources.containers().items() if _sources.is_read(v))]


# ---- the value ----


def whole(entries: list[tuple[str, str]]) -> str:
    return hashlib.blake2b(repr(entries).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def pack(before: Any, after: Any, dumps: dict[str, str]) -> bytes:
    """Returns the value of a catalogue: the digests of all tables at the first graph, in one line, and then, packed,
    {path: {key: [how many at first, [digests of texts]]}}."""
    first = {path: whole(before.get(path, [])) for path in after}
    known: dict[str, dict[str, Any]] = {path: {} for path in after}
    for path, entries in after.items():
        for key, text in [*before.get(path, []), *entries]:
            one = known[path].setdefault(key, [0, []])
            if _texts.digest(text) not in one[1] and not text.startswith("?"):
                one[1].append(_texts.digest(text))
        for key, _ in before.get(path, []):
            known[path][key][0] += 1
    known[DUMPS] = {name: _texts.digest(text) for name, text in dumps.items()}
    return json.dumps(first).encode() + b"\n" + zlib.compress(json.dumps(known).encode(), 6)


class Catalogue:
    def __init__(self, value: bytes) -> None:
        head, _, self._rest = value.partition(b"\n")
        self.first: dict[str, str] = json.loads(head)

    @functools.cached_property
    def known(self) -> dict[str, dict[str, Any]]:
        return json.loads(zlib.decompress(self._rest))  # type: ignore[no-any-return]

    def difference(self, found: dict[str, list[tuple[str, str]]]) -> str:
        """Returns the name of an entry that is not as torch makes it, or ""."""
        for path, entries in found.items():
            if path in self.first and self.first[path] != whole(entries):
                name = self._foreign(self.known[path], entries)
                if name:
                    return f"{name} in {path.replace(':', '.')}"
        return ""

    @staticmethod
    def _foreign(known: dict[str, Any], entries: list[tuple[str, str]]) -> str:
        counts: dict[str, int] = {}
        for key, text in entries:
            if key not in known or _texts.digest(text) not in known[key][1]:
                return key or text
            counts[key] = counts.get(key, 0) + 1
        return next((f"{key} (missing)" for key, (n, _) in known.items() if counts.get(key, 0) < n), "")

    def dumped(self, dumps: dict[str, str]) -> str:
        """Returns the name of an operator that C++ of others changed, or ""."""
        known = self.known[DUMPS]
        return next((name for name, text in dumps.items() if known.get(name) != _texts.digest(text)), "")


# ---- what this process knows ----


class _State:
    """Compares the tables when they have changed. `names` are why_not_kept's."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.catalogue: Catalogue | None = None
        self.name: str | None = None
        self.watch: _Watch | None = None
        self.libraries = -1
        self.why = ""
        self.unproven: list[Any] = []  # readings that wait for the catalogue
        self.is_foreign = False
        self.is_given_up = False  # the maker ended without a catalogue
        self.is_there_for_all = False  # all ranks of the job know that it is there

    def changed(self) -> bool:
        """Returns True if a table or the loaded libraries are not those of the last reading."""
        return self.watch is None or _dispatcher.additions() != self.libraries or self.watch.has_changed()

    def look(self) -> None:
        self.libraries = _dispatcher.additions()
        known = list(self.catalogue.first) if self.catalogue else paths()
        self.watch = _Watch(table for path in known if (table := _table(path)) is not None)
        reading = read(known)
        dumps = _dispatcher.dumps(root()) if _dispatcher.has_registering_library(root()) else {}
        if self.catalogue is None:
            self.unproven.append((reading, dumps))
            self.why = ""
        else:
            self.why = self.verdict(reading, dumps)

    def verdict(self, reading: Any, dumps: dict[str, str]) -> str:
        assert self.catalogue is not None
        name = self.catalogue.difference(reading)
        if name:
            return f"{name} is not as torch makes it: no key has its code"
        name = self.catalogue.dumped(dumps) if dumps else ""
        return f"a library of the program gave the operator {name} its own kernel: no key has its code" if name else ""


class _Watch:
    """Sees by identity whether containers hold what they held. It takes a quarter of a millisecond."""

    def __init__(self, tables: Iterable[Any]) -> None:
        found = {id(one): one for table in tables for one in _sources.nested(table)}
        self._dicts = [one for one in found.values() if isinstance(one, dict)]
        self._others = [one for one in found.values() if not isinstance(one, dict)]
        self._held = self._now()

    def _now(self) -> Any:
        chain = itertools.chain.from_iterable
        lengths = [*map(len, self._dicts), *map(len, self._others)]
        values = chain(map(dict.values, self._dicts))
        return lengths, [*chain(self._dicts), *values, *chain(self._others)]

    def has_changed(self) -> bool:
        lengths, values = self._now()
        return lengths != self._held[0] or not all(map(operator.is_, values, self._held[1]))


_state = _State()


def why_not_kept() -> str:
    """Returns why no graph must be kept now, or ""."""
    with _state.lock:
        load()
        if _state.changed():
            _state.look()
        return _state.why


def why_not_taken() -> str:
    """Returns why no graph must be taken from the cache now, or ""."""
    return why_not_kept() or ("" if load() else "there is no catalogue of this build of torch yet")


@functools.cache
def _asker() -> _client.Client:
    """Returns a client of no job: the ranks of a job poll for the catalogue, each at its own pace, and the daemon would
    give the n-th question of each the same answer."""
    asker = _client.Client(is_of_job=False)
    asker.may_hit = asker.may_ask  # a catalogue is no result: $WARM_RECACHE makes none again
    return asker


def load() -> bool:
    """Returns True if the catalogue is there. Starts its maker if it is not."""
    with _state.lock:
        if _state.catalogue is not None:
            return True
        from warm import _catalogue_maker

        is_first = _state.name is None
        _state.name = name() if is_first else _state.name
        found = _asker().get(_state.name) if _state.name else None
        if found is None:
            if is_first and _state.name:
                _catalogue_maker.start(_state.name)
            return False
        _state.catalogue = Catalogue(found)
        foreign = [why for reading in _state.unproven if (why := _state.verdict(*reading))]
        _state.is_foreign = bool(foreign)
        _state.unproven.clear()
        _state.watch = None  # the catalogue may have tables that were not looked at
        return True


def is_there_for_all() -> bool:
    """Returns True if the catalogue is there for all ranks of this job: each asks once for each graph of which all must
    get the same answer, until the daemon has told them all that it is there."""
    with _state.lock:
        if not _state.is_there_for_all:
            is_there = load()
            if _client.job_id():
                is_there = bool(_state.name) and _client.get(_state.name) is not None and load()
            _state.is_there_for_all = is_there
        return _state.is_there_for_all


# ---- what is put before the catalogue is there ----

_POLL_S = 0.25
_HELD_MAX = 1024  # puts
_END_S = 20.0  # the end of a program waits no longer

_held_back: list[Callable[[], None]] = []
_waiting: list[threading.Thread] = []


def when_there(put: Callable[[], None]) -> None:
    """Calls put() now, or when the catalogue is there; never, if something was not torch's before."""
    with _state.lock:
        if not load():
            if _state.is_given_up or len(_held_back) == _HELD_MAX:
                return
            _held_back.append(put)
            if not _waiting:
                _waiting.append(threading.Thread(target=_wait, name="warm-catalogue", daemon=True))
                _waiting[0].start()
                atexit.register(_end)
            return
        is_foreign = _state.is_foreign
    if not is_foreign:
        put()


def _release() -> None:
    with _state.lock:
        puts, is_foreign = _held_back[:], _state.is_foreign
        _held_back.clear()
    for put in () if is_foreign else puts:
        put()


def _wait() -> None:
    from warm import _catalogue_maker

    while not load() and _catalogue_maker.is_at_work():
        time.sleep(_POLL_S)
    if load():
        _release()
        return
    with _state.lock:
        _state.is_given_up = True
        _held_back.clear()  # which ends their leases: others wait for them


def _end() -> None:
    if _waiting:
        _waiting[0].join(_END_S)


def name() -> str:
    """Returns the name of this build's catalogue, or "" if there can be none."""
    from warm.torch import key_name

    codecache = sys.modules["torch._inductor.codecache"]
    build = key_name(codecache)
    if build is None:
        return ""
    folder, text = os.path.dirname(os.path.abspath(__file__)), hashlib.sha256(build.encode())
    for file in _OURS:
        with open(os.path.join(folder, file), "rb") as f:
            text.update(f.read())
    lib = os.path.join(root(), "torch", "lib")
    for entry in sorted(os.scandir(lib), key=lambda e: e.name) if os.path.isdir(lib) else ():
        s = entry.stat()
        text.update(f"{entry.name} {s.st_size} {s.st_mtime_ns} {s.st_ino}".encode())
    return f"torch-catalogue:{text.hexdigest()}"
