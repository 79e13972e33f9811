# SPDX-License-Identifier: Apache-2.0
"""The daemon's own graph compiler: from StableHLO to cubins, forward and backward.

    import warm.graph

    lowered = jax.jit(loss).lower(weights, x)
    bundle = warm.graph.compile(lowered, arch="sm_90", vjp=True, arguments=[0])
    open("loss.bundle", "wb").write(bundle.data)          # `warm show`, `warm exec`

`lowered` is what JAX's lower() returns, or StableHLO as text or bytecode. The compiler knows f32, i32, i64, i1 and
the operations of kernels/program/program.h. For anything else compile() raises GraphError, which names the
operation and its line. The program can then use the framework's own compiler.

With vjp=True the function takes more arguments behind its own: a cotangent for each f32 result. It returns the
gradients behind its results. Nothing here needs JAX or a GPU.
"""

from __future__ import annotations

import ctypes
import io
from dataclasses import dataclass
from typing import Any, Optional, Protocol, Sequence, Union

from warm import _library

_VJP = 1  # warm.h: WARM_GRAPH_VJP
_RECACHE = 1  # warm.h: WARM_RECACHE


class Lowered(Protocol):
    """What jax.jit(f).lower(...) returns."""

    def compiler_ir(self, dialect: Optional[str] = None) -> Any: ...


class GraphError(Exception):
    """Raised if a graph has no bundle. `code` is the name of the error, such as UNSUPPORTED or NO_DAEMON."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Bundle:
    """A compiled graph: its bytes (kernels/BUNDLE.md), and figures of their content."""

    data: bytes
    kernels: int
    hits: int  # kernels that the cache had
    launches: int
    arguments: int
    results: int
    arena: int  # bytes of device memory beside arguments, results and constants
    cost_ms: int  # time that making the kernels took, now or earlier


class _Graph(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_char_p),
        ("len", ctypes.c_size_t),
        ("target", ctypes.c_char_p),
        ("flags", ctypes.c_uint),
        ("arguments", ctypes.POINTER(ctypes.c_uint32)),
        ("n_arguments", ctypes.c_size_t),
        ("options", ctypes.POINTER(ctypes.c_char_p)),
        ("n_options", ctypes.c_size_t),
        ("compiler", ctypes.c_char_p),
        ("timeout_ms", ctypes.c_uint),
        ("job_flags", ctypes.c_uint),
        ("progress", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("optimizer", ctypes.c_char_p),
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("n_kernels", ctypes.c_uint),
        ("n_hits", ctypes.c_uint),
        ("n_launches", ctypes.c_uint),
        ("n_arguments", ctypes.c_uint),
        ("n_results", ctypes.c_uint),
        ("arena", ctypes.c_uint64),
        ("cost_ms", ctypes.c_uint64),
    ]


def _stablehlo(lowered: Union[Lowered, bytes, str]) -> bytes:
    if isinstance(lowered, bytes):
        return lowered
    if isinstance(lowered, str):
        return lowered.encode()
    out = io.BytesIO()
    lowered.compiler_ir(dialect="stablehlo").operation.write_bytecode(out)
    return out.getvalue()


def _functions() -> ctypes.CDLL:
    try:
        lib = _library._library()
        lib.warm_graph_compile.argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(_Graph),
            ctypes.POINTER(_Result),
        ]
        lib.warm_graph_result_free.argtypes = [ctypes.POINTER(_Result)]
        lib.warm_graph_result_free.restype = None
        lib.warm_message.argtypes = [ctypes.c_void_p]
        lib.warm_message.restype = ctypes.c_char_p
        lib.warm_error_name.argtypes = [ctypes.c_int]
        lib.warm_error_name.restype = ctypes.c_char_p
    except (_library.Unavailable, AttributeError) as e:
        raise GraphError("NOT_FOUND", f"libwarm was not found, or is too old: {e}") from None
    return lib


def _name(lib: ctypes.CDLL, code: int) -> str:
    return str(lib.warm_error_name(code).decode())


def compile(
    lowered: Union[Lowered, bytes, str],
    *,
    arch: str,
    vjp: bool = False,
    arguments: Optional[Sequence[int]] = None,
    optimizer: Optional[str] = None,
    compiler: Optional[str] = None,
    timeout_ms: int = 0,
    recache: bool = False,
) -> Bundle:
    """Compiles a graph for the GPU `arch`, or takes its kernels from the cache.

    `vjp` adds the gradients of `arguments` (positions), or of all f32 arguments. `optimizer`, with vjp, makes a
    whole training step; it is written as for `warm compile --optimizer`. `compiler` names an NVRTC, as for
    warm_compile in warm.h. `recache` compiles even the kernels that the cache has. Raises GraphError.
    """
    lib = _functions()
    data = _stablehlo(lowered)
    positions = (ctypes.c_uint32 * len(arguments))(*arguments) if vjp and arguments else None
    graph = _Graph(
        data=data,
        len=len(data),
        target=arch.encode(),
        flags=_VJP if vjp else 0,
        arguments=positions,
        n_arguments=len(positions) if positions is not None else 0,
        compiler=compiler.encode() if compiler else None,
        timeout_ms=timeout_ms,
        job_flags=_RECACHE if recache else 0,
        optimizer=optimizer.encode() if optimizer else None,
    )
    handle, result = ctypes.c_void_p(), _Result()
    code = lib.warm_open(ctypes.byref(handle), None)
    if code:
        raise GraphError(_name(lib, code), "no daemon answers")
    try:
        code = lib.warm_graph_compile(handle, ctypes.byref(graph), ctypes.byref(result))
        if code:
            raise GraphError(_name(lib, code), lib.warm_message(handle).decode("utf-8", "replace"))
        bundle = Bundle(
            ctypes.string_at(result.data, result.len),
            result.n_kernels,
            result.n_hits,
            result.n_launches,
            result.n_arguments,
            result.n_results,
            result.arena,
            result.cost_ms,
        )
        lib.warm_graph_result_free(ctypes.byref(result))
        return bundle
    finally:
        lib.warm_close(handle)
