# SPDX-License-Identifier: Apache-2.0
"""Executables that are loaded ahead: in another thread, while JAX still traces and lowers.

    outline of a function ──▶ hint "jax:ahead:2:…" ──▶ the name that such a function had last time
      (shapes, primitives)                                 └─ thread: get, load
    the name, made as always ── the same? ──▶ taken   another: dropped, and the hint is doubted

XLA takes about as long to load the executable of a deep network as Python takes to lower it. Meanwhile it
holds no lock of Python. A hint proves nothing. Two functions with one outline get each other's
hints, which soon are no longer followed. The name decides, and its maker does not use the hint. An
executable of a wrong guess never runs. Its load is safe, because the outline has the processor and the
libraries.

Any thread may make and take a guess; a forked child has none.
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import os
import threading
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, Optional, Type

from warm import _client

log = logging.getLogger("warm.jax")

HINT = "jax:ahead:2:"
MIN_EQUATIONS = 150  # a smaller function is not worth a thread: it loads in a few milliseconds
MIN_BYTES = 32 << 10  # a smaller compressed executable is not worth a hint
WAIT_S = 60.0  # seconds to wait for a load; then the caller goes on without it
DOUBT = 2  # a hint that was wrong that much more often than right is not followed
_MAX_DEPTH = 16  # the outline leaves out functions that are nested deeper

Hint = Dict[str, Any]  # {"name": …, "doubt": …, and fields for `load`}
_DECIDE = {"name", "devices", "full"}  # the fields that make a hint right or wrong


def pays() -> bool:
    """Returns True if guesses pay: there is a second processor, and hits are allowed."""
    return _client.client().may_hit and len(os.sched_getaffinity(0)) > 1


class Outline:
    """Facts about a function that are cheap to read. A hint is stored under their digest."""

    def __init__(self, around: Iterable[str]) -> None:
        self.n_equations = 0
        self._parts: List[str] = list(around)
        self._seen: Dict[int, int] = {}

    def add_values(self, values: Iterable[Any]) -> None:
        """Adds shapes and types of arguments, or of their descriptions."""
        for v in values:
            self._parts.append(f"{getattr(v, 'shape', '')}{getattr(v, 'dtype', type(v).__name__)}")

    def add_jaxpr(self, jaxpr: Any, depth: int = 0) -> None:
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)  # closed or not
        if depth > _MAX_DEPTH or id(jaxpr) in self._seen:
            self._parts.append(f"again {self._seen.get(id(jaxpr), '')}")
            return
        self._seen[id(jaxpr)] = len(self._seen)
        self.n_equations += len(jaxpr.eqns)
        for eqn in jaxpr.eqns:
            shape = getattr(eqn.outvars[0].aval, "shape", "") if eqn.outvars else ""
            self._parts.append(f"{eqn.primitive.name}{shape}")
            for value in eqn.params.values():
                if hasattr(getattr(value, "jaxpr", value), "eqns"):
                    self.add_jaxpr(value, depth + 1)

    def digest(self) -> str:
        return hashlib.sha256("\0".join(self._parts).encode()).hexdigest()[:32]


class Guess:
    """One load ahead. `load` gets the hint in a thread of its own, and may return None or raise."""

    def __init__(self, outline: str, load: Callable[[Hint], Any]) -> None:
        self._outline = outline
        self._load = load
        self.hint: Hint = {}  # empty: there was none
        self._hinted = threading.Event()
        self._result: Any = None
        self._pid = os.getpid()
        # Not a daemon thread: one that comes back from C++ while the interpreter ends would crash.
        self._thread = threading.Thread(target=self._run, name="warm-ahead")
        self._thread.start()

    def _run(self) -> None:
        try:
            value = _client.client().get(HINT + self._outline)
            if value is None:
                return
            hint: Hint = json.loads(value)
            hint["doubt"] = int(hint["doubt"])
            self.hint = hint
            self._hinted.set()
            if self.is_followed:
                self._result = self._load(hint)
        except Exception as e:
            log.debug("ahead: %r", e)
        finally:
            self._hinted.set()

    @property
    def is_followed(self) -> bool:
        """Returns True if there is a hint that was right often enough."""
        return bool(self.hint) and bool(self.hint["doubt"] < DOUBT)

    def says(self, field: str, value: Any) -> bool:
        """Waits for the hint. Returns True if its field has this value; False without a hint."""
        is_here = self._pid == os.getpid() and self._hinted.wait(WAIT_S)
        return is_here and field in self.hint and bool(self.hint[field] == value)

    def take(self, name: str) -> Any:
        """Returns the executable that was loaded under that name, or None. Only the first taker gets it."""
        if not self.says("name", name):
            return None
        self._thread.join(WAIT_S)
        result, self._result = self._result, None
        if result is not None and self.hint["doubt"]:
            self.learn(self.hint)
        return result

    def learn(self, hint: Hint) -> None:
        """Stores the name that the next process must load for such a function."""
        had = self.hint if self._hinted.is_set() else {}
        doubt = had.get("doubt", 0)
        if had and all(had.get(field) == hint[field] for field in _DECIDE & hint.keys()):
            if doubt == 0:
                return
            doubt -= 1
        elif had:
            doubt = min(doubt + 1, DOUBT + 1)
        value = json.dumps({**hint, "doubt": doubt}).encode()
        _client.client().put(HINT + self._outline, value, label="loaded ahead")


class gc_paused:
    """A context without the cyclic garbage collector. While JAX is imported or traces, the collector would go
    through all objects again and again, and free nearly none."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._was_on:
            gc.enable()
