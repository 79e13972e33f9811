# SPDX-License-Identifier: Apache-2.0
"""Settings that a compile reads and torch's keys do not have (the table is in _sources.py), and the functions that a
backend gives compile_fx.

A setting that is not as torch sets it becomes a part of the key. A setting that is a function of the program keeps
the graph out, unless it has uuid(): that is the program's promise for it, and torch's keys have it. Any thread.
"""

from __future__ import annotations

import contextvars
import copyreg
import functools
import hashlib
import operator
import sys
import threading
import types
from typing import Any, Iterator, NamedTuple

from warm import _sources
from warm._operators import is_of_torch

# Fields that torch's own keys have (save_config_portable, save_config): all of these modules but the ignored ones; those of
# the second alone for what AOTAutograd traces.
_KEYED = ("torch._inductor.config", "torch._functorch.config")
# Fields that change neither code nor graph, with the reason.
_HARMLESS: dict[str, tuple[str, ...]] = {
    "torch._inductor.config": (
        "compile_threads", "worker_start_method",  # how many processes compile
        "fx_graph_cache", "fx_graph_remote_cache", "autotune_local_cache", "autotune_remote_cache",  # which caches ask
        "force_disable_caches",  # no cache is asked
        "force_disable_cudagraph_TESTING_ONLY", "cudagraph_policy",  # read after a graph was taken from the cache
        "pre_grad_pass_timing",  # "early" changes the graph before the key is made; "late" passes have uuid()
        "trace.provenance_tracking_level", "trace.log_autotuning_results", "trace.debug_dir",  # read by logs alone
    ),
    "torch._dynamo.config": ("use_graph_deduplication", "verbose", "suppress_errors", "log_file_name"),
    "torch.compiler.config": ("job_id", "force_disable_caches", "verbose", "log_file_name"),  # no cache is asked; logs
}  # fmt: skip
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_UUID = "uuid"
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)
_MAKERS = ("torch", "builtins", "sympy", "warm")  # of objects that torch itself makes a handler


class _Foreign(Exception):
    """Raised for a setting that is a function or an object of the program."""


# ---- config modules ----


def _changed(module: Any) -> Iterator[tuple[str, Any]]:
    """Returns the fields of a config module that are not as torch sets them."""
    for name, entry in list(module._config.items()):
        value = entry.user_override  # a ContextVar from PyTorch 2.12 on
        value = value.get() if isinstance(value, contextvars.ContextVar) else value
        if type(value).__name__ != "object" and type(value) in _PLAIN and value == entry.default:
            continue
        forced = entry.env_value_force
        if type(forced) is not object:
            value = forced
        elif type(value) is object:
            value = entry.env_value_default
        if type(value) is not object and not (value is entry.default or _same(value, entry.default)):
            yield name, value


def _same(value: Any, default: Any) -> bool:
    try:
        return type(value) is type(default) and bool(value == default)
    except Exception:
        return False


def _text(value: Any) -> str:
    """Returns the text of a setting. Raises _Foreign."""
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "OrderedSet":
        return f"{{{', '.join(sorted(map(_text, value)))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(k)}: {_text(v)}' for k, v in value.items())}}}"
    if str(type(value).__module__) == "torch" and type(value).__name__ in ("dtype", "device", "layout"):
        return repr(value)
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and is_of_torch(value):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, _UUID) and not isinstance(value, type):
        return f"uuid {value.uuid()!r}"
    if isinstance(value, type) and hasattr(value, _UUID):  # a factory of such objects
        return f"uuid {value().uuid()!r}"
    raise _Foreign(getattr(value, "__qualname__", type(value).__qualname__))


_OF_RANKS = ("bucket_", "aten_distributed_optimizations.", "_collective.", "_micro_pipeline_tp")  # fields of Inductor's


def of_ranks() -> str:
    """Returns the name of a setting by which Inductor makes code of collectives for this rank and its groups alone, or ""."""
    return next((name for name, _ in _changed(sys.modules["torch._inductor.config"]) if name.startswith(_OF_RANKS)), "")


def _config_lines(traces: bool) -> Iterator[str]:
    keyed = _KEYED if traces else _KEYED[:1]
    for path in _sources.CONFIGS:
        module = sys.modules.get(path)
        if module is None:
            continue
        ignored = (*getattr(module, "_save_config_ignore", ()), *getattr(module, "_cache_config_ignore_prefix", ()))
        for name, value in _changed(module):
            if name in _HARMLESS.get(path, ()):
                continue
            try:
                text = _text(value)
            except _Foreign as e:
                raise _Foreign(f"the setting {path}.{name} is {e}") from e
            if path not in keyed or name.startswith(tuple(ignored)):
                yield f"{path}.{name}={text}"


# ---- switches ----


def _switch(name: str, *of: str) -> Any:
    """Returns the value of a switch; None if this build has none. One that programs set by a newer switch may have none, too."""
    get = getattr(sys.modules["torch"]._C, name, None)
    try:
        return get(*of) if get is not None else None
    except RuntimeError:
        return "?"


def _switch_lines(traces: bool) -> Iterator[str]:
    torch = sys.modules["torch"]
    for name, usual in _sources.SWITCHES.items():
        value = _switch(name)
        if value != usual and value is not None:
            yield f"{name.lstrip('_')}={value}"
    for of, usual in _sources.PRECISIONS.items():
        value = _switch("_get_fp32_precision_getter", *of)
        if value != usual and value is not None:
            yield f"{'.'.join(of)}.fp32_precision={value}"
    if not traces:
        return
    order = list(getattr(torch._C, "_get_sdp_priority_order", list)())
    if order != _sources.SDP_ORDER[: len(order)]:
        yield f"sdp order={order}"
    einsum = getattr(torch.backends, "opt_einsum", None)
    if einsum and einsum.is_available() and einsum.enabled:  # it chooses the order of products
        yield f"opt_einsum={einsum.strategy}"


def _thread_lines() -> Iterator[str]:
    held = getattr(sys.modules.get("sympy.core.parameters"), "global_parameters", None)
    sympy = vars(held) if held is not None else {}
    yield from (f"sympy.{name}={value}" for name, value in sympy.items() if value != _sources.SYMPY.get(name))
    if sys.float_info.min / 2 == 0:  # torch computes constants while it compiles
        yield "flush_denormal"


def _foreign_handler() -> str:
    """Returns the name of a class of the program whose object is one of Inductor's handlers, or of a function that one of them
    got; or "". torch's key has what inductor_choices_class makes."""
    module = sys.modules.get("torch._inductor.virtualized")
    config = sys.modules.get("torch._inductor.config")
    if module is None or getattr(config, "inductor_choices_class", None) is not None:
        return ""
    for handler in list(vars(module.threadlocal).values()):
        if type(handler).__module__.partition(".")[0] not in _MAKERS:
            return type(handler).__qualname__
        for name, value in list(getattr(handler, "__dict__", {}).items()):
            if isinstance(value, _FUNCTIONS) and not is_of_torch(value):
                return f"{type(handler).__qualname__}.{name}"
    return ""


def _foreign_reducer() -> str:
    """Returns the name of a class of which torch's keys have what a function of the program says, or ""."""
    for kind, reducer in list(copyreg.dispatch_table.items()):
        is_read = str(kind.__module__).partition(".")[0] in _MAKERS
        if is_read and reducer.__module__ not in ("copyreg", kind.__module__) and not is_of_torch(reducer):
            return kind.__qualname__
    return ""


def _of_triton() -> tuple[str, list[str]]:
    if "triton.knobs" not in sys.modules:
        return "", []
    from warm import _triton_reads

    return _triton_reads.of_torch()


def settings(traces: bool) -> tuple[str, str]:
    """Returns why no graph must be kept with these settings, or "", and the text that the key must have. `traces`:
    the graph is one that AOTAutograd traces."""
    handler = _foreign_handler()
    if handler:
        return f"the handler {handler} is the program's: no key has its code", ""
    reduced = _foreign_reducer()
    if reduced:
        return f"the program told copyreg how to pickle {reduced}: keys are made of that", ""
    why, triton = _of_triton()
    if why:
        return why, ""
    try:
        return "", ", ".join((*_config_lines(traces), *_switch_lines(traces), *_thread_lines(), *triton))
    except _Foreign as e:
        return f"{e}, which is the program's: no key has its code", ""


# ---- settings of a forward pass and of its backward pass ----

_OF_PROCESS = ("deterministic_algorithms_settings", "default_dtype", "cuda_matmul_settings")  # in FxGraphHashDetails


class Set(NamedTuple):
    process: str  # digests of settings
    thread: str  # of this thread, or of its context
    by: int  # this thread


def now() -> Set:
    """Returns all settings that the compile of a backward pass reads, as torch's keys and ours have them. Which kernel of attention
    may be taken is none: the graph names it. Programs choose it with sdpa_kernel() for the forward pass alone."""
    parts = dict(vars(sys.modules["torch._inductor.codecache"].FxGraphHashDetails(None, (), {}, ())))
    switches = (line for line in _switch_lines(traces=False) if "sdp" not in line)
    process = [*switches, *_of_triton()[1], *((name, parts.pop(name, None)) for name in _OF_PROCESS)]
    thread = [*_thread_lines(), sys.modules["torch"].get_num_threads()]
    is_of_thread = hasattr(sys.modules["torch._inductor.config"], "_hash_dirty_var")  # from PyTorch 2.12 on
    (thread if is_of_thread else process).extend((*_config_lines(traces=True), *parts.items()))
    digests = (hashlib.blake2b(repr(one).encode(), digest_size=16).hexdigest() for one in (process, thread))
    return Set(*digests, threading.get_ident())


def differ(key: Set, backward: Set) -> bool:
    """Returns True if a backward pass was compiled with other settings than the key of its graph has. On a GPU the thread that
    runs it first compiles it; each has then the settings of a new thread."""
    is_same = key.process == backward.process and (key.thread == backward.thread or key.by != backward.by)
    return not is_same


# ---- what a backend gives compile_fx ----


def _inner() -> Any:
    """Returns the inner_compile of the compile_fx that this thread is in, or None. AOTConfig has it only later."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch._inductor.compile_fx" and "inner_compile" in frame.f_locals:
            return frame.f_locals["inner_compile"]
        frame = frame.f_back  # type: ignore[assignment]
    return None


def why_not_of_config(config: Any) -> str:
    """Returns why AOTAutograd must not keep a graph with this AOTConfig, or ""."""
    inner = _inner()
    if inner is not None and not is_of_torch(inner):
        return "the program gave compile_fx its own inner_compile: no key has its code"
    table = getattr(config, "decompositions", None) or {}
    module = sys.modules.get("torch._inductor.decomposition")
    usual = module.select_decomp_table() if module else {}
    for target in {*table, *usual} if not _is_copy(table, usual) else ():
        if table.get(target) is not usual.get(target):
            return f"the program gave compile_fx its own decomposition of {target}: no key has its code"
    return ""


def _is_copy(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    """Returns True for tables of operators that are the same in their order. An operator's hash is a function of Python: to look each
    up takes milliseconds."""
    is_same = len(a) == len(b) and all(map(operator.is_, a, b))
    return is_same and all(map(operator.is_, a.values(), b.values()))
