# SPDX-License-Identifier: Apache-2.0
"""The name of an executable of XLA in the cache.

    module ──bytecode──▶ canonical key (libwarm) ─┐
    compile options, flags: what XLA reads  ──────┤
    backend, its libraries by content ────────────┼──▶ "jax:1:<32 hex digits>"
    devices, processor ───────────────────────────┘

Two programs have one name if they differ only in

- names of functions, arguments and results, or files and lines;
- numbers of channels, unless several processes run the program together;
- the places where logs, dumps and caches go.

Everything else counts, unless it is known to have no effect. Anything that this file does not understand
raises Unknown, and then JAX's own key decides. A program that must not be kept raises
warm._library.Refused.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
from typing import Any, Iterable, Iterator, List, Tuple

from warm import _library
from warm.jax import _autotune

FORMAT = b"jax:1"

# DebugOptions of XLA (xla.proto) that only say where and how dumps, logs and caches are written, by
# number. Two are there for other reasons: the key has the devices (xla_force_host_platform_device_count)
# and the files of CUDA (xla_gpu_cuda_data_dir) themselves.
_NEUTRAL_NAMES = {
    61: "xla_gpu_cuda_data_dir",
    102: "xla_force_host_platform_device_count",
    109: "xla_dump_to",
    110: "xla_dump_hlo_module_re",
    111: "xla_dump_hlo_pass_re",
    112: "xla_dump_hlo_as_text",
    113: "xla_dump_hlo_as_proto",
    114: "xla_dump_hlo_as_dot",
    115: "xla_dump_hlo_as_url",
    116: "xla_dump_hlo_as_html",
    118: "xla_dump_hlo_snapshots",
    131: "xla_dump_include_timestamp",
    132: "xla_dump_max_hlo_modules",
    144: "xla_dump_module_metadata",
    149: "xla_dump_fusion_visualization",
    151: "xla_dump_compress_protos",
    153: "xla_dump_disable_metadata",
    154: "xla_dump_hlo_pipeline_re",
    164: "xla_dump_hlo_as_long_text",
    182: "xla_dump_latency_hiding_schedule",
    185: "xla_dump_enable_mlir_pretty_form",
    252: "xla_detailed_logging",
    253: "xla_enable_dumping",
    290: "xla_dump_large_constants",
    306: "xla_gpu_kernel_cache_file",
    310: "xla_gpu_per_fusion_autotune_cache_dir",
    324: "xla_gpu_experimental_autotune_cache_mode",
}
# Options of the GPU backend, by number; the CPU backend does not read them.
_GPU_ONLY = frozenset(
    int(n)
    for n in """
62 100 101 103 105 123 125 127 128 138 146 147 148 150 155 157 159 163 165 166 170 181 186 188
189 190 203 205 208 209 210 212 213 215 216 217 219 222 223 224 225 227 228 231 232 235 236 237
239 240 244 245 246 247 248 250 254 255 256 257 258 259 260 261 262 265 267 268 269 272 273 274
277 280 283 284 285 287 288 289 291 292 294 295 296 297 301 304 305 312 316 318 321 322 327 328
329 331 334 336 338 339 340 341 342 343 345 347 348 349 350 351 353 356 357 360 362 366 368 374
375 377 378 382 383 384 387 388 389 390 391 392 393 401 404 406 407 409 410 411 413 414 415 416
420 421 424 426 427 428 431 434 435 437 440 441 442 444 445 449 450 451 453 454 455 456 457 459
460 461 462 465 468 469 470 471 472 473 474 475 476 478 480 481 482 483 484 485 486 487 488 490
491 492 494 497 501 504 505 506 513 514 515 516 517 518 519 521 522 523 524 525 526 527 530 531
532 533 534 536 537 538 540 541 545 546 549 550 551 552 553 554 555 556 557""".split()
)
# Options that name files which change the code (kernels, results of autotuning, profiles, tables). No
# key has the content of these files.
_READ_NAMES = {
    127: "xla_gpu_ptx_file",
    128: "xla_gpu_algorithm_denylist_path",
    150: "xla_gpu_llvm_ir_file",
    210: "xla_gpu_pgle_profile_file_or_directory_path",
    223: "xla_gpu_load_autotune_results_from",
    261: "xla_gpu_target_config_filename",
    377: "xla_gpu_experimental_collective_perf_table_path",
    383: "xla_gpu_experimental_matmul_perf_table_path",
    434: "xla_gpu_gemm_autotuner_override_file",
}
# The folder with libdevice and ptxas counts by the content of these files.
_CUDA_DATA_DIR = 61
_CUDA_FILES = ("nvvm/libdevice/libdevice.10.bc", "bin/ptxas")
_PLUGIN_FILE = re.compile(
    r"(pjrt|xla_\w+_plugin|/libcu(da|dnn|blas|solver|sparse|fft)|/libnv(JitLink|rtc|ptx))[^/]*\.so"
)
# Map fields of DebugOptions: their entries come in another order every time.
_MAPS = frozenset((357, 474, 500))
_NEUTRAL = frozenset(_NEUTRAL_NAMES)
_NEUTRAL_FLAGS = frozenset(_NEUTRAL_NAMES.values())


class Unknown(Exception):
    """Raised for anything that this file does not understand."""


# ---- protobuf's wire format: (number, bytes of the field with its tag, its content) ----


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Unknown("protobuf: a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[Tuple[int, bytes, bytes]]:
    """Reads the fields of a message. There are hundreds, nearly all with a tag and a value of one or two
    bytes: those are read here, without a call."""
    at, end = 0, len(data)
    while at < end:
        start = at
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = _varint(data, start)
        wire = tag & 7
        content = b""
        if wire == 0:
            if at < end and data[at] < 0x80:
                at += 1
            else:
                _, at = _varint(data, at)
        elif wire == 2:
            length, at = _varint(data, at)
            content = data[at : at + length]
            at += length
        elif wire == 1 or wire == 5:
            at += 8 if wire == 1 else 4
        else:
            raise Unknown("protobuf: a wire type")
        if at > end:
            raise Unknown("protobuf: cut short")
        yield tag >> 3, data[start:at], content


# ---- options and flags ----


@functools.lru_cache(maxsize=8)
def _debug_options(data: bytes, on_cpu: bool) -> bytes:
    """Returns a digest of the options that count; nearly all compiles of a program have the same."""
    left_out = _NEUTRAL | _GPU_ONLY if on_cpu else _NEUTRAL
    kept = []
    for number, field, content in _fields(data):
        if not on_cpu and content and number in _READ_NAMES:
            raise _library.Refused(f"{_READ_NAMES[number]}: no key has the content of that file")
        if not on_cpu and number == _CUDA_DATA_DIR:
            kept.append((number, b"", _cuda_files(os.fsdecode(content))))
        if number not in left_out:
            kept.append((number, field if number in _MAPS else b"", field))
    kept.sort(key=lambda k: k[:2])  # stable: repeated fields stay in their order
    return hashlib.sha256(b"".join(field for _, _, field in kept)).digest()


def _cuda_files(folder: str) -> bytes:
    paths = [os.path.join(folder, name) for name in _CUDA_FILES]
    return "\n".join(map(_identity, filter(os.path.exists, paths))).encode()


def options_bytes(options: Any, platform: str) -> bytes:
    """Returns the part of a CompileOptions that XLA reads when it makes code."""
    parts: List[bytes] = []
    for number, field, content in _fields(options.SerializeAsString()):
        if number == 7:  # env_option_overrides: a map, read from Python below
            continue
        if number != 3:  # executable_build_options
            parts.append(field)
            continue
        for inner, inner_field, inner_content in _fields(content):
            if inner == 3:
                parts.append(b"debug_options" + _debug_options(inner_content, platform == "cpu"))
            elif inner == 9 and platform != "cpu":
                # The code depends on the number of GPUs, not on the choice among a host's GPUs.
                assignment = options.device_assignment
                if assignment is None:
                    assignment = options.executable_build_options.device_assignment
                counts = assignment.replica_count(), assignment.computation_count()
                parts.append(b"devices %d %d" % counts)
            else:
                parts.append(inner_field)
    parts.append(_overrides(options, platform))
    return b"".join(parts)


def _has_no_effect(name: str, value: str, options: Any, platform: str) -> bool:
    """Returns True if XLA makes the same code with and without this flag. Such a flag only moves dumps or
    caches, belongs to another backend, or has the value that the options have anyway."""
    if name in _NEUTRAL_FLAGS or name.startswith("xla_dump_"):
        return True
    if platform != "cpu":
        if value and name in _READ_NAMES.values():
            raise _library.Refused(f"{name}: no key has the content of that file")
        return False
    if name.startswith("xla_gpu_"):
        return True
    text = str(options.executable_build_options.debug_options)
    found = re.findall(rf"^\s*{re.escape(name)}:\s*(\S+)\s*$", text, re.MULTILINE)
    return found == [value.lower() if value.lower() in ("true", "false") else value]


def _overrides(options: Any, platform: str) -> bytes:
    """Returns the values of jit(compiler_options=...) that the options do not have anyway."""
    kept = []
    for name, value in dict(options.env_option_overrides).items():
        spelled = str(value).lower() if isinstance(value, bool) else str(value)
        if not _has_no_effect(name, spelled, options, platform):
            kept.append(f"{name}={type(value).__name__}:{value!r}")
    return "\0".join(sorted(kept)).encode()


def flags_bytes(options: Any, platform: str) -> bytes:
    """Returns the flags of $XLA_FLAGS that are not in the options already. In a Python process XLA does not
    read flags of the command line."""
    kept = []
    for flag in os.environ.get("XLA_FLAGS", "").split():
        if not flag.startswith("--"):
            raise Unknown("XLA_FLAGS names a file")
        name, has_value, value = flag[2:].partition("=")
        if not _has_no_effect(name, value if has_value else "true", options, platform):
            kept.append(flag)
    return "\0".join(kept).encode()


# ---- where it runs ----


def _cpu_lines(text: str) -> List[str]:
    counts = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part")
    first = text.split("\n\n", 1)[0]
    lines = []
    for line in first.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in counts:
            lines.append(f"{name.strip()}={' '.join(sorted(value.split()))}")
    return lines


@functools.lru_cache(maxsize=None)
def processor() -> str:
    """Returns the processor's features, on which compiled code relies."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            lines = _cpu_lines(f.read(16384))
    except OSError:
        lines = []
    import platform

    text = "\n".join([platform.machine(), *lines])
    return f"{platform.machine()}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _backend_files(platform: str) -> Iterable[str]:
    """Returns the shared objects that compile. These are jaxlib's own and, for a plugin's platform, the
    plugin and the libraries of CUDA that choose or contain code."""
    import jaxlib

    folder = os.path.dirname(jaxlib.__file__)
    for name in ("libjax_common.so", "xla_extension.so"):
        if os.path.exists(os.path.join(folder, name)):
            yield os.path.join(folder, name)
    if platform != "cpu":
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = {line.split(None, 5)[-1].strip() for line in maps if "/" in line}
        yield from sorted(filter(_PLUGIN_FILE.search, paths))


def _identity(path: str) -> str:
    try:
        return f"{os.path.basename(path)} {_library.file_identity(path)}"
    except _library.Unavailable as e:
        raise Unknown(str(e)) from e


@functools.lru_cache(maxsize=None)
def libraries(platform: str) -> str:
    import jaxlib.version

    return "\n".join(
        [f"jaxlib {jaxlib.version.__version__}", *map(_identity, _backend_files(platform))]
    )


def _topology(cache_key: Any, devices: Any, backend: Any) -> bytes:
    if backend.platform == "cpu" and devices.size == 1:
        return b"one"  # the number of the process's other devices does not matter
    found = hashlib.sha256()
    try:
        cache_key._hash_accelerator_config(found, devices)
    except TypeError:  # JAX up to 0.4
        found = hashlib.sha256()
        cache_key._hash_accelerator_config(found, devices, backend)
    return found.digest()


def autotune_name(devices: Any, backend: Any, cache_key: Any) -> str:
    """Returns the name of the results of XLA's autotuning on these devices (_autotune.py)."""
    return _autotune.NAME + digest(
        [backend.platform_version.encode(), libraries(backend.platform).encode(), _topology(cache_key, devices, backend)]
    )


# ---- the name ----


def module_bytes(module: Any) -> bytes:
    out = io.BytesIO()
    module.operation.write_bytecode(file=out)
    return out.getvalue()


def digest(fields: Iterable[bytes]) -> str:
    h = hashlib.sha256()
    for field in fields:
        h.update(len(field).to_bytes(8, "little"))
        h.update(field)
    return h.hexdigest()[:32]


def module_key(module: Any, bytecode: bytes) -> str:
    """Returns the canonical key. If libwarm does not know the bytecode's version, it gets the text instead."""
    key, exact = _library.graph_key("mlirbc", bytecode)
    if exact:
        text = module.operation.get_asm(enable_debug_info=False)
        key, exact = _library.graph_key("mlir", text.encode())
    if exact:
        raise Unknown("the module has no canonical form")
    return key


def channels(module: Any) -> bytes:
    """Returns the numbers of channels, which the canonical key leaves out, in the key's order."""
    text = module.operation.get_asm(enable_debug_info=False, large_elements_limit=1)
    found = re.findall(r"(?:handle|channel_id) = (\d+)", text)
    return ",".join(dict.fromkeys(found)).encode()


def name_of(
    module: Any,
    bytecode: bytes,
    devices: Any,
    options: Any,
    backend: Any,
    cache_key: Any,
    compression: str,
    many_processes: bool = False,
    n_callbacks: int = 0,
) -> str:
    """Returns the name of the executable that `backend` makes of the module. `cache_key` is
    jax._src.cache_key. If many processes compile the module, each for itself, the numbers of channels
    count, because the processes must agree on them. A module with callbacks is the copy of
    _callbacks.by_index."""
    platform = backend.platform
    if platform not in ("cpu", "gpu", "cuda", "rocm"):
        raise Unknown(f"the platform {platform}")
    fields = [
        FORMAT,
        module_key(module, bytecode).encode(),
        platform.encode(),
        backend.platform_version.encode(),
        libraries(platform).encode(),
        options_bytes(options, platform),
        flags_bytes(options, platform),
        _topology(cache_key, devices, backend),
        processor().encode(),
        compression.encode(),
        cache_key.custom_hook().encode(),
    ]
    if many_processes:
        fields.append(b"channels " + channels(module))
    if n_callbacks:
        fields.append(b"host callbacks %d" % n_callbacks)
    return "jax:1:" + digest(fields)
