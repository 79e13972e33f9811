# SPDX-License-Identifier: Apache-2.0
"""Guesses at JAX's next requests to its compilation cache (_ahead.py).

    _infer_params(function, arguments)        "trace": by the shapes of many arguments, as tracing begins
    lower_jaxpr_to_module(jaxpr)              "lower": by the whole jaxpr, as lowering begins
        │        └─ is it what "trace" expected? then that is the guess
        └─ module ──▶ Foresight ──▶ taken by the name, or learnt from

Tracing takes several times as long as loading, so an executable is loaded before JAX asks for it. The
hint of "trace" names the expected jaxpr. If JAX traced another one, "lower" makes a guess of its own.

At most FUNCTIONS_MAX functions of a process are guessed by their arguments, each once. The guesses of the
PENDING_MAX functions that were traced last wait for their lowering.

If something is not as expected, each hook does what JAX itself would do. Any thread.
"""

from __future__ import annotations

import collections
import inspect
import logging
import threading
import weakref
from typing import Any, Callable, Deque, Iterable, List, NamedTuple, Optional

from warm.jax import _ahead, _keys

log = logging.getLogger("warm.jax")

MIN_LEAVES = 16  # a function with fewer arguments is not worth a guess
FUNCTIONS_MAX = 64
PENDING_MAX = 4  # functions that were traced and not lowered yet

_thread = threading.local()


class blind:
    """A context without guesses for the functions that this thread traces and lowers."""

    def __enter__(self) -> None:
        self._was = getattr(_thread, "blind", False)
        _thread.blind = True

    def __exit__(self, *error: Any) -> None:
        _thread.blind = self._was


class Foresight(NamedTuple):
    """The guesses at the executable of one module."""

    guesses: List[_ahead.Guess]
    full: str  # the outline of its jaxpr

    def take(self, name: str, devices: List[int]) -> Any:
        """Returns (executable, seconds that its compile took), or None."""
        for guess in self.guesses:
            found = guess.take(name) if guess.says("devices", devices) else None
            if found is not None:
                for other in self.guesses:
                    if other is not guess:
                        other.learn(guess.hint)
                return found
        return None

    def learn(self, hint: _ahead.Hint) -> None:
        """Stores the correct guess."""
        for guess in self.guesses:
            guess.learn({**hint, "full": self.full})


class _Traced(NamedTuple):
    guess: _ahead.Guess
    results: List[str]  # shapes and types, which identify its jaxpr


class _Lowered(NamedTuple):
    module: Any
    foresight: Foresight


class _Guesser:
    """Makes the guesses of one process. `load`(name, options, backend, devices) is JAX's own."""

    def __init__(self, load: Callable[..., Any]) -> None:
        self._load = load
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()
        self._n_begun = 0
        self._pending: Deque[_Traced] = collections.deque(maxlen=PENDING_MAX)

    def _outline(self, backend: Any, when: str) -> _ahead.Outline:
        around = [when, backend.platform_version, _keys.libraries("cpu"), _keys.processor()]
        return _ahead.Outline([*around, str(backend.device_count())])

    def _guess(self, outline: str, backend: Any) -> _ahead.Guess:
        def load(hint: _ahead.Hint) -> Any:
            from jax._src.lib import xla_client

            options = xla_client.CompileOptions.ParseFromString(bytes.fromhex(hint["options"]))
            by_id = {d.id: d for d in backend.devices()}
            devices = xla_client.DeviceList(tuple(by_id[i] for i in hint["devices"]))
            found = self._load(hint["name"], options, backend, devices)
            return found if found[0] is not None else None

        return _ahead.Guess(outline, load)

    def of_arguments(self, function: Any, args: Any, kwargs: Any) -> Optional[_ahead.Guess]:
        """Begins a guess for a function before it is traced. Returns None if the function is not worth one,
        or had one before."""
        from jax._src import tree_util, xla_bridge

        leaves = tree_util.tree_leaves((args, kwargs))
        if len(leaves) < MIN_LEAVES or function in self._begun or not _ahead.pays():
            return None
        backend = xla_bridge.get_backend()
        if backend.platform != "cpu":
            return None
        self._begun.add(function)
        self._n_begun += 1
        outline = self._outline(backend, "trace")
        outline.add_values(leaves)
        return self._guess(outline.digest(), backend)

    def may_begin(self) -> bool:
        return self._n_begun < FUNCTIONS_MAX and not getattr(_thread, "blind", False)

    def traced(self, guess: _ahead.Guess, jaxpr: Any) -> None:
        self._pending.append(_Traced(guess, _shapes(jaxpr.outvars)))

    def of_jaxpr(self, arguments: Iterable[Any], backend: Any) -> Optional[Foresight]:
        """Begins guesses for a jaxpr before it is lowered. Returns None if it is not worth one."""
        jaxprs = [v for v in (getattr(a, "jaxpr", a) for a in arguments) if hasattr(v, "eqns")]
        is_plain = len(jaxprs) == 1 and getattr(backend, "platform", "") == "cpu"
        if not is_plain or getattr(_thread, "blind", False) or not _ahead.pays():
            return None
        outline = self._outline(backend, "lower")
        outline.add_values(v.aval for v in jaxprs[0].invars)
        outline.add_jaxpr(jaxprs[0])
        if outline.n_equations < _ahead.MIN_EQUATIONS:
            return None
        full = outline.digest()
        early = self._claim(_shapes(jaxprs[0].outvars))
        if early is not None and early.says("full", full) and early.is_followed:
            return Foresight([early], full)
        late = self._guess(full, backend)
        return Foresight([late, early] if early else [late], full)

    def _claim(self, results: List[str]) -> Optional[_ahead.Guess]:
        """Returns the newest guess whose function was traced with such results, for its lowering."""
        for traced in reversed(list(self._pending)):
            if traced.results == results:
                try:
                    self._pending.remove(traced)
                except ValueError:  # another thread has it
                    continue
                return traced.guess
        return None


def _shapes(variables: Iterable[Any]) -> List[str]:
    return [str(v.aval) for v in variables]


def of_module(candidates: Iterable[Any]) -> Optional[Foresight]:
    """Returns this thread's guesses for one of these modules, if the thread lowered it last. Only the first
    caller gets them."""
    lowered: Optional[_Lowered] = getattr(_thread, "lowered", None)
    if lowered is None or not any(v is lowered.module for v in candidates):
        return None
    _thread.lowered = None
    return lowered.foresight


# ---- the hooks ----


def _hook_tracing(guesser: _Guesser, pjit: Any, is_outermost: Callable[[], bool]) -> None:
    stock = pjit._infer_params

    def _infer_params(function: Any, info: Any, args: Any, kwargs: Any) -> Any:
        guess = None
        try:
            if is_outermost() and guesser.may_begin():
                guess = guesser.of_arguments(function, args, kwargs)
        except Exception as e:
            log.debug("ahead: %r", e)
        result = stock(function, info, args, kwargs)
        if guess is not None:
            try:
                guesser.traced(guess, result[0].params["jaxpr"].jaxpr)
            except Exception as e:
                log.debug("ahead: %r", e)
        return result

    pjit._infer_params = _infer_params


def _hook_lowering(guesser: _Guesser, mlir: Any) -> None:
    stock = mlir.lower_jaxpr_to_module

    def lower_jaxpr_to_module(*a: Any, **k: Any) -> Any:
        foresight = None
        try:
            foresight = guesser.of_jaxpr(a, k.get("backend"))
        except Exception as e:
            log.debug("ahead: %r", e)
        result = stock(*a, **k)
        if foresight is not None:
            _thread.lowered = _Lowered(result.module, foresight)
        return result

    mlir.lower_jaxpr_to_module = lower_jaxpr_to_module


def install(load: Callable[..., Any]) -> None:
    """Hooks JAX, if it is as expected. `load` is JAX's get_executable_and_time."""
    from jax._src import core, pjit
    from jax._src.interpreters import mlir

    if "executable_devices" not in inspect.signature(load).parameters:
        return
    if not callable(getattr(mlir, "lower_jaxpr_to_module", None)):
        return
    guesser = _Guesser(load)
    _hook_lowering(guesser, mlir)
    infer = getattr(pjit, "_infer_params", None)
    if callable(infer) and len(inspect.signature(infer).parameters) == 4:
        _hook_tracing(guesser, pjit, core.trace_state_clean)
