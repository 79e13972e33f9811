# SPDX-License-Identifier: Apache-2.0
"""warm.jax.jit: jax.jit without lowering and compiling, if another process has compiled the function.

    arguments ──trace──▶ jaxpr ──digest──▶ "jaxjit:2:…" ──▶ executable ──load──▶ call
        │                                     └─ not there: jax.jit compiles, its executable is kept
        └─shapes──▶ meanwhile a thread loads the executable of the last time (_ahead.py)

Of a gradient (warm.jax.grad, warm.jax.value_and_grad) only the forward function is traced. The backward
pass is kept, and neither differentiation nor lowering nor compilation runs again. That is sound: a
gradient depends on the forward jaxpr and on the rules of its custom_jvp and custom_vjp calls alone.
_jaxpr.py hashes both, or gives up.

In all other cases warm.jax.jit is jax.jit with JAX's cache: static or sharded arguments, effects, other
devices, the program's own rules of differentiation, rules that the program registered for JAX's own
primitives (_rules.py), settings with which jax.jit watches each call (jax_debug_nans), dumps, tracing
inside of another transformation. Results are those of jax.jit, bit for bit, because the executable is
the same. Any thread.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
import threading
import time
import types
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import jax

from warm import _client, _dumps, _library
from warm.jax import _ahead, _cache, _entry, _foresight, _jaxpr, _keys, _rules

log = logging.getLogger("warm.jax")

MAX_EXECUTABLES = 8  # of one function, for arguments of different shapes
_PLAIN_OPTIONS = frozenset(("donate_argnums", "donate_argnames", "keep_unused", "inline"))
_WEAK = (int, float, complex)  # Python's numbers: JAX types them weakly


class Gradient:
    """jax.grad or jax.value_and_grad of a function, together with that function."""

    def __init__(self, forward: Callable[..., Any], with_value: bool, **options: Any) -> None:
        functools.update_wrapper(self, forward)

        # JAX remembers a trace by its function. So each gradient has a function of its own.
        @functools.wraps(forward)
        def function(*args: Any, **kwargs: Any) -> Any:
            return forward(*args, **kwargs)

        self.forward = function
        self.with_value = with_value
        self.options = options
        self._call = (jax.value_and_grad if with_value else jax.grad)(forward, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def result_tree(self, args: Any, forward_result: Any) -> Any:
        """Returns the structure of the result, from that of the forward function."""
        argnums = self.options.get("argnums", 0)
        gradient = args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)
        if self.with_value:
            return jax.tree_util.tree_structure((forward_result, gradient))
        if self.options.get("has_aux"):
            return jax.tree_util.tree_structure((gradient, forward_result[1]))
        return jax.tree_util.tree_structure(gradient)


def value_and_grad(fun: Callable[..., Any], argnums: Any = 0, **options: Any) -> Gradient:
    """Returns jax.value_and_grad(fun) in a form that warm.jax.jit need not differentiate again."""
    return Gradient(fun, True, argnums=argnums, **options)


def grad(fun: Callable[..., Any], argnums: Any = 0, **options: Any) -> Gradient:
    """Returns jax.grad(fun) in a form that warm.jax.jit need not differentiate again."""
    return Gradient(fun, False, argnums=argnums, **options)


def _setting(args: Any, kwargs: Any) -> Tuple[Any, ...]:
    """Returns JAX's settings, and which arguments are weakly typed. The executable depends on both, and
    does not check them when it is called."""
    from jax._src import config

    leaves = jax.tree_util.tree_leaves((args, kwargs))
    weak = [getattr(v, "weak_type", type(v) in _WEAK) for v in leaves]
    return config.trace_context(), config.default_device.value, config.disable_jit.value, weak, *_beside(config), _epochs()(_KEY)


def _beside(config: Any) -> List[Any]:
    """Returns the settings that are in the key of jax.jit, but not in the context of a trace."""
    states = (getattr(config, name, None) for name in ("optimization_level", "memory_fitting_level", "device_context"))
    return [getattr(state, "value", None) for state in states]


class _Key:
    """The only key of _epochs()."""


_KEY = _Key()


@functools.lru_cache(maxsize=1)
def _epochs() -> Any:
    """Returns a function that gives _KEY another object after each jax.clear_caches()."""
    from jax._src import util

    return util.weakref_lru_cache(lambda key: object())


# Settings with which jax.jit looks at each call, or at its results.
_WATCHES = ("debug_nans", "debug_infs", "check_tracer_leaks", "no_tracing", "enable_checks", "debug_key_reuse")


def _is_watched() -> bool:
    from jax._src import config

    return any(getattr(getattr(config, name, None), "value", False) for name in _WATCHES)


class _Made(NamedTuple):
    setting: Tuple[Any, ...]  # under which it was made
    call: Any


class _Call(NamedTuple):
    """One set of arguments, traced."""

    name: str  # "" if not all of it is known: it is not kept
    in_tree: Any
    out_tree: Any
    forward: Any = None  # a function that runs the trace


class Jit:
    """The result of jit(). `lower` and all other attributes are those of jax.jit."""

    def __init__(self, fun: Callable[..., Any], options: Dict[str, Any]) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._options = options
        self._plain = jax.jit(fun, **options)
        self._forward = jax.jit(fun.forward if isinstance(fun, Gradient) else fun)
        self._compiled: List[_Made] = []
        self._lock = threading.Lock()
        self._is_plain = not (_PLAIN_OPTIONS.issuperset(options) and _cache.install())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Binds a method of a class, as jax.jit does."""
        return self if instance is None else types.MethodType(self, instance)

    def clear_cache(self) -> None:
        self._plain.clear_cache()
        self._forward.clear_cache()
        self._compiled = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_plain and not self._compiled:
            return self._plain(*args, **kwargs)
        if _is_watched():
            return self._plain(*args, **kwargs)
        try:
            setting = _setting(args, kwargs)
        except AttributeError:  # another JAX
            self._is_plain, self._compiled = True, []
            return self._plain(*args, **kwargs)
        for made in self._compiled:
            try:
                if made.setting == setting:
                    return made.call(*args, **kwargs)
            except (TypeError, ValueError):  # arguments of other types, shapes or places
                continue
        compiled = None if self._is_plain else self._find(args, kwargs, setting)
        return (compiled or self._plain)(*args, **kwargs)

    def _find(self, args: Any, kwargs: Any, setting: Tuple[Any, ...]) -> Optional[Any]:
        """Returns an executable for these arguments; None if jax.jit must make it."""
        if len(self._compiled) >= MAX_EXECUTABLES or not _client.client().may_ask or _dumps.jax():
            return None
        try:
            from jax._src import core

            leaves = jax.tree_util.tree_leaves((args, kwargs))
            if not all(map(_is_plain_argument, leaves)) or not core.trace_state_clean():
                return None
            if setting[1] is not None or setting[2]:  # a device, or jit is switched off
                return None
            with _ahead.gc_paused(), _foresight.blind():
                guess = self._guess(args, kwargs, leaves)
                call = self._trace(args, kwargs)
                with self._lock:
                    compiled = self._load_or_make(call, guess, args, kwargs)
                    if compiled is not None:
                        self._compiled.insert(0, _Made(setting, compiled))
            return compiled
        except Exception as e:
            log.debug("jax.jit does it: %r", e)
            self._is_plain = True
            return None

    # ---- the name ----

    def _trace(self, args: Any, kwargs: Any) -> _Call:
        fun = self._fun
        traced = self._forward.trace(*args, **kwargs)
        in_tree = jax.tree_util.tree_structure((args, kwargs))
        out_tree = jax.tree_util.tree_structure(traced.out_info)
        if isinstance(fun, Gradient):
            out_tree = fun.result_tree(args, traced.out_info)
        try:
            name = self._name(traced, args, kwargs)
        except _keys.Unknown as e:
            log.debug("not kept: %s", e)
            name = ""
        return _Call(name, in_tree, out_tree, _as_function(traced, fun))

    def _name(self, traced: Any, args: Any, kwargs: Any) -> str:
        fun = self._fun
        digest = _jaxpr.Digest(differentiates=isinstance(fun, Gradient))
        digest.add(traced.jaxpr)
        # The number of values of each argument and of the result; their names do not matter.
        digest.add([[_n_leaves(a) for a in args], [(k, _n_leaves(kwargs[k])) for k in sorted(kwargs)]])
        digest.add([_n_leaves(traced.out_info), sorted(self._options.items())])
        if any(name.startswith("donate") for name in self._options):  # the places of those names
            digest.add([(p.name, p.kind) for p in inspect.signature(fun).parameters.values()])
        if isinstance(fun, Gradient):
            digest.add(["gradient", fun.with_value, sorted(fun.options.items())])
            if fun.options.get("has_aux"):
                digest.add(_n_leaves(traced.out_info[1]))
        return "jaxjit:2:" + _keys.digest([digest.hexdigest().encode(), _rules.digest(), *_surroundings()])

    # ---- the executable ----

    def _lower(self, call: _Call, args: Any, kwargs: Any) -> Any:
        """Lowers the function. Of a gradient that of what was traced: so the program's code runs once, as under jax.jit. It may
        count, print, or draw random numbers."""
        fun, plain = self._fun, self._plain
        if isinstance(fun, Gradient):
            plain = jax.jit(Gradient(call.forward, fun.with_value, **fun.options), **self._options)
        return plain.lower(*args, **kwargs)

    def _guess(self, args: Any, kwargs: Any, leaves: List[Any]) -> Optional[_ahead.Guess]:
        if not _ahead.pays():
            return None
        in_tree = jax.tree_util.tree_structure((args, kwargs))
        kind = f"warm.jax.jit {isinstance(self._fun, Gradient)} {sorted(self._options.items())}"
        outline = _ahead.Outline([kind, *map(repr, _surroundings())])
        outline.add_values(leaves)

        def load(hint: _ahead.Hint) -> Any:
            value = _client.client().get(hint["name"])
            return _load(_Call(hint["name"], in_tree, None), value) if value else None

        return _ahead.Guess(outline.digest(), load)

    def _load_or_make(
        self, call: _Call, guess: Optional[_ahead.Guess], args: Any, kwargs: Any
    ) -> Any:
        if not call.name:
            self._is_plain = True
            return self._lower(call, args, kwargs).compile() if isinstance(self._fun, Gradient) else None
        ahead = guess.take(call.name) if guess else None
        if ahead is not None:
            return _with_result_tree(ahead, call.out_tree)
        with _client.client().lease(call.name) as lease:
            if lease.value is not None:
                loaded = _load(call, lease.value)
                if loaded is not None:
                    _note(guess, call, len(lease.value))
                    return loaded
            start = time.monotonic()
            lowered = self._lower(call, args, kwargs)
            with _cache.afresh():
                compiled = lowered.compile()
            try:
                size = self._keep(call, lease, lowered, compiled, time.monotonic() - start)
                _note(guess, call, size)
            except Exception as e:
                log.debug("%s: not kept: %r", call.name, e)
            return compiled

    def _keep(
        self, call: _Call, lease: Any, lowered: Any, compiled: Any, seconds: float
    ) -> int:
        from jax.experimental import serialize_executable

        module = _keys.module_bytes(lowered.compiler_ir())
        _library.graph_key("mlirbc", module)  # raises Refused if it holds addresses of this process
        payload, _, out_tree = serialize_executable.serialize(compiled)
        if out_tree != call.out_tree:
            raise _keys.Unknown("a result of another structure")
        entry = _entry.Entry(zlib.compress(payload, 1), _entry.targets_of(module, "cpu"))
        lease.put(
            _entry.encode(call.name, entry),
            kind="backward" if isinstance(self._fun, Gradient) else "executable",
            cost_ms=seconds * 1000,
            hardware=_keys.processor(),
            compiler=_keys.libraries("cpu").split("\n", 1)[0],
            label=getattr(self._fun, "__name__", "")[:256],
        )
        return len(entry.payload)


def _note(guess: Optional[_ahead.Guess], call: _Call, size: int) -> None:
    if guess is not None and size >= _ahead.MIN_BYTES:
        guess.learn({"name": call.name})


def _as_function(traced: Any, fun: Any) -> Any:
    """Returns a function that does what a call of `fun`, or of what it is the gradient of, did when it was traced."""

    from jax._src import core

    @functools.wraps(fun)
    def function(*args: Any, **kwargs: Any) -> Any:
        results = core.jaxpr_as_fun(traced.jaxpr)(*jax.tree_util.tree_leaves((args, kwargs)))
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(traced.out_info), results)

    return function


def _n_leaves(tree: Any) -> int:
    return len(jax.tree_util.tree_leaves(tree))


def _is_plain_argument(leaf: Any) -> bool:
    """Returns True for a value on the default device, or on none yet."""
    if isinstance(leaf, jax.core.Tracer):
        return False
    if not isinstance(leaf, jax.Array):
        return True
    sharding = leaf.sharding
    return isinstance(sharding, jax.sharding.SingleDeviceSharding) and not leaf.committed


def _surroundings() -> List[bytes]:
    """Returns all that the executable depends on beside the traced function: settings, options, processor."""
    from jax._src import compiler, config

    backend = jax.devices()[0].client
    if backend.platform != "cpu":
        raise _keys.Unknown("executables of other platforms are JAX's cache's")
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    settings = repr(config.trace_context())
    if " at 0x" in settings.replace("AxisEnv object at 0x", ""):
        raise _keys.Unknown("a setting without a name")
    return [
        jax.__version__.encode(),
        re.sub(r"AxisEnv object at 0x[0-9a-f]+", "", settings).encode(),
        backend.platform_version.encode(),
        _keys.libraries("cpu").encode(),
        _keys.options_bytes(options, "cpu"),
        _keys.flags_bytes(options, "cpu"),
        _keys.processor().encode(),
        str(len(jax.devices())).encode(),
    ]


def _with_result_tree(compiled: Any, out_tree: Any) -> Any:
    """Gives an executable the structure of its result, which was not known when it was loaded."""
    return jax.stages.Compiled(
        compiled._executable, [], compiled.args_info, out_tree, no_kwargs=compiled._no_kwargs
    )


def _load(call: _Call, value: bytes) -> Optional[Any]:
    """Loads an executable; None if it is damaged, or if custom calls are missing here."""
    from jax.experimental import serialize_executable

    entry = _entry.decode(call.name, value)
    if entry is None or not _entry.can_load(entry.targets, "cpu"):
        log.info("%s: not usable here: compiled anew", call.name)
        return None
    if any(t.startswith("lapack_") for t in entry.targets):
        from jaxlib import lapack

        lapack._lapack.initialize()  # lowering does this, but nothing was lowered here
    try:
        payload = zlib.decompress(entry.payload)
        load = serialize_executable.deserialize_and_load
        where: Dict[str, Any] = {}
        if "execution_devices" in inspect.signature(load).parameters:
            where["execution_devices"] = jax.devices()[:1]  # not all: it was made for one device
        return load(payload, call.in_tree, call.out_tree, **where)
    except Exception as e:
        log.info("%s: does not load, compiled anew: %s", call.name, e)
        return None


def jit(fun: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
    """Returns a jax.jit whose executables outlive the process. Only the forward function is traced.

        step = warm.jax.jit(warm.jax.value_and_grad(loss))
    """
    if fun is None:
        return lambda f: Jit(f, options)
    return Jit(fun, options)
