# SPDX-License-Identifier: Apache-2.0
"""The catalogue of a build of torch: which entries torch itself puts into the tables of _sources.py, and which functions
its modules have (_functions.py).

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
import marshal
import os
import sys
import threading
import time
from typing import Any, Callable

from warm import _client, _dispatcher, _functions, _in_place, _marks, _sources, _tables, _texts

_OURS = ("_texts.py", "_sources.py", "_operators.py", "_dispatcher.py", "_functions.py", "_in_place.py", "_tables.py",
         "_catalogue.py", "_catalogue_maker.py")  # fmt: skip

def root() -> str:
    """Returns the folder that has torch's package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["torch"].__file__ or "")))


# ---- the value ----


def whole(entries: list[tuple[str, str]]) -> str:
    return hashlib.blake2b(repr(entries).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _packed(before: Any, after: Any) -> dict[str, bytes]:
    """Returns for each table, written by marshal, {key: [how many at the first graph, how many at most, digests of texts]}."""
    known: dict[str, dict[str, Any]] = {path: {} for path in after}
    for path, entries in after.items():
        for key, text in [*entries, *before.get(path, [])]:  # in the order of a list, to which torch has added
            one = known[path].setdefault(key, [0, 0])
            if _texts.digest(text) not in one[2:] and not text.startswith("?"):
                one.append(_texts.digest(text))
        for i, reading in enumerate((before.get(path, []), entries)):
            for key, _ in reading:
                known[path][key][i] += 1
    return {path: marshal.dumps(entries) for path, entries in known.items()}


def _of_constants(path: str) -> bool:
    table = _sources.at(path) if ":" in path and not path.startswith("torch.ops:") else None
    return table is not None and not _sources.is_read(table)


def _loose(before: Any, after: Any) -> set[str]:
    """Returns the paths of the loose tables (_tables.py) of two readings."""
    last = {path: path.rpartition(":")[2].rpartition(".")[2] for path in after[0] if _of_constants(path)}
    changed = _functions.changed_names(after[1], {*last.values()})
    found = set()
    for path, name in last.items():
        entries = after[0][path]
        if not entries or name in changed or sorted(before[0].get(path, entries)) != sorted(entries):
            found.add(path)
    return found


def pack(before: Any, after: Any, dumps: dict[str, str]) -> bytes:
    """Returns the value of a catalogue. `before` and `after` are readings of the tables and of the spaces."""
    loose = _loose(before, after)
    first = {path: "" if path in loose else whole(before[0].get(path, [])) for path in after[0]}
    digests = marshal.dumps({name: _texts.digest(text) for name, text in dumps.items()})
    return marshal.dumps((first, _packed(before[0], after[0]), digests, _functions.pack(before[1], after[1])))


class Catalogue:
    def __init__(self, value: bytes) -> None:
        self.first: dict[str, str]
        self.first, self._known, self._dumps, self.spaces = marshal.loads(value)
        self.loose = {path for path, digest in self.first.items() if not digest}

    def difference(self, path: str, entries: list[tuple[str, str]]) -> str:
        """Returns the name of an entry of a table that is not as torch makes it, or ""."""
        if path not in self.first:
            foreign = path.startswith(_tables.OPERATORS) and entries
            return path if foreign else ""
        if path in self.loose:  # the entries may be from a reading that did not know so
            return next((f"{key} in {path.replace(':', '.')}" for key, text in entries if text == _tables.PROGRAMS), "")
        if self.first[path] == whole(entries):
            return ""
        known = marshal.loads(self._known[path])
        name = self._foreign(known, entries)
        if not name and isinstance(_sources.at(path), (dict, list)):
            name = self._moved(known, entries)
        return f"{name} in {path.replace(':', '.')}" if name else ""

    @staticmethod
    def _foreign(known: dict[str, Any], entries: list[tuple[str, str]]) -> str:
        counts: dict[str, int] = {}
        for key, text in entries:
            if key not in known or _texts.digest(text) not in known[key][2:]:
                return key or text
            counts[key] = counts.get(key, 0) + 1
            if counts[key] > max(known[key][:2]):
                return f"{key} (again)"
        return next((f"{key} (missing)" for key, (n, *_) in known.items() if counts.get(key, 0) < n), "")

    @staticmethod
    def _moved(known: dict[str, Any], entries: list[tuple[str, str]]) -> str:
        """Returns the name of an entry that stands behind one which it precedes in torch's list, or ""."""
        last: dict[str, int] = {}
        for key, text in entries:
            _, n, *digests = known[key]
            at = digests.index(_texts.digest(text)) if len(digests) == n else 0  # else some are equal
            if at < last.get(key, 0):
                return f"{key} (in another order)"
            last[key] = at
        return ""

    def dumped(self, dumps: dict[str, str]) -> str:
        """Returns the name of an operator that C++ of others changed, or ""."""
        known = marshal.loads(self._dumps)
        return next((name for name, text in dumps.items() if known.get(name) != _texts.digest(text)), "")

    def replaced(self, space: _functions.Space) -> str:
        """Returns the name of what a program put in the place of torch's in a space, or ""."""
        name = _functions.foreign(self.spaces.get(space.path), space)
        return f"{space.path.replace(':', '.').rstrip('.')}.{name}" if name else ""


# ---- what this process knows ----


class _State:
    """Compares the tables and the spaces when they have changed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.catalogue: Catalogue | None = None
        self.name: str | None = None
        self.functions: _functions.Watched | None = None
        self.tables = _tables.Watched(None)
        self.libraries = -1
        self.parts: dict[int, tuple[str, Any]] = {}  # what can change in place of all that was read (_texts.py)
        self.references = _marks.References({})  # of the parts
        self.in_place = 0  # _in_place.count at the last look
        self.foreign: dict[str, str] = {}  # what is not torch's, by path
        self.unproven: list[Callable[[], tuple[str, str]]] = []  # verdicts that wait for the catalogue
        self.is_foreign = False
        self.is_given_up = False  # the maker ended without a catalogue
        self.is_there_for_all = False  # all ranks of the job know that it is there

    def why(self) -> str:
        name = _in_place.foreign()
        if name:
            return f"{name} was changed in place: no key has its code"
        collects = gc.isenabled()
        gc.disable()  # it would look at all of torch several times
        try:
            self.look()
        finally:
            if collects:
                gc.enable()
        return next(iter(self.foreign.values()), "")

    def look(self) -> None:
        if self.in_place != _in_place.count:
            self.functions, self.in_place = None, _in_place.count
        if self.functions is None:
            of = self.catalogue
            self.functions = _functions.Watched(of.spaces if of else None, of.first if of else ())
            self.tables = _tables.Watched(list(of.first) if of else None, of.loose if of else ())
            self.libraries = -1
            self.foreign.clear()
            self.parts.clear()
            self.references = _marks.References({})
        reader, changed = _texts.Reader(root()), self.references.changed()
        spaces = self.functions.look(reader, changed)
        for space in spaces:
            self.judge(functools.partial(self.of_space, space))
        for path, entries in self.tables.look(reader, {space.path.partition(':')[0] for space in spaces}, changed).items():
            self.judge(functools.partial(self.of_table, path, entries))
        if not self.parts.keys() >= reader.parts.keys():
            self.parts.update((i, part) for i, part in reader.parts.items() if i not in self.parts)
            self.references = _marks.References(self.grouped())
        if _dispatcher.additions() != self.libraries:
            self.libraries = _dispatcher.additions()
            dumps = _dispatcher.dumps(root()) if _dispatcher.has_registering_library(root()) else {}
            self.judge(functools.partial(self.of_dumps, dumps))

    def grouped(self) -> dict[str, list[Any]]:
        """Returns the parts by their paths."""
        found: dict[str, list[Any]] = {}
        for path, part in self.parts.values():
            found.setdefault(path, []).append(part)
        return found

    def judge(self, verdict: Callable[[], tuple[str, str]]) -> None:
        if self.catalogue is None:
            self.unproven.append(verdict)
            return
        path, why = verdict()
        self.foreign.pop(path, None)
        if why:
            self.foreign[path] = why

    # Each verdict is a name for what was looked at, and why nothing is kept, or "".

    def of_space(self, space: _functions.Space) -> tuple[str, str]:
        assert self.catalogue is not None
        name = self.catalogue.replaced(space)
        return space.path, f"{name} is not as torch has it: no key has its code" if name else ""

    def of_table(self, path: str, entries: list[tuple[str, str]]) -> tuple[str, str]:
        assert self.catalogue is not None
        name = self.catalogue.difference(path, entries)
        return f"table {path}", f"{name} is not as torch makes it: no key has its code" if name else ""

    def of_dumps(self, dumps: dict[str, str]) -> tuple[str, str]:
        assert self.catalogue is not None
        name = self.catalogue.dumped(dumps) if dumps else ""
        why = f"a library of the program gave the operator {name} its own kernel: no key has its code"
        return "dumps", why if name else ""


_state = _State()


def why_not_kept() -> str:
    """Returns why no graph must be kept now, or ""."""
    with _state.lock:
        load()
        return _state.why()


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
        _state.is_foreign = any(verdict()[1] for verdict in _state.unproven)
        _state.unproven.clear()
        _state.functions = None  # all is looked at again
        _state.is_foreign = bool(_state.why()) or _state.is_foreign
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
    from warm import _catalogue_maker
    from warm.torch import key_name

    codecache = sys.modules["torch._inductor.codecache"]
    build = key_name(codecache)
    if build is None:
        return ""
    folder, text = os.path.dirname(os.path.abspath(__file__)), hashlib.sha256(build.encode())
    text.update(f"{sys.version} {os.__file__} {_catalogue_maker.optional()}".encode())
    for library in filter(sys.modules.__contains__, _texts.LIBRARIES):
        init = os.stat(sys.modules[library].__file__ or "")
        version = getattr(sys.modules[library], "__version__", "")
        text.update(f"{_texts.folder_of(library)} {version} {init.st_size} {init.st_mtime_ns} {init.st_ino}".encode())
    for file in _OURS:
        with open(os.path.join(folder, file), "rb") as f:
            text.update(f.read())
    lib = os.path.join(root(), "torch", "lib")
    for entry in sorted(os.scandir(lib), key=lambda e: e.name) if os.path.isdir(lib) else ():
        s = entry.stat()
        text.update(f"{entry.name} {s.st_size} {s.st_mtime_ns} {s.st_ino}".encode())
    return f"torch-catalogue:{text.hexdigest()}"
