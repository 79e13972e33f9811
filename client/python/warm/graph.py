# SPDX-License-Identifier: Apache-2.0
"""The daemon's own graph compiler: from StableHLO to cubins, forward and backward, and back to a function.

    import warm.graph

    lowered = jax.jit(loss).lower(weights, x)
    bundle = warm.graph.compile(lowered, arch="sm_90", vjp=True, arguments=[0])
    open("loss.bundle", "wb").write(bundle.data)          # `warm show`, `warm exec`
    step = warm.graph.load("loss.bundle")                  # or load(bundle); device="cpu" needs no GPU
    value, gradient = step(weights, x, 1.0)                # tensors of PyTorch, CuPy, JAX, …

    step = warm.graph.value_and_grad(loss)                 # the same for a function of JAX
    value, gradient = step(weights, x)

    train = jax.jit(lambda w, x: w - 0.1 * step(w, x)[1])  # with WARM_GRAPH_FFI=1: a call inside of XLA's executable

`lowered` is what JAX's lower() returns, or StableHLO as text or bytecode. The compiler knows the types and operations
of kernels/program/program.h. For anything else compile() raises GraphError, which names the operation and its line: in the
text, or of bytecode that of your program.
The program can then use the framework's own compiler.

With vjp=True the function takes more arguments behind its own: a cotangent for each floating-point result. It returns
the gradients behind its results. compile() and load() need neither JAX nor a GPU.
"""

from __future__ import annotations

import ctypes
import io
import os
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple, Union

from warm import _arrays, _library
from warm._arrays import Array, Type

_VJP = 1  # warm.h: WARM_GRAPH_VJP
_RECACHE = 1  # warm.h: WARM_RECACHE
_WHY_TEXT = 256  # warm.h
_XLA_NAME = 80  # warm.h
_FFI = "WARM_GRAPH_FFI"  # off by default: no GPU has run a call of XLA's FFI yet
_TARGET = "warm_graph"


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


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("element", ctypes.c_char_p),
        ("rank", ctypes.c_uint),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_size_t),
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
        lib.warm_graph_open.argtypes = [
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p]
        lib.warm_graph_close.argtypes = [ctypes.c_void_p]
        lib.warm_graph_close.restype = None
        for function in (lib.warm_graph_arguments, lib.warm_graph_results):
            function.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(_Tensor))]
            function.restype = ctypes.c_uint
        addresses = ctypes.POINTER(ctypes.c_void_p)
        lib.warm_graph_run.argtypes = [ctypes.c_void_p, addresses, addresses, ctypes.c_void_p]
        lib.warm_graph_message.argtypes = [ctypes.c_void_p]
        lib.warm_graph_message.restype = ctypes.c_char_p
        lib.warm_graph_memory.argtypes = [ctypes.c_void_p, ctypes.c_size_t, addresses]
        lib.warm_graph_memory_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        lib.warm_graph_memory_free.restype = None
        lib.warm_graph_copy.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        lib.warm_graph_wait.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
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
            message = lib.warm_message(handle).decode("utf-8", "replace")
            raise GraphError(_name(lib, code), message)
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


# ---- running ----


def _close(lib: ctypes.CDLL, handle: ctypes.c_void_p, memory: List[int], bundle: bytes) -> None:
    for address in memory:
        lib.warm_graph_memory_free(handle, address)
    lib.warm_graph_close(handle)


class Graph:
    """A compiled graph in this process: a function of `arguments`, whose values are `results`. See load().

    Thread: one at a time. Memory of results that nobody has any more serves the next results on the same stream."""

    def __init__(self, bundle: bytes, gpu: int) -> None:
        self._lib = lib = _functions()
        self._handle = handle = ctypes.c_void_p()
        why = ctypes.create_string_buffer(_WHY_TEXT)
        code = lib.warm_graph_open(bundle, len(bundle), gpu, ctypes.byref(handle), why)
        if code:
            raise GraphError(_name(lib, code), why.value.decode("utf-8", "replace"))
        self.gpu = gpu  # -1: the CPU
        self.on_gpu = gpu >= 0
        self.arguments = self._types(lib.warm_graph_arguments)
        self.results = self._types(lib.warm_graph_results)
        self._memory: List[int] = []
        self._unused: Dict[Tuple[int, int], List[int]] = {}  # by bytes and stream
        weakref.finalize(self, _close, lib, handle, self._memory, bundle)

    def _types(self, function: Any) -> List[Type]:
        at = ctypes.POINTER(_Tensor)()
        n = function(self._handle, ctypes.byref(at))
        return [Type(t.element.decode(), tuple(t.dims[: t.rank])) for t in at[:n]]

    def _check(self, code: int) -> None:
        if code:
            message = self._lib.warm_graph_message(self._handle).decode("utf-8", "replace")
            raise GraphError(_name(self._lib, code), message)

    def _new(self, type: Type, stream: int) -> Array:
        unused = self._unused.get((type.bytes, stream))
        if unused:
            return Array(type, unused.pop(), self, stream)
        address = ctypes.c_void_p()
        self._check(self._lib.warm_graph_memory(self._handle, type.bytes, ctypes.byref(address)))
        self._memory.append(address.value or 0)
        return Array(type, address.value or 0, self, stream)

    def give_back(self, a: Array) -> None:
        """Takes the memory of an Array that is no more."""
        self._unused.setdefault((a.type.bytes, a.stream), []).append(a.address)

    def read(self, a: Array) -> bytes:
        """Returns the bytes of an Array, when they are there."""
        out = ctypes.create_string_buffer(a.type.bytes + 1)
        self._check(self._lib.warm_graph_copy(self._handle, out, a.address, a.type.bytes, a.stream))
        self._check(self._lib.warm_graph_wait(self._handle, a.stream))
        return out.raw[: a.type.bytes]

    def array(self, numbers: Any, type: Type, stream: int = 0) -> Array:
        """Returns an Array of this graph's memory with a number, or with the numbers of lists in lists."""
        data = _arrays.packed(numbers, type)
        a = self._new(type, stream)
        self._check(self._lib.warm_graph_copy(self._handle, a.address, data, len(data), stream))
        self._check(self._lib.warm_graph_wait(self._handle, stream))
        return a

    def _take(self, i: int, x: Any, stream: int) -> Any:
        """Returns what has the address of an argument, and its memory."""
        try:
            found = _arrays.borrow(x, self.arguments[i], self.gpu, stream)
            if found is None:
                return self.array(x, self.arguments[i], stream)
        except (TypeError, ValueError) as e:
            raise type(e)(f"argument {i}, {self.arguments[i]}: {e}") from None
        if self.on_gpu and found.stream != stream:  # that stream may still write it
            self._check(self._lib.warm_graph_wait(self._handle, found.stream))
        return found

    def __call__(self, *arguments: Any, stream: Optional[int] = None) -> Any:
        """Puts a run on a stream: a CUstream as a number; if None, the current one of PyTorch or CuPy, if arguments are
        theirs, else the default stream. Returns a result, or a tuple of several: tensors of the library of the
        first argument that has one, else Arrays. Arguments of JAX and others have no stream of ours to be freed
        on: then it waits for the run. Raises TypeError and ValueError for an argument, and GraphError."""
        if len(arguments) != len(self.arguments):
            raise TypeError(f"the graph has {len(self.arguments)} arguments, not {len(arguments)}")
        if stream is None:
            stream = _arrays.current_stream(arguments) if self.on_gpu else 0
        taken = [self._take(i, x, stream) for i, x in enumerate(arguments)]
        results = [self._new(type, stream) for type in self.results]
        self._check(self._lib.warm_graph_run(
            self._handle, (ctypes.c_void_p * len(taken))(*(t.address or None for t in taken)),
            (ctypes.c_void_p * len(results))(*(r.address for r in results)), stream))
        libraries = [_arrays.library_of(x) for x in arguments if not isinstance(x, (Array, int, float, list, tuple))]
        if self.on_gpu and not set(libraries) <= {"torch", "cupy"}:
            self._check(self._lib.warm_graph_wait(self._handle, stream))
        library = next(filter(None, libraries), "")
        out = tuple(_arrays.like(library, r) for r in results)
        return out[0] if len(out) == 1 else out


def load(bundle: Union[Bundle, bytes, str, "os.PathLike[str]"], device: Union[int, str] = 0) -> Graph:
    """Loads a bundle, its bytes or a file: a function on the GPU with this number, or with device="cpu" by the
    interpreter, which is slow and needs no GPU.

    Its arguments are arrays of their types in the memory of that GPU, or of the host: of PyTorch, CuPy, JAX, NumPy and
    others, with DLPack or an array interface; buffers such as array.array on the CPU; results of another graph; and
    numbers or lists, which are copied. Raises GraphError, OSError.
    """
    if isinstance(bundle, (str, os.PathLike)):
        with open(bundle, "rb") as f:
            bundle = f.read()
    return Graph(bundle.data if isinstance(bundle, Bundle) else bundle, _gpu(device))


def _gpu(device: Union[int, str]) -> int:
    if device == "cpu":
        return -1
    if not isinstance(device, int) or device < 0:
        raise ValueError(f'device={device!r} is neither "cpu" nor the number of a GPU')
    return device


def _arch_of(gpu: int) -> str:
    """Returns the target of a GPU, by the driver."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        raise GraphError("UNSUPPORTED", str(e)) from None
    code = cuda.cuInit(0) or cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, gpu) \
        or cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, gpu)
    if code:
        raise GraphError("UNSUPPORTED", f"the CUDA driver knows of no GPU {gpu}: error {code}")
    return f"sm_{major.value}{minor.value}"


def _struct_of(x: Any) -> Any:
    """Returns shape and type of an argument as JAX has them."""
    import jax

    if isinstance(x, Array):
        names = {"f": "float", "bf": "bfloat", "i": "int", "ui": "uint"}
        kind = x.type.element.rstrip("0123456789")
        name = "bool" if x.type.element == "i1" else names[kind] + x.type.element[len(kind) :]
        return jax.ShapeDtypeStruct(x.shape, jax.numpy.dtype(name))
    if _arrays.library_of(x) == "torch":
        return jax.ShapeDtypeStruct(tuple(x.shape), jax.numpy.dtype(str(x.dtype).partition(".")[2]))
    return jax.ShapeDtypeStruct(jax.numpy.shape(x), jax.dtypes.result_type(x))


def _raw(x: Any) -> Any:
    """Returns the numbers of a key of jax.random.key(); anything else as it is."""
    import jax

    is_key = isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(x) if is_key else x


def _has_rules(jaxpr: Any) -> bool:
    """True if a function has derivatives of its own, or none on purpose: StableHLO has no trace of them."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "stop_gradient" or eqn.primitive.name.startswith(("custom_jvp", "custom_vjp")):
            return True
        for param in eqn.params.values():
            for sub in param if isinstance(param, (list, tuple)) else (param,):
                sub = getattr(sub, "jaxpr", sub)
                if hasattr(sub, "eqns") and _has_rules(sub):
                    return True
    return False


# ---- inside of jax.jit ----

_registration = threading.Lock()
_is_registered = False


def _check_ffi(stream: Optional[int]) -> None:
    """Raises an error if a function that JAX traces must not have a call of ours."""
    import jax

    if os.environ.get(_FFI, "") in ("", "0"):
        raise GraphError("UNSUPPORTED", "JAX traces the arguments, and no GPU has run a graph inside of jax.jit yet: "
                         f"set {_FFI}=1 to try it, or call it outside")
    if not hasattr(jax, "ffi"):
        raise GraphError("UNSUPPORTED", f"jax {jax.__version__} has no jax.ffi: a graph inside of jax.jit needs it")
    if stream is not None:
        raise TypeError("stream: inside of jax.jit XLA chooses the stream")


def _name_for_xla(bundle: bytes, gpu: int) -> str:
    """Opens a graph for XLA until the process ends, and returns its name for the handlers (client/lib/graph_xla.c)."""
    global _is_registered
    import jax

    lib = _functions()
    try:
        handlers = dict(cpu=lib.warm_graph_xla_cpu, CUDA=lib.warm_graph_xla_cuda)
        lib.warm_graph_xla_open.argtypes = [
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p]
    except AttributeError as e:
        raise GraphError("NOT_FOUND", f"libwarm is too old: {e}") from None
    name, why = ctypes.create_string_buffer(_XLA_NAME), ctypes.create_string_buffer(_WHY_TEXT)
    code = lib.warm_graph_xla_open(bundle, len(bundle), gpu, name, why)
    if code:
        raise GraphError(_name(lib, code), why.value.decode("utf-8", "replace"))
    with _registration:
        for platform, handler in handlers.items() if not _is_registered else ():
            try:
                jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(handler), platform=platform)
            except Exception as e:  # another version of the FFI, or another library with this name
                raise GraphError("UNSUPPORTED", f"XLA does not take the handler of warm: {e}") from None
        _is_registered = True
    return name.value.decode()


@dataclass
class _Compiled:
    """What value_and_grad has for one set of shapes: a bundle, and how its results are those of the caller."""

    bundle: bytes
    gpu: int
    order: List[int]  # of each gradient among the results
    shapes: List[Any]  # the tree of each chosen argument
    cotangent: List[float]  # more arguments
    arguments: List[Any]  # their shapes and types
    results: List[Any]
    opened: Optional[Graph] = None
    name: str = ""

    def graph(self) -> Graph:
        if self.opened is None:
            self.opened = Graph(self.bundle, self.gpu)
        return self.opened

    def traced(self, leaves: Sequence[Any]) -> Any:
        """Returns the results of a call that XLA will make. Its executable may run on any thread, beside graph()."""
        import jax

        self.name = self.name or _name_for_xla(self.bundle, self.gpu)
        ffi = jax.ffi.ffi_call(_TARGET, self.results, vmap_method="sequential")

        @jax.custom_jvp  # type: ignore[untyped-decorator]
        def run(*flat: Any) -> Any:
            return ffi(*flat, graph=self.name)

        @run.defjvp  # type: ignore[untyped-decorator]
        def _(primals: Any, tangents: Any) -> Any:
            raise TypeError("what warm.graph.value_and_grad returns has no derivative of its own")

        return run(*(jax.numpy.asarray(x, s.dtype) for x, s in zip([*leaves, *self.cotangent], self.arguments)))


def value_and_grad(
    fn: Callable[..., Any],
    argnums: Union[int, Sequence[int]] = 0,
    *,
    device: Union[int, str] = 0,
    arch: Optional[str] = None,
    compiler: Optional[str] = None,
) -> Callable[..., Any]:
    """Returns a function that computes `fn` and its gradients, as jax.value_and_grad does, with kernels of warm.

    `fn` is a function of JAX with one floating-point number as its result. For each set of shapes and types it is
    lowered once and compiled by the daemon, with the derivative of warm; with that of JAX if `fn` has stop_gradient,
    custom_jvp or custom_vjp, as softmax and relu do. As in jax.jit, values that `fn` closes over are those of that time. Leaves of the arguments are what load() says; JAX needs no GPU of its own. `arch` is the GPU's
    own if it is None. Raises GraphError, with the line of `fn` for operations that have no code.

    Inside of jax.jit it is a call by the FFI of XLA, on XLA's own stream and memory, if the environment has
    WARM_GRAPH_FFI=1: no GPU has run that yet. `device` must be where XLA runs the program. vmap makes a loop of calls;
    they have no derivative. Such a graph stays open until the process ends.
    """
    gpu = _gpu(device)
    compiled: Dict[Any, _Compiled] = {}
    positions = [argnums] if isinstance(argnums, int) else list(argnums)

    def make(arguments: Sequence[Any]) -> _Compiled:
        import jax

        chosen = [a % len(arguments) for a in positions]
        structs = jax.tree_util.tree_map(_struct_of, tuple(arguments))
        traced = jax.make_jaxpr(fn)(*structs)
        out = traced.out_avals
        if len(out) != 1 or out[0].shape or not jax.numpy.issubdtype(out[0].dtype, jax.numpy.floating):
            raise TypeError(f"the result of a loss is one floating-point number, not {out}")
        if any(isinstance(x, jax.core.Tracer) for x in traced.consts):
            raise TypeError("the loss closes over a value that JAX is tracing: make it an argument of the loss")
        sizes = [len(jax.tree_util.tree_leaves(s)) for s in structs]
        flat = jax.tree_util.tree_leaves(structs)
        wanted = [i for a in chosen for i in range(sum(sizes[:a]), sum(sizes[: a + 1]))]
        for i in wanted:
            if not jax.numpy.issubdtype(flat[i].dtype, jax.numpy.floating):
                raise TypeError(f"argument {i} has no gradient: it is of {flat[i].dtype}")
        ours = not _has_rules(traced.jaxpr)
        whole = fn if ours else jax.value_and_grad(fn, tuple(chosen))
        bundle = compile(jax.jit(whole, keep_unused=True).lower(*structs),
                         arch=arch or (_arch_of(gpu) if gpu >= 0 else "sm_90"),
                         vjp=ours, arguments=sorted(wanted), compiler=compiler)
        results = sorted(wanted) if ours else wanted
        one = jax.ShapeDtypeStruct((), out[0].dtype)
        return _Compiled(bundle.data, gpu, [results.index(i) if ours else k for k, i in enumerate(wanted)],
                         [jax.tree_util.tree_structure(structs[a]) for a in chosen], [1.0] if ours else [],
                         [jax.eval_shape(_raw, s) for s in [*flat, *([one] if ours else [])]], [one, *(flat[i] for i in results)])

    def call(*arguments: Any, stream: Optional[int] = None) -> Any:
        import jax

        leaves, form = jax.tree_util.tree_flatten(arguments)
        is_traced = any(isinstance(x, jax.core.Tracer) for x in leaves)
        if is_traced:
            _check_ffi(stream)
        key = form, tuple((s.shape, str(s.dtype)) for s in map(_struct_of, leaves))
        if key not in compiled:
            compiled[key] = make(arguments)
        it = compiled[key]
        leaves = [_raw(x) for x in leaves]
        value, *gradients = it.traced(leaves) if is_traced else it.graph()(*leaves, *it.cotangent, stream=stream)
        ordered = iter([gradients[i] for i in it.order])
        trees = [jax.tree_util.tree_unflatten(s, [next(ordered) for _ in range(s.num_leaves)]) for s in it.shapes]
        return value, trees[0] if isinstance(argnums, int) else tuple(trees)

    return call
