# SPDX-License-Identifier: Apache-2.0
"""The catalogue of a build of torch: which entries torch itself puts into the tables of _sources.py, and which functions
its modules have (_functions.py).

A process of its own makes it (_catalogue_maker.py). It has the digests (_values.py) of each table and of its entries at the
first graph, and those after all that torch registers late. A table with one of these digests is torch's. In any other each
entry counts: it is torch's if the catalogue has its key with its value. A missing entry is torch's if the catalogue does not
have it in both.

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
from typing import Any, Callable, Iterable

from warm import _client, _dispatcher, _functions, _in_place, _marks, _operators, _sources, _tables, _values

_OURS = ("_values.py", "_sources.py", "_operators.py", "_dispatcher.py", "_functions.py", "_in_place.py", "_tables.py",
         "_catalogue.py", "_catalogue_maker.py")  # fmt: skip

def root() -> str:
    """Returns the folder that has torch's package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["torch"].__file__ or "")))


# ---- the value ----


def _packed(before: dict[str, _tables.Table], after: dict[str, _tables.Table], path: str) -> bytes:
    """Returns a table, written by marshal: {key: [name, how many at the first graph, how many later, digests of values]}."""
    known: dict[bytes, Any] = {}
    entries, first = after[path].entries, before[path].entries if path in before else []
    for digest_of_key, digest, key in [*entries, *first]:  # in the order of a list, to which torch has added
        one = known.setdefault(digest_of_key, [_tables.name_of(key), 0, 0])
        if digest and digest not in one[3:]:
            one.append(digest)
    for i, reading in enumerate((first, entries)):
        for key, _, _ in reading:
            known[key][1 + i] += 1
    return marshal.dumps(known)


def _of_constants(path: str) -> bool:
    table = _sources.at(path) if ":" in path and not path.startswith("torch.ops:") else None
    return table is not None and not _sources.is_read(table)


def _loose(before: Any, after: Any) -> set[str]:
    """Returns the paths of the loose tables (_tables.py) of two readings."""
    last = {path: path.rpartition(":")[2].rpartition(".")[2] for path in after[0] if _of_constants(path)}
    changed = _functions.changed_names(after[1], {*last.values()})
    found = set()
    for path, name in last.items():
        entries = after[0][path].entries
        if not entries or name in changed or sorted(before[0].get(path, after[0][path]).entries) != sorted(entries):
            found.add(path)
    return found


def pack(before: Any, after: Any, dumps: dict[str, str]) -> bytes:
    """Returns the value of a catalogue. `before` and `after` are readings of the tables and of the spaces."""
    loose, tables = _loose(before, after), {}
    for path, table in after[0].items():
        digests = {table.digest, before[0][path].digest if path in before[0] else _NO_TABLE} - {b""}
        tables[path] = () if path in loose else tuple(digests or {_NO_TABLE}), _packed(before[0], after[0], path)
    digests = marshal.dumps({name: _digest(text) for name, text in dumps.items()})
    return marshal.dumps((tables, digests, _functions.pack(before[1], after[1])))


_NO_TABLE = b"?"  # stands for a digest


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Catalogue:
    def __init__(self, value: bytes) -> None:
        tables, self._dumps, self.spaces = marshal.loads(value)
        self.tables: dict[str, tuple[bytes, ...]] = {path: digests for path, (digests, _) in tables.items()}
        self._entries = {path: entries for path, (_, entries) in tables.items()}

    def is_torchs(self, path: str, table: _tables.Table) -> bool:
        """Returns True if a table has the digest of one of torch's readings, or if it is loose and without the program's."""
        known = self.tables.get(path)
        if known is None:
            return False
        return table.digest in known if known else not table.programs

    def difference(self, path: str, table: _tables.Table) -> str:
        """Returns the name of an entry of a table that is not as torch makes it, or ""."""
        if path not in self.tables:
            foreign = path.startswith(_tables.OPERATORS) and table.entries
            return path if foreign else ""
        if self.is_torchs(path, table):
            return ""
        if not self.tables[path]:  # loose; the table may have been read without knowing so
            name = next(iter(table.programs), "")
        else:
            known = marshal.loads(self._entries[path])
            name = self._foreign(known, table.entries)
            if not name and isinstance(_sources.at(path), (dict, list)):
                name = self._moved(known, table.entries)
        return f"{name} in {path.replace(':', '.')}" if name else ""

    @staticmethod
    def _foreign(known: dict[bytes, Any], entries: list[_tables.Entry]) -> str:
        counts: dict[bytes, int] = {}
        for at, digest, key in entries:
            if not at or at not in known or digest not in (known[at][3:] or (b"",)):  # torch's own may be too large for a digest
                return _tables.name_of(key)
            counts[at] = counts.get(at, 0) + 1
            if counts[at] > max(known[at][1:3]):
                return f"{_tables.name_of(key)} (again)"
        return next((f"{name} (missing)" for at, (name, *n) in known.items() if counts.get(at, 0) < min(n[:2])), "")

    @staticmethod
    def _moved(known: dict[bytes, Any], entries: list[_tables.Entry]) -> str:
        """Returns the name of an entry that stands behind one which it precedes in torch's list, or ""."""
        last: dict[bytes, int] = {}
        for digest_of_key, digest, key in entries:
            _, _, n, *digests = known[digest_of_key]
            at = digests.index(digest) if len(digests) == n else 0  # else some are equal
            if at < last.get(digest_of_key, 0):
                return f"{_tables.name_of(key)} (in another order)"
            last[digest_of_key] = at
        return ""

    def dumped(self, dumps: dict[str, str]) -> str:
        """Returns the name of an operator that C++ of others changed, or ""."""
        known = marshal.loads(self._dumps)
        return next((name for name, text in dumps.items() if known.get(name) != _digest(text)), "")

    def replaced(self, space: _functions.Space) -> str:
        """Returns the name of what a program put in the place of torch's in a space, or ""."""
        name = _functions.foreign(self.spaces, space)
        return f"{space.path.replace(':', '.').rstrip('.')}.{name}" if name else ""


# ---- what this process knows ----


class _State:
    """Compares the tables and the spaces when they have changed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.catalogue: Catalogue | None = None
        self.name: str | None = None
        self.functions: _functions.Watched | None = None
        self.tables: _tables.Watched  # as soon as there are functions
        self.libraries = -1
        self.parts: _marks.Watch  # what can change in place of all that was read, by path; as soon as there are functions
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
        except BaseException:
            self.functions = None  # look at all again: a watch tells each change only once
            raise
        finally:
            if collects:
                gc.enable()
        return next(iter(self.foreign.values()), "")

    def look(self) -> None:
        if self.in_place != _in_place.count:
            self.functions, self.in_place = None, _in_place.count
        if self.functions is None:
            of = self.catalogue
            self.functions = _functions.Watched(of.spaces if of else None, of.tables if of else ())
            self.tables = _tables.Watched(of.tables if of else None)
            self.libraries = -1
            self.foreign.clear()
            self.parts = _marks.Watch(compares=True)
        walker, changed = _values.Walker(root()), {*self.parts.changed()}
        todo = self.functions.changed(changed)
        # Tables first: a function may enclose one, which is then watched under the table's path.
        tables = self.tables.look(walker, todo.modules if todo else (), changed)
        is_torchs = self.catalogue.is_torchs if self.catalogue else lambda path, table: False
        for path, table in tables.items():
            if is_torchs(path, table):
                self.foreign.pop(f"table {path}", None)
            else:
                self.judge(functools.partial(self.of_table, path, table))
        known = self.catalogue.spaces if self.catalogue else {}
        for space in self.functions.look(walker, todo) if todo else ():
            if space.digest in known.get(space.path, ((),))[0]:
                self.foreign.pop(space.path, None)
            else:
                self.judge(functools.partial(self.of_space, space))
        self.parts.add(*walker.parts())
        if _dispatcher.additions() != self.libraries:
            self.libraries = _dispatcher.additions()
            dumps = _dispatcher.dumps(root()) if _dispatcher.has_registering_library(root()) else {}
            self.judge(functools.partial(self.of_dumps, dumps))

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

    def of_table(self, path: str, table: _tables.Table) -> tuple[str, str]:
        assert self.catalogue is not None
        name = self.catalogue.difference(path, table)
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


def registered(operators: Iterable[Any]) -> str:
    """Returns in which tables of torch operators of others are. Raises _operators.Unknown for one with a value in a table.
    why_not_kept() was called."""
    found = set()
    with _state.lock:
        for operator, path, has_value in _state.tables.with_operators(operators):
            if has_value:
                raise _operators.Unknown(f"what {path.replace(':', '.')} has of {operator} is in no key")
            found.add(f"{operator} in {path}")
    return "\n".join(sorted(found))


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


def is_there() -> bool:
    return _state.catalogue is not None


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


# ---- fork ----

_FORK_S = 1.0  # a fork waits no longer for another thread's look
_is_held: dict[int, bool] = {}  # by thread


def _before_fork() -> None:
    _is_held[threading.get_ident()] = _state.lock.acquire(timeout=_FORK_S)


def _after_fork_in_parent() -> None:
    if _is_held.pop(threading.get_ident()):
        _state.lock.release()


def _after_fork_in_child() -> None:
    """Begins anew if another thread was looking: it is not in the child, and would hold the lock for ever."""
    _held_back.clear()  # the parent puts them
    _waiting.clear()
    if _is_held.pop(threading.get_ident()):
        _state.lock.release()
    else:
        _state.__init__()  # type: ignore[misc]


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def name() -> str:
    """Returns the name of this build's catalogue, or "" if there can be none."""
    from warm import _catalogue_maker
    from warm.torch import key_name

    codecache = sys.modules["torch._inductor.codecache"]
    build = key_name(codecache)
    if build is None:
        return ""
    folder, text = os.path.dirname(os.path.abspath(__file__)), hashlib.sha256(build.encode())
    text.update(f"{sys.version} {_catalogue_maker.flags()} {os.__file__} {_catalogue_maker.optional()}".encode())
    for library in filter(sys.modules.__contains__, _values.LIBRARIES):
        init = os.stat(sys.modules[library].__file__ or "")
        version = getattr(sys.modules[library], "__version__", "")
        text.update(f"{_values.folder_of(library)} {version} {init.st_size} {init.st_mtime_ns} {init.st_ino}".encode())
    for file in (*_OURS, _values.library()._name):
        with open(os.path.join(folder, file), "rb") as f:
            text.update(f.read())
    lib = os.path.join(root(), "torch", "lib")
    for entry in sorted(os.scandir(lib), key=lambda e: e.name) if os.path.isdir(lib) else ():
        s = entry.stat()
        text.update(f"{entry.name} {s.st_size} {s.st_mtime_ns} {s.st_ino}".encode())
    return f"torch-catalogue:{text.hexdigest()}"
