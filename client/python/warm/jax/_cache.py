# SPDX-License-Identifier: Apache-2.0
"""JAX's persistent compilation cache, with the daemon behind it.

    trace, lower            meanwhile the executable of a guess is loaded (_foresight.py)
    compile_or_get_cached(module, options)          one _Compile for each call, kept by its thread
      └─ get_cache_key      the canonical name (_keys.py), else JAX's own key
      └─ guessed right?     done
      └─ cache.get          a hit │ the lease: one of all processes that ask at once compiles
      │    └─ deserialize   fails: the entry is damaged, and counts as a miss
      └─ compile
      └─ cache.put          serves the waiters, replaces a damaged entry
    on return               a lease that was not fulfilled is given back

JAX decides what is compiled and how it is loaded; this module only takes the place of its cache folder.
A cache folder that the user set stays in use behind it. Entries of JAX itself, stored by `warm import
--from jax`, are found by JAX's own key, which is computed only after a miss.

Not kept: modules that libwarm refuses (addresses of Python callbacks, of custom partitioning), and
modules that JAX does not cache (processes other than the first). `warm why` names the reason. Modules with
host callbacks are kept on the CPU: _callbacks.py.

If something is not as expected, each function that JAX calls here does what JAX itself would do. Any
thread.
"""

from __future__ import annotations

import inspect
import logging
import os
import pathlib
import re
import threading
import time
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from warm import _client, _dumps, _forms, _hardware, _library
from warm.jax import _ahead, _autotune, _callbacks, _entry, _foresight, _keys, _serialize

log = logging.getLogger("warm.jax")

STOCK = "jax:stock:"  # + JAX's own key: entries as JAX's folder has them
_DIGEST = re.compile("-[0-9a-f]{32,}$")  # ends JAX's own keys, after the module's name
NEVER = "warm-never-"  # begins keys of programs that must not be kept


# ---- one compile ----


class _Compile:
    """The state of this thread's present compile."""

    def __init__(self) -> None:
        self.name = ""  # the canonical name; "" until there is one
        self.module = b""
        self.options: Any = None
        self.platform = ""
        self.hardware = ""  # for people and filters
        self.autotune = ""  # the name of the results of XLA's autotuning; "" without them
        self.stock_key: Callable[[], str] = str
        self.lease: Optional[_client.Lease] = None
        self.stock: Any = None  # the user's own cache folder
        self.missed_at = 0.0
        self.callbacks: Sequence[Any] = ()  # the module's host callbacks
        self.ours = False  # the present value came from the daemon
        self.n_bytes = 0  # of that value, or of the one that was put
        self.foresight: Optional[_foresight.Foresight] = None
        self.hint: Optional[_ahead.Hint] = None  # the correct guess for the next time

    def took(self) -> float:
        """Returns the seconds since the miss."""
        return time.monotonic() - self.missed_at if self.missed_at else 0.0

    def close(self) -> None:
        if self.lease is not None:
            self.lease.release()
        if self.foresight is not None and self.hint is not None:
            if self.n_bytes >= _ahead.MIN_BYTES:
                self.foresight.learn(self.hint)


_thread = threading.local()


def _current() -> Optional[_Compile]:
    found: Optional[_Compile] = getattr(_thread, "compile", None)
    return found


class afresh:
    """A context in which this thread's compiles do not use the cache. XLA serializes an executable correctly
    only in the process that compiled it, not after a load."""

    def __enter__(self) -> None:
        _thread.afresh = True

    def __exit__(self, *error: Any) -> None:
        _thread.afresh = False


class _Modules(NamedTuple):
    """The modules of JAX that are hooked."""

    compilation_cache: Any
    cache_key: Any
    compiler: Any
    config: Any


class Cache:
    """JAX's view of the cache: get and put of CacheInterface."""

    _path = pathlib.Path("/dev/null")  # JAX names it in its log

    def __init__(self, jax: _Modules, min_compile_secs: float) -> None:
        self.jax = jax
        self.min_compile_secs = min_compile_secs  # for the user's own folder

    def get(self, key: str) -> Optional[bytes]:
        compile_ = _current()
        if key.startswith(NEVER):
            return None
        if compile_ is None:
            return self._get_alone(key, None)
        try:
            if compile_.name == key:
                found = self._get_leased(compile_)
            else:
                found = self._get_alone(key, compile_.stock)
        except Exception as e:
            log.debug("get %s: %r", key, e)
            return None
        if found is None:
            compile_.missed_at = time.monotonic()
        return found

    def executable(self, key: str) -> Optional[bytes]:
        """Returns the executable of an entry, as XLA serialized it; None if the entry is gone."""
        cc, value = self.jax.compilation_cache, self._get_alone(key, None)
        if value is None:
            return None
        found: bytes = cc.extract_executable_and_time(cc.decompress_executable(value))[0]
        return found

    def put(self, key: str, value: bytes) -> None:
        compile_ = _current()
        if key.startswith(NEVER):
            return
        try:
            if compile_ is None or compile_.name != key:
                name = key if key.startswith("jax:") else STOCK + key
                _client.client().put(
                    name, value, kind="executable", cost_ms=_cost_ms(value), label=key,
                    hardware="" if compile_ is None else compile_.hardware,
                )  # fmt: skip
                if compile_ is not None:
                    self._put_stock(compile_, key, value)
                return
            self._put_leased(compile_, value)
        except Exception as e:
            log.debug("put %s: %r", key, e)

    def clear(self) -> None:
        """Clears JAX's own folder; `warm clear` clears the daemon's entries."""

    def _get_alone(self, key: str, stock: Any) -> Optional[bytes]:
        """Looks an entry up by JAX's own key."""
        name = key if key.startswith("jax:") else STOCK + key
        found = _client.client().get(name)
        if found is None:
            return stock.get(key) if stock is not None and _client.client().may_hit else None
        value: bytes = found
        if not value.startswith(_entry.MAGIC):
            return value
        entry = _entry.decode(name, value)
        return entry.payload if entry and _entry.can_load(entry.targets, "cpu") else None

    def _get_leased(self, c: _Compile) -> Optional[bytes]:
        c.lease = lease = _client.client().lease(c.name)
        if lease.value is not None:
            entry = _entry.decode(c.name, lease.value)
            if entry is None:
                log.info("%s: the entry is damaged: compiled anew", c.name)
                return None
            if not _entry.can_load(entry.targets, c.platform):
                log.info("%s: custom calls are missing here: compiled anew", c.name)
                return None
            c.ours = True
            c.n_bytes = len(entry.payload)
            return entry.payload
        return self._get_stock(c)

    def _get_stock(self, c: _Compile) -> Optional[bytes]:
        """Looks for an entry that JAX itself stored: imported, or in the user's own folder."""
        if c.callbacks or not _client.client().may_hit:
            return None  # JAX keeps no program with callbacks
        key = c.stock_key()
        value = _client.client().get(STOCK + key)
        if value is None and c.stock is not None:
            value = c.stock.get(key)
        if value is not None and _is_whole(self.jax.compilation_cache, value):
            self._put_leased(c, value)
            c.ours = True
            return value
        return None

    def _put_leased(self, c: _Compile, value: bytes) -> None:
        key = c.stock_key()
        c.n_bytes = len(value)
        entry = _entry.Entry(value, _entry.targets_of(c.module, c.platform))
        lease = c.lease or _client.client().unasked(c.name)
        cost_ms = max(_cost_ms(value), c.took() * 1000)
        label = _DIGEST.sub("", key)[:512]  # the same for all versions of a module, for `warm why`
        lease.put(
            _entry.encode(c.name, entry, stock=key),
            kind="executable",
            cost_ms=cost_ms,
            hardware=c.hardware,
            compiler=_keys.libraries(c.platform).split("\n", 1)[0],
            label=label,
        )
        if c.missed_at:
            _forms.keep(c.name, label, cost_ms, lambda: _form(c))
        self._put_stock(c, key, value)

    def _put_stock(self, c: _Compile, key: str, value: bytes) -> None:
        """Stores a value in the user's own folder, as JAX does."""
        if c.callbacks:
            return
        if c.stock is not None and c.missed_at and c.took() >= self.min_compile_secs:
            c.stock.put(key, value)


def _form(c: _Compile) -> List[str]:
    """Returns the options of a compile, and then the canonical text of its module."""
    options = [("compiler", _keys.libraries(c.platform).replace("\n", " ")),
               ("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))]  # fmt: skip
    if c.platform == "cpu":
        options.append(("processor", _keys.processor()))
    for part in (c.options, getattr(c.options, "executable_build_options", None)):
        for name in dir(part):
            value = None if name.startswith("_") else getattr(part, name)
            if isinstance(value, (bool, int, float, str)):
                options.append((name, str(value)))
    lines = [f"option {name}: {value}" for name, value in options]
    return lines + [_library.graph_form("mlirbc", c.module, _forms.TEXT_MAX)]


def _cost_ms(value: bytes) -> int:
    """Returns the compile time that JAX measured. A compressed value begins with it: whole seconds,
    big-endian, before the executable."""
    import zlib

    try:
        return int.from_bytes(zlib.decompressobj().decompress(value, 4)[:4], "big") * 1000
    except zlib.error:
        return 0


def _is_whole(compilation_cache: Any, value: bytes) -> bool:
    try:
        return len(compilation_cache.decompress_executable(value)) > 4
    except Exception:
        return False


def _compression(compilation_cache: Any) -> str:
    """Returns the compression that decompress_executable of this process reads."""
    if getattr(compilation_cache, "zstd", None) or getattr(compilation_cache, "zstandard", None):
        return "zstd"
    return "zlib"


# ---- the hooks ----


def _hook_key(jax: _Modules) -> None:
    stock = jax.compilation_cache.get_cache_key

    def get_cache_key(module: Any, devices: Any, options: Any, backend: Any, *a: Any, **k: Any) -> str:
        def stock_key() -> str:
            key: str = stock(module, devices, options, backend, *a, **k)
            return key

        compile_ = _current()
        if getattr(_thread, "afresh", False):
            return NEVER
        if compile_ is None or compile_.name:
            return stock_key()
        compile_.stock = _user_cache(backend)
        try:
            dump = _dumps.jax(dict(options.env_option_overrides).items())
            if dump:
                raise _library.Refused(f"{dump}: a hit would not write the dump")
            many_processes = _n_processes(devices) > 1
            if _is_sent(jax) or (many_processes and compile_.stock is not None):
                return stock_key()
            bytecode = _keys.module_bytes(module)
            named, named_bytecode = module, bytecode
            if compile_.callbacks and backend.platform == "cpu" and not many_processes:
                named = _callbacks.by_index(module, len(compile_.callbacks))
                named_bytecode = _keys.module_bytes(named)
            name = _keys.name_of(
                named,
                named_bytecode,
                devices,
                options,
                backend,
                jax.cache_key,
                _compression(jax.compilation_cache),
                many_processes,
                len(compile_.callbacks),
            )
            autotune = ""
            if _autotunes(backend.platform):
                autotune = _keys.autotune_name(devices, backend, jax.cache_key)
        except _library.Refused as e:
            _client.client().note("uncacheable", _module_name(module), str(e))
            return NEVER + stock_key()
        except Exception as e:
            log.debug("JAX's own key: %r", e)
            return stock_key()
        compile_.hardware = _hardware_of(devices, backend.platform)
        if many_processes:
            return name  # no lease: the compiling process may need one that would wait
        compile_.name, compile_.module, compile_.platform = name, bytecode, backend.platform
        compile_.stock_key = _once(stock_key)
        compile_.options = options
        compile_.autotune = autotune
        return name

    jax.compilation_cache.get_cache_key = get_cache_key


def _module_name(module: Any) -> str:
    return str(module.operation.attributes["sym_name"]).strip('"')


def _hardware_of(devices: Any, platform: str) -> str:
    return _keys.processor() if platform == "cpu" else _hardware.of_jax(devices, platform)


def _autotunes(platform: str) -> bool:
    return platform in ("gpu", "cuda") and _autotune.is_wanted()


def _is_sent(jax: _Modules) -> bool:
    """Returns True if JAX sends executables from host to host. Their key must then not depend on the
    processor."""
    shares = getattr(jax.config, "share_binary_between_hosts", None)  # JAX up to 0.4 may lack it
    return shares is not None and bool(shares.value)


def _n_processes(devices: Any) -> int:
    return len({d.process_index for d in devices.flat})


def _once(f: Callable[[], str]) -> Callable[[], str]:
    found: List[str] = []

    def call() -> str:
        if not found:
            found.append(f())
        return found[0]

    return call


_user_cache: Callable[[Any], Any] = lambda backend: None
_stock_get: Callable[..., Any] = lambda *a: (None, None)


def _hook_cache(jax: _Modules, cache: Cache) -> None:
    global _user_cache, _stock_get
    cc = jax.compilation_cache
    stock_get_cache, stock_get = cc._get_cache, cc.get_executable_and_time

    def user_cache(backend: Any) -> Any:
        """Returns the folder that the user set, or None; its failures are ignored."""
        try:
            return stock_get_cache(backend)
        except Exception as e:
            log.debug("the user's cache: %r", e)
            return None

    def get_executable_and_time(*a: Any, **k: Any) -> Any:
        compile_ = _current()
        try:
            if compile_ is not None and compile_.callbacks and compile_.name:
                return _callbacks.load(cc, cache, compile_.callbacks, *a, **k)
            found = _take_ahead(compile_, *a) or stock_get(*a, **k)
            if found[0] is not None and a:
                _serialize.note(found[0], a[0])
            return found
        except Exception as e:
            if compile_ is None or not compile_.ours:
                raise
            log.info("%s: does not load, compiled anew: %s", compile_.name, e)
            return None, None

    _user_cache, _stock_get = user_cache, stock_get
    cc._get_cache = lambda backend: cache
    cc.get_executable_and_time = get_executable_and_time


def _argument(signature: inspect.Signature, name: str, a: Sequence[Any], k: Any) -> Any:
    """Returns the argument of that name in a call with (*a, **k), or None."""
    try:
        return signature.bind(*a, **k).arguments.get(name)
    except TypeError:
        return None


def _store_with_callbacks(jax: _Modules, cache: Cache, c: _Compile, executable: Any) -> None:
    """Stores a program with callbacks, which JAX itself does not put into its cache."""
    try:
        _callbacks.store(jax.compilation_cache, cache, c.name, executable, c.missed_at)
    except Exception as e:
        log.debug("%s: not stored: %r", c.name, e)


def _hook_compile(jax: _Modules, cache: Cache) -> None:
    stock = jax.compiler.compile_or_get_cached
    signature = inspect.signature(stock)

    def compile_or_get_cached(*a: Any, **k: Any) -> Any:
        outer = _current()
        _thread.compile = compile_ = _Compile()
        compile_.callbacks = _argument(signature, "host_callbacks", a, k) or ()
        compile_.foresight = None if compile_.callbacks or _dumps.jax() else _foresight.of_module(a[:2])
        try:
            executable = stock(*a, **k)
            if compile_.callbacks and compile_.name and compile_.missed_at:
                _store_with_callbacks(jax, cache, compile_, executable)
            return executable
        finally:
            _thread.compile = outer
            compile_.close()

    jax.compiler.compile_or_get_cached = compile_or_get_cached


def _hook_backend(jax: _Modules) -> None:
    """Lets XLA compile with the results of earlier autotuning. By now the key is made."""
    stock = getattr(jax.compiler, "backend_compile_and_load", None)
    if stock is None or not _autotune.is_wanted():
        return

    def backend_compile_and_load(*a: Any, **k: Any) -> Any:
        c = _current()
        options = next((o for o in a if hasattr(o, "executable_build_options")), k.get("options"))
        if c is None or not c.autotune or options is None:
            return stock(*a, **k)
        return _autotune.compile_with(c.autotune, c.hardware, options, lambda: stock(*a, **k))

    jax.compiler.backend_compile_and_load = backend_compile_and_load


def _take_ahead(
    compile_: Optional[_Compile],
    key: str,
    options: Any,
    backend: Any,
    devices: Any = None,
    callbacks: Any = (),
) -> Any:
    """Returns (executable, seconds that its compile took) if a guess was right. Otherwise notes the correct
    guess for the next time. JAX up to 0.4 passes no devices."""
    if compile_ is None or compile_.foresight is None or compile_.name != key:
        return None
    if devices is None or callbacks:
        return None
    ids = [d.id for d in devices]
    found = compile_.foresight.take(key, ids)
    if found is None:
        compile_.hint = {"name": key, "options": options.SerializeAsString().hex(), "devices": ids}
    return found


def install() -> bool:
    """Puts the daemon behind JAX's cache. Returns False if JAX is not as expected, or caching is off."""
    if not _client.client().may_ask:
        return False
    from jax._src import cache_key, compilation_cache, compiler, config

    jax = _Modules(compilation_cache, cache_key, compiler, config)
    if getattr(compilation_cache, "_warm_cache", None) is not None:
        return True
    needed = (
        (compilation_cache, "_get_cache"),
        (compilation_cache, "get_cache_key"),
        (compilation_cache, "get_executable_and_time"),
        (compilation_cache, "decompress_executable"),
        (compiler, "compile_or_get_cached"),
    )
    for module, name in needed:
        if not callable(getattr(module, name, None)):
            log.info("this JAX has no %s: its own cache stays", name)
            return False
    threshold = config.persistent_cache_min_compile_time_secs.value
    cache = Cache(jax, threshold)
    _hook_key(jax)
    _hook_cache(jax, cache)
    _hook_compile(jax, cache)
    _hook_backend(jax)
    _foresight.install(_stock_get)
    _serialize.install(cache.executable)
    config.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache._warm_cache = cache
    return True
