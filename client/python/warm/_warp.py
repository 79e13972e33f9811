# SPDX-License-Identifier: Apache-2.0
"""NVIDIA Warp's compilers on the daemon. Both are linked into Warp's libraries: NVRTC in warp.so, clang in warp-clang.so.

    warp._src.build.build_cuda, build_cpu ──▶ the source and all arguments are the key
         │ hit:  the stored file is written to output_path
         │ miss: Warp compiles; of all processes that ask at once, one does it

Warp has a cache of its own, by the hash of a module; we are asked only where that has nothing. A compile reads its
source, Warp's folder `native`, its two libraries, its arguments and variables, and for a CPU the machine's features.
These are the key, and the place of `native`, which macros of it print. It may read more, or hold a path, with the arguments of _check, or if its source says so
(_READS): such a compile is Warp's alone. So is one that warns: a hit would not.

Any thread.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import sys
import tempfile
import threading
import time
from types import ModuleType
from typing import Any, Callable, Iterator

from warm import _client, _dumps, _identity

# In a source that Warp generates: files beside its own header, its own place, the time. A program's snippet may have them.
_OWN = re.compile(rb'^#include "(\w+\.h)"$', re.M)
_READS = re.compile(
    rb"include|import|embed|incbin|#\s*pragma|_Pragma|__FILE|__BASE_FILE|builtin_FILE|source_location|__DATE__|__TIME|##|%:|\?\?",
    re.I,
)
_SPLICE = re.compile(rb"\\[ \t\v\f\r]*\n")
# Warp's comment that says in which file and line a function was: no compile without debug information has it.
_PLACE = re.compile(rb"(?<![\\/]\n)^// /[^\\\n*?]*:\d+$", re.M)
_FLAGS = re.compile(r"(-O\w+|-m(?!llvm)[\w.+=-]+|-mllvm[ =]-[\w-]+=\d+|-D\w+(=[\w.]*)?|\s+)*$")
_PRINTS = re.compile(r"-mllvm\S*\s*\S*(print|debug|bisect|stat|count|time)")  # options with which LLVM prints
_VARIABLES = re.compile(
    r"(NVRTC|LIBMATHDX|LLVM|CLANG|PTX|PTXAS|OCG|EDG|CAN_FINALIZE|FINALIZER|NVJITLINK)_|\w*NVVM|"
    r"CPATH$|CCC_|C_INCLUDE_PATH$|CPLUS_INCLUDE_PATH$|SOURCE_DATE_EPOCH$|DUMP_KNOBS"
)
_PLACES = ("cu_path", "cpp_path", "output_path", "obj_path", "pch_dir")  # where files are; their texts count, or their names
_PLAIN = (type(None), bool, int, float, str, bytes)


class _Unkept(Exception):
    """Raised for a compile whose result may depend on more than its key."""


def _plain(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_plain(name, one) for one in value)}]"
    if type(value) not in _PLAIN:
        raise _Unkept(f"{name} is a {type(value).__name__}")
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    return repr(value)


def _strange(source: bytes, folder: str, home: str) -> str:
    """Returns what a source has that may make it read more than Warp's own headers, or hold a path, or "". clang looks
    for them first in the source's folder, NVRTC in the working folder."""
    for name in set(_OWN.findall(source)):
        own = os.path.join(home, "native", name.decode())
        if not os.path.isfile(own) or any(os.path.exists(os.path.join(first, name.decode())) for first in (folder, ".")):
            return f"the header {name.decode()}, which is not Warp's"
    found = _READS.search(_OWN.sub(b"", _SPLICE.sub(b"", source)))
    return found[0].decode() if found else ""


def _check(given: dict[str, Any]) -> None:
    """Raises _Unkept."""
    if "cpp_path" in given and "extra_flags" not in given:
        raise _Unkept("this version of Warp has no flags")
    dump = _dumps.warp()
    if dump:
        raise _Unkept(f"{dump} is a dump")
    for name in ("lineinfo", "verify_fp", "compile_time_trace", "verbose", "llvm_cuda", "extra_include_dirs"):
        if given.get(name):
            raise _Unkept(f"{name} is set")
    config = sys.modules["warp"].config  # build_cuda has no argument for it
    if getattr(config, "verbose", False) or getattr(config, "log_level", 20) <= 10:
        raise _Unkept("Warp prints the compiler's log")
    if "debug" in (given.get("config"), given.get("mode")):
        raise _Unkept("debug information holds paths")
    flags = given.get("extra_flags") or ""
    if not _FLAGS.match(flags) or _PRINTS.search(flags):
        raise _Unkept(f"extra_flags are {given['extra_flags']}")


def _native(home: str) -> Iterator[str]:
    for folder, folders, files in os.walk(os.path.join(home, "native")):
        folders.sort()
        yield from (os.path.join(folder, name) for name in sorted(files))
    for name in sorted(os.listdir(os.path.join(home, "bin"))):
        yield os.path.join(home, "bin", name)


class _Compilers:
    """What Warp's compilers are, as this process loaded them."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._digest = ""

    def digest(self) -> str:
        """Returns the digest of Warp's headers and libraries, which the daemon remembers by their identity."""
        paths = list(_native(self._home))
        identity, is_settled = _identity.of_files(paths)
        if not self._digest:
            name = f"warp-files:{identity}"
            known = _client.client().get(name) if is_settled else None
            if known is None:
                known = self._read(paths)
                if is_settled and _identity.of_files(paths)[0] == identity:
                    _client.client().put(name, known, kind="other", label="Warp")
            self._digest, self._seen = known.decode(), identity
        if identity != self._seen:
            raise _Unkept("Warp's files changed while it ran")
        return self._digest

    def _read(self, paths: list[str]) -> bytes:
        digest = hashlib.sha256()
        for path in paths:
            digest.update(os.path.relpath(path, self._home).encode("utf-8", "surrogateescape") + b"\0")
            with open(path, "rb") as f:
                digest.update(hashlib.sha256(f.read()).digest())
        return digest.hexdigest().encode()


def _machine(module: ModuleType) -> list[str]:
    """Returns what clang takes from the CPU."""
    llvm = module.warp._src.context.runtime.llvm
    names = ("wp_get_cpu_target_triple", "wp_get_host_cpu_name", "wp_get_host_cpu_features")
    return [getattr(llvm, name)().decode() for name in names]


def _key(given: dict[str, Any], source: bytes, place: str, around: list[str]) -> str:
    # Code may have the source's name; the path is not in it without debug information.
    names = [os.path.basename(given[name]) for name in given if name in ("cu_path", "cpp_path")]
    plain = [f"{n}={_plain(n, v)}" for n, v in sorted(given.items()) if n not in _PLACES]
    variables = [f"{n}={v}" for n, v in sorted(os.environ.items()) if _VARIABLES.match(n)]
    parts = [*names, os.path.splitext(place)[1], *plain, *variables, *around]
    texts = [part.encode("utf-8", "surrogateescape") for part in parts]
    if b'R"' not in source:
        source = _PLACE.sub(b"//", source)
    return "warp:2:" + hashlib.sha256(b"\0".join([source, *texts])).hexdigest()


def _write(path: str, data: bytes) -> None:
    fd, temporary = tempfile.mkstemp(prefix="tmp.", dir=os.path.dirname(path) or ".")
    try:
        with open(fd, "wb") as f:
            f.write(data)
        os.chmod(temporary, 0o666 & ~_umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_umask = _read_umask()  # at import: reading it changes it for all threads for a moment


# ---- warnings ----


@functools.lru_cache(maxsize=None)
def _log(process: int, thread: int) -> int:
    """Returns a file in memory for what clang says. It is one for all compiles of a thread: Warp makes a precompiled header
    for each other list of flags."""
    return os.memfd_create("warm")


def _logging(given: dict[str, Any]) -> tuple[int | None, str]:
    """Returns a log for the warnings of a compile for the CPU, which clang prints as ever, and the flags that let it write
    the log. Raises _Unkept."""
    if "extra_flags" not in given:
        return None, ""
    log = _log(os.getpid(), threading.get_ident())
    path = f"/proc/self/fd/{log}"
    if not os.path.exists(path):
        raise _Unkept("no log can show whether clang warns")
    os.ftruncate(log, 0)
    return log, f"{given['extra_flags'] or ''} -diagnostic-log-file {path}"


def _kept(real: Callable[..., Any], home: str, around: Callable[[], list[str]]) -> Callable[..., Any]:
    signature = inspect.signature(real)
    is_changed = False  # NVRTC 13.1 and later may compile otherwise after level 0: native/warp.cu

    def build(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_changed
        lease, place, log, was_changed = None, "", None, is_changed
        try:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments
            is_changed |= "cu_path" in given and given.get("optimization_level") == 0
            path = given["cu_path"] if "cu_path" in given else given["cpp_path"]
            place = given["output_path"] if "output_path" in given else given["obj_path"]
            with open(path, "rb") as f:
                source = f.read()
            _check(given)
            if was_changed:
                raise _Unkept("NVRTC may not forget that this process compiled at level 0")
            strange = _strange(source, os.path.dirname(path), home)
            if strange:
                raise _Unkept(f"its source has {strange}")
            log, flags = _logging(given)
            lease = _client.client().lease(_key(given, source, place, around()))
            if lease.value is not None:
                _write(place, lease.value)
                return None
            if log is not None:
                given["extra_flags"] = flags
                args, kwargs = bound.args, bound.kwargs
        except _Unkept as e:
            _client.client().note("uncacheable", os.path.basename(path)[:200], str(e))
        except Exception:  # another version of Warp, or its own error, which it raises again
            pass
        return _build(real, args, kwargs, lease, place, log)

    return build


def _build(real: Callable[..., Any], args: Any, kwargs: Any, lease: Any, place: str, log: int | None) -> Any:
    start = time.monotonic()
    try:
        result = real(*args, **kwargs)
        if log is not None and os.fstat(log).st_size:
            _client.client().note("uncacheable", os.path.basename(place)[:200], "clang printed a warning, which a hit would not")
        elif lease is not None:
            cost = (time.monotonic() - start) * 1000
            with open(place, "rb") as f:
                made = f.read()
            kind = "object" if place.endswith(".o") else "executable"
            lease.put(made, kind=kind, cost_ms=cost, compiler="Warp", label=os.path.basename(place)[:200])
        return result
    finally:
        if lease is not None:
            lease.release()


def install(module: ModuleType) -> None:
    """Replaces the two functions of warp._src.build that compile."""
    home: str = module.warp_home
    compilers = _Compilers(home)
    module.build_cuda = _kept(module.build_cuda, home, lambda: [compilers.digest(), home])  # type: ignore[attr-defined]
    module.build_cpu = _kept(  # type: ignore[attr-defined]
        module.build_cpu, home, lambda: [compilers.digest(), home, *_machine(module)]
    )
