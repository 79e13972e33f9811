# SPDX-License-Identifier: Apache-2.0
"""Programs that call back into Python, for example by jax.debug.print, io_callback or pure_callback.

JAX keeps no executable of such a program. On the CPU the executable holds only an index into the list of
callbacks that it is loaded with. So it is sound to keep it under two conditions: each callback of the module
is of that kind, and each process loads it with its own list:

    custom_call @xla_ffi_python_cpu_callback(…) {mhlo.backend_config = {index = 1 : ui64}, …}

libwarm refuses a module that has a target with this name, because in older versions of JAX such a call
holds an address. by_index() checks each call, and returns a copy of the module with other target names.

Any thread; no state.
"""

from __future__ import annotations

import time
from typing import Any, Sequence

from warm import _library

_TARGETS = {
    "xla_ffi_python_cpu_callback": "warm.host_call",
    "xla_ffi_partitioned_python_cpu_callback": "warm.host_call.partitioned",
}


def _is_by_index(attributes: Any, n: int) -> bool:
    """True if the call names one of `n` callbacks by its index and holds nothing else."""
    from jax._src.lib.mlir import ir

    if "mhlo.backend_config" not in attributes:
        return False
    if "backend_config" in attributes and attributes["backend_config"] != ir.StringAttr.get(""):
        return False
    config = attributes["mhlo.backend_config"]
    if not isinstance(config, ir.DictAttr) or len(config) != 1 or "index" not in config:
        return False
    index = config["index"]
    return str(index.type) == "ui64" and 0 <= ir.IntegerAttr(index).value < n


def by_index(module: Any, n: int) -> Any:
    """Returns a copy of the module in which the calls of the `n` callbacks have target names that libwarm
    accepts. Raises Refused if a call may hold more than an index."""
    from jax._src.lib.mlir import ir

    calls = []

    def collect(op: Any) -> Any:
        if op.name == "stablehlo.custom_call":
            calls.append(op)
        return ir.WalkResult.ADVANCE

    with module.context:
        copy = ir.Module.parse(module.operation.get_asm(binary=True))
        copy.operation.walk(collect)
        for call in calls:
            target = ir.StringAttr(call.attributes["call_target_name"]).value
            if target in _TARGETS.values():
                raise _library.Refused("a custom call has a name that warm reserves")
            if target in _TARGETS:
                if not _is_by_index(call.attributes, n):
                    raise _library.Refused("a callback has more than its index")
                call.attributes["call_target_name"] = ir.StringAttr.get(_TARGETS[target])
    return copy


def load(
    cc: Any,
    cache: Any,
    callbacks: Sequence[Any],
    cache_key: str,
    compile_options: Any,
    backend: Any,
    executable_devices: Any,
) -> Any:
    """Loads an executable as get_executable_and_time of compilation_cache (`cc`) does, but with the callbacks
    of this process. The last four parameters are JAX's."""
    value = cache.get(cache_key)
    if value is None:
        return None, None
    executable, seconds = cc.extract_executable_and_time(cc.decompress_executable(value))
    loaded = backend.deserialize_executable(
        executable, executable_devices, compile_options, callbacks
    )
    return loaded, seconds


def store(cc: Any, cache: Any, key: str, executable: Any, missed_at: float) -> None:
    """Stores an executable as put_executable_and_time of compilation_cache (`cc`) does."""
    seconds = int(time.monotonic() - missed_at)
    whole = cc.combine_executable_and_time(executable.serialize(), seconds)
    cache.put(key, cc.compress_executable(whole))
