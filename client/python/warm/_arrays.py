# SPDX-License-Identifier: Apache-2.0
"""Tensors that a compiled graph reads and writes: where those of other libraries are, and Array, for its results.

    borrow(x, …)   any array ─▶ its address: DLPack, __cuda_array_interface__, __array_interface__, a buffer
    Array          an address ─▶ an array that other libraries take, by the array interfaces
    like(x, a)     an Array ─▶ a tensor of x's library, in the same memory

Nothing is copied but numbers and lists. warm.graph uses this; it imports no library that has arrays.

Sources: https://dmlc.github.io/dlpack/latest/, https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple

# By the name that StableHLO has: the text of the array interfaces, struct's letter, DLPack's code and bits.
_ELEMENTS = {
    "f32": ("<f4", "f", 2, 32),
    "f64": ("<f8", "d", 2, 64),
    "f16": ("<f2", "e", 2, 16),
    "bf16": ("<V2", "H", 4, 16),  # as ml_dtypes has it
    "i1": ("|b1", "?", 6, 8),
    "i8": ("|i1", "b", 0, 8),
    "i16": ("<i2", "h", 0, 16),
    "i32": ("<i4", "i", 0, 32),
    "i64": ("<i8", "q", 0, 64),
    "ui8": ("|u1", "B", 1, 8),
    "ui16": ("<u2", "H", 1, 16),
    "ui32": ("<u4", "I", 1, 32),
    "ui64": ("<u8", "Q", 1, 64),
}
_CPU, _CUDA, _CUDA_MANAGED = 1, 2, 13  # DLPack's devices


@dataclass(frozen=True)
class Type:
    """The type of a tensor: "f32", (2, 3)."""

    element: str
    shape: Tuple[int, ...]

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.element])

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * (_ELEMENTS[self.element][3] // 8)


class Array:
    """A tensor in the memory of a GPU, or of the host: a result of a graph. numpy.asarray (on the CPU), and
    cupy.asarray and torch.as_tensor (on a GPU) take it without a copy, and so does another graph of warm."""

    def __init__(self, type: Type, address: int, memory: Any, stream: int) -> None:
        self.type = type
        self.address = address
        self.stream = stream  # the one that writes it
        self._memory = memory  # warm.graph's: gives it back

    def __del__(self) -> None:
        self._memory.give_back(self)

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.type.shape

    def _interface(self, on_gpu: bool) -> dict[str, Any]:
        if on_gpu != self._memory.on_gpu:
            raise AttributeError("it is in the memory of " + ("the host" if on_gpu else "a GPU"))
        return {
            "shape": self.shape,
            "typestr": _ELEMENTS[self.type.element][0],
            "data": (self.address if self.type.bytes else 0, False),
            "strides": None,
            "version": 3,
        }

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface(False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._interface(True), "stream": self.stream or 1}

    def _numbers(self) -> List[Any]:
        data = self._memory.read(self)
        numbers = list(struct.unpack(f"={self.type.count}{_ELEMENTS[self.type.element][1]}", data))
        if self.type.element == "bf16":  # the upper half of an f32
            return [struct.unpack("<f", struct.pack("<I", n << 16))[0] for n in numbers]
        return numbers

    def tolist(self) -> Any:
        """Returns its numbers as lists in lists; a number, if its rank is 0. Waits for them."""
        numbers = self._numbers()
        for n in reversed(self.shape[1:]):
            numbers = [numbers[i : i + n] for i in range(0, len(numbers), n)] if n else []
        return numbers if self.shape else numbers[0]

    def __float__(self) -> float:
        return float(self._numbers()[0]) if self.type.count == 1 else float("nan")

    def __repr__(self) -> str:
        return f"warm.graph.Array({self.type})"


# ---- arrays of others ----


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_capsule.restype, _capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _is_packed(shape: Sequence[int], strides: Optional[Sequence[int]], unit: int) -> bool:
    """True if elements follow one another, the last dimension fastest. Strides count `unit`s."""
    for n, stride in zip(reversed(shape), reversed(strides) if strides else ()):
        if n > 1 and stride != unit:
            return 0 in shape
        unit *= n
    return True


@dataclass
class _Found:
    """An array of another library. `keep` owns its memory; `stream` writes it (0: nobody does)."""

    address: int
    typestr: str
    shape: Tuple[int, ...]
    packed: bool
    keep: Any
    stream: int = 0


def _of_dlpack(x: Any, gpu: int, stream: int) -> _Found:
    keep = x.__dlpack__() if gpu < 0 else x.__dlpack__(stream=stream or 1)
    t = _DLTensor.from_address(_capsule(keep, b"dltensor"))
    kinds = (_CPU,) if gpu < 0 else (_CUDA, _CUDA_MANAGED)
    if t.device_type not in kinds or (gpu >= 0 and t.device_id != gpu):
        raise ValueError(f"it is on DLPack's device {t.device_type}:{t.device_id}")
    typestr = next((e[0] for e in _ELEMENTS.values() if e[2:] == (t.code, t.bits)), "an unknown type")
    shape = tuple(t.shape[: t.ndim])
    packed = _is_packed(shape, t.strides[: t.ndim] if t.strides else None, 1)
    return _Found((t.data or 0) + t.byte_offset, typestr, shape, packed and t.lanes == 1, keep)


def _of_interface(x: Any, it: dict[str, Any]) -> _Found:
    size = int(it["typestr"][2:])
    shape = tuple(it["shape"])
    packed = _is_packed(shape, it.get("strides"), size)
    stream = it.get("stream") or 0
    return _Found(it["data"][0] or 0, it["typestr"], shape, packed, x, 0 if stream == 1 else stream)


def _of_buffer(x: Any, want: Type) -> _Found:
    """A buffer, such as array.array. One of one dimension fits each shape of its size."""
    view = memoryview(x)
    letter = _ELEMENTS[want.element][1]
    same = view.itemsize * view.contiguous == struct.calcsize("=" + letter) and (
        view.format == letter or {view.format, letter} <= set("ilq") or {view.format, letter} <= set("ILQ"))
    raw = (ctypes.c_char * view.nbytes).from_buffer_copy(view) if view.readonly else (
        ctypes.c_char * view.nbytes).from_buffer(view)
    fits = view.ndim == 1 and view.nbytes == want.bytes
    return _Found(ctypes.addressof(raw), _ELEMENTS[want.element][0] if same else view.format,
                  want.shape if fits else view.shape or (), view.contiguous, raw)


def _numbers_of(x: Any) -> List[Any]:
    return [n for part in x for n in _numbers_of(part)] if isinstance(x, (list, tuple)) else [x]


def packed(x: Any, want: Type) -> bytes:
    """Returns the bytes of a number, or of the numbers of lists in lists."""
    numbers = _numbers_of(x)
    if len(numbers) != want.count:
        raise ValueError(f"it has {len(numbers)} numbers; {want} has {want.count}")
    letter = _ELEMENTS[want.element][1]
    if want.element == "bf16":
        halves = [struct.unpack("<I", struct.pack("<f", n))[0] for n in numbers]
        numbers = [(n + 0x7FFF + (n >> 16 & 1)) >> 16 if n & 0x7FFFFFFF <= 0x7F800000 else 0x7FC0 for n in halves]
    elif letter not in "fde":
        for n in numbers:
            if n != int(n) or (letter == "?" and n not in (0, 1)):
                raise ValueError(f"{n} is no element of {want}")
        numbers = [int(n) for n in numbers]
    try:
        return struct.pack(f"={want.count}{letter}", *numbers)
    except struct.error as e:
        raise ValueError(f"{want}: {e}") from None


def borrow(x: Any, want: Type, gpu: int, stream: int) -> Optional[_Found]:
    """Finds an array of the wanted type; None for numbers and lists. `gpu` is -1 on the CPU. TypeError, ValueError."""
    if isinstance(x, (int, float, list, tuple)):
        return None
    if getattr(x, "requires_grad", False):  # torch: warm's own derivative is in the graph
        x = x.detach()
    interface = getattr(x, "__array_interface__" if gpu < 0 else "__cuda_array_interface__", None) \
        if gpu < 0 or not hasattr(x, "__dlpack__") else None
    if interface is not None:
        found = _of_interface(x, interface)
    elif hasattr(x, "__dlpack__"):
        if gpu >= 0 and x.__dlpack_device__()[0] == _CPU:
            raise TypeError("it is in the memory of the host; copy it to the GPU first")
        found = _of_dlpack(x, gpu, stream)
    elif gpu < 0:
        found = _of_buffer(x, want)
    else:
        raise TypeError(f"{type(x).__name__} has neither DLPack nor __cuda_array_interface__")
    if found.typestr != _ELEMENTS[want.element][0] or found.shape != want.shape:
        raise TypeError(f"it is {found.typestr}{list(found.shape)}, not {want}")
    if not found.packed:
        raise ValueError("its elements do not follow one another, row by row")
    return found


def library_of(x: Any) -> str:
    """Returns "torch", "cupy", "numpy", "jax" for their arrays; "" for others."""
    name = type(x).__module__.partition(".")[0]
    name = "jax" if name == "jaxlib" else name
    return name if name in ("torch", "cupy", "numpy", "jax") and not isinstance(x, Array) else ""


def like(library: str, a: Array) -> Any:
    """Returns an Array as that library's, in the same memory; JAX copies. An Array for a library that cannot."""
    module: Any = sys.modules.get("numpy" if library == "jax" and not a._memory.on_gpu else library)
    if module is None or (library == "jax" and a._memory.on_gpu):
        return a
    if library == "torch":
        bits = _Bits(a) if a.type.element == "bf16" else a
        if a._memory.on_gpu:
            tensor = module.as_tensor(bits, device=f"cuda:{a._memory.gpu}")
        else:
            import numpy

            tensor = module.as_tensor(numpy.asarray(bits))
        return tensor.view(module.bfloat16) if a.type.element == "bf16" else tensor
    made = module.asarray(a)
    if a.type.element == "bf16" and "ml_dtypes" in sys.modules:
        made = made.view(sys.modules["ml_dtypes"].bfloat16)
    return sys.modules["jax"].numpy.asarray(made) if library == "jax" else made


class _Bits:
    """An Array of bf16 as one of i16: not all libraries read bf16 from an array interface."""

    def __init__(self, a: Array) -> None:
        self._a = a

    def __getattr__(self, name: str) -> Any:
        if name not in ("__array_interface__", "__cuda_array_interface__"):
            raise AttributeError(name)
        return {**getattr(self._a, name), "typestr": "<i2"}


def current_stream(arguments: Sequence[Any]) -> int:
    """Returns the stream that the library of the arguments works on now; 0, the default one, if none of them has
    one."""
    find: dict[str, Callable[[Any], int]] = {
        "torch": lambda torch: int(torch.cuda.current_stream().cuda_stream),
        "cupy": lambda cupy: int(cupy.cuda.get_current_stream().ptr),
    }
    for library in map(library_of, arguments):
        if library in find:
            return find[library](sys.modules[library])
    return 0
