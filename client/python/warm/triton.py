# SPDX-License-Identifier: Apache-2.0
"""Triton's cache on the daemon: TRITON_CACHE_MANAGER=warm.triton:CacheManager.

    get_group ──▶ the local folder has it ─────────────────────────────▶ paths
        │         the daemon has it ──▶ files written to the folder ───▶ paths
        └─ a miss: None; of all processes that ask at once one gets the lease
    put …, put_group ──▶ files in the local folder, and all of them as one entry

A compiled kernel is a group of files: source, ttir, ttgir, llir, ptx, cubin, json. Here a group is
one entry, so the cache has all of its files or none. Files outside of a group (launchers that gcc
built, winners of autotuning) are entries of their own.

Triton's key names the entry: it covers the kernel, the target, the options, ptxas and Triton itself. What it
does not cover is in _triton_reads.py; a digest of that follows the key. A launcher's key says nothing of the C
library for which gcc made it: its version follows, too. Paths of local files are never stored, but
made again from the names in the group.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import zlib
from typing import Any, Callable

from triton.runtime.cache import FileCacheManager

from warm import _client, _forms, _identity, _library, _triton_reads

_MAGIC = b"warm-triton 1\n"
_LEN = struct.Struct("<I")
_FILES_MAX = 64
_BYTES_MAX = 1 << 30  # of a group, unpacked


def pack(files: dict[str, bytes]) -> bytes:
    """Returns a group as one value: names and sizes as JSON, then the files, all compressed. Most files
    are texts of intermediate stages, which compress well."""
    head = json.dumps([[name, len(data)] for name, data in files.items()]).encode()
    return _MAGIC + zlib.compress(_LEN.pack(len(head)) + head + b"".join(files.values()), 1)


def unpack(value: bytes) -> dict[str, bytes]:
    """Returns the files of a value. Raises ValueError if pack did not make it."""
    if not value.startswith(_MAGIC):
        raise ValueError("not a group")
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(value[len(_MAGIC) :], _BYTES_MAX)
    except zlib.error as e:
        raise ValueError(str(e)) from e
    if not stream.eof or len(data) < _LEN.size:
        raise ValueError("a group is cut short, or too large")
    (head_len,) = _LEN.unpack_from(data)
    at = _LEN.size + head_len
    files: dict[str, bytes] = {}
    for name, size in _entries(data[_LEN.size : at]):
        files[name] = data[at : at + size]
        at += size
    if at != len(data):
        raise ValueError("a group of another length than it says")
    return files


def _entries(head: bytes) -> list[tuple[str, int]]:
    entries = json.loads(head)
    if not isinstance(entries, list) or not 0 < len(entries) <= _FILES_MAX:
        raise ValueError("not a list of files")
    for name, size in entries:
        if not isinstance(size, int) or size < 0 or not _is_plain(name):
            raise ValueError("not the name and the size of a file")
    return [(name, size) for name, size in entries]


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\0")


def name_of(key: str, reads: str, filename: str) -> str:
    """Returns the name of an entry. `reads` is a digest of what is not in Triton's key; "" if that is nothing special."""
    return f"triton:2:{key}{'.' * bool(reads)}{reads}:{filename}"


_BUILD = ("CC", "CXX", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "TRITON_CUDACRT_PATH",
          "TRITON_CUDART_PATH")  # fmt: skip


def _build_settings() -> str:
    """Returns a digest of the settings of the C compiler with which Triton builds launchers; "" if there are none."""
    known = [f"{name}={os.environ[name]}" for name in _BUILD if os.environ.get(name)]
    return hashlib.sha256("\0".join(known).encode("utf-8", "surrogateescape")).hexdigest()[:32] if known else ""


def _libc() -> str:
    """Returns the C library's name and version, "glibc 2.36"; "" if they are not known."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""


def _is_shared_object(filename: str) -> bool:
    return filename.endswith(".so")


def _loads_everywhere(data: bytes) -> bool:
    """True if the local compiler's shared object needs versions of the C library alone, which is in its key. Those of
    the C++ and the compiler's own library are not."""
    return bool(_libc()) and b"GLIBCXX_" not in data and b"CXXABI_" not in data and b"GCC_" not in data


class CacheManager(FileCacheManager):  # type: ignore[misc]
    """The cache of one of Triton's keys. Dumps and overrides stay local files, and so does all that is compiled
    while one of them is on."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override=override, dump=dump)
        self._client = None if override or dump or _triton_reads.why_off() else _client.client()
        self._reads = _build_settings()  # for files outside of a group; those of a group replace it
        self._lease: _client.Lease | None = None
        self._in_group = False  # True after get_group: the next files belong to the group

    def get_file(self, filename: str) -> str | None:
        path: str | None = super().get_file(filename)
        if path is not None or self._client is None or self._in_group:
            return path
        value = self._client.get(self._name(filename))
        return None if value is None else self._write(filename, value)

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        raw = data if isinstance(data, bytes) else str(data).encode()
        path = self._write(filename, raw)
        if path is None:
            path = super().put(data, filename, binary=binary)
        if self._client is not None and not self._in_group and (
            not _is_shared_object(filename) or _loads_everywhere(raw)
        ):
            self._client.put(self._name(filename), raw, kind="triton", label=filename[:200])
        return path

    def get_group(self, filename: str) -> dict[str, str] | None:
        group: dict[str, str] | None = super().get_group(filename)
        reads = _triton_reads.taken(filename)
        self._in_group = True
        if reads is None:
            self._client = None
        if group is not None or self._client is None:
            return group
        self._reads = reads or ""
        self._lease = self._client.lease(self._name(filename))
        if self._lease.value is None:
            return None
        try:
            return self._materialise(filename, unpack(self._lease.value))
        except ValueError:
            return None  # Triton's new files will replace it

    def put_group(self, filename: str, group: dict[str, str]) -> Any:
        result = super().put_group(filename, group)
        if self._client is not None:
            self._store(filename, group)
        return result

    def _name(self, filename: str) -> str:
        key = self.key
        if not self._in_group and _is_shared_object(filename):
            key += "." + hashlib.sha256(_libc().encode()).hexdigest()[:16]
        return name_of(key, self._reads, filename)

    def _write(self, filename: str, data: bytes) -> str | None:
        """Writes a file, which other processes see whole or not at all. Returns its path; None on failure."""
        path: str = self._make_path(filename)
        try:
            fd, temporary = tempfile.mkstemp(prefix="tmp.", dir=self.cache_dir)
            try:
                with open(fd, "wb") as f:
                    f.write(data)
                os.chmod(temporary, 0o666 & ~_umask)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError:
            return None
        return path

    def _materialise(self, filename: str, files: dict[str, bytes]) -> dict[str, str] | None:
        group = {}
        for name, data in files.items():
            path = self._write(name, data)
            if path is None:
                return None
            group[name] = path
        super().put_group(filename, group)
        return group

    def _store(self, filename: str, group: dict[str, str]) -> None:
        lease = self._lease or _client.client().unasked(self._name(filename))
        self._lease = None
        try:
            files = {}
            for name, path in group.items():
                with open(path, "rb") as f:
                    files[name] = f.read()
            described = _describe(files.get(filename, b"{}"))
            lease.put(pack(files), kind="triton", **described)
            _forms.keep(self._name(filename), described.get("label", ""), _forms.MIN_COST_MS,
                        lambda: _form(files, filename))  # fmt: skip
        except OSError:
            pass
        finally:
            lease.release()


def _describe(metadata: bytes) -> dict[str, Any]:
    """Returns the description of a kernel for people and filters, from Triton's own metadata."""
    try:
        known = json.loads(metadata)
        target = known["target"]
        arch = target["arch"]
        hardware = f"sm_{arch}" if target["backend"] == "cuda" else str(arch)
        version = str(known.get("triton_version", ""))
        return {"label": str(known["name"])[:200], "hardware": hardware[:60],
                "compiler": f"Triton {version}".strip()}  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return {}


_NOT_OPTIONS = ("hash", "name", "triton_version", "shared", "num_stages_used")


def _form(files: dict[str, bytes], metadata: str) -> list[str]:
    """Returns the source of a kernel as text: its options, and its first stage in canonical form."""
    known = json.loads(files[metadata])
    lines = [f"option {name}: {known[name]}" for name in sorted(known) if name not in _NOT_OPTIONS]
    first = next(data for name, data in files.items() if name.endswith((".ttir", ".source")))
    try:
        return [*lines, _library.graph_form("mlir", first, _forms.TEXT_MAX)]
    except (_library.Unavailable, _library.Refused):
        return [*lines, first.decode("utf-8", "replace")]


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_umask = _read_umask()  # at import: reading it changes it for all threads for a moment


# ---- the key of Triton itself ----

_HASHED = ("__init__.py", "runtime", "compiler", "backends", "language", "_C")  # Triton hashes less of these


def _files(root: str) -> list[str]:
    """Returns the files that Triton's own key covers, and some more."""
    found, folders = [], [root]
    while folders:
        folder = folders.pop()
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if folder == root and name not in _HASHED:
                continue
            if os.path.isdir(path):
                folders.append(path)
            elif name.endswith(".py") or name.startswith("libtriton."):
                found.append(path)
    return found


def remembered_key(real: Callable[[], str]) -> str:
    """Returns triton_key(), remembered by the identity of its files. Triton itself hashes all of libtriton
    in every process. The key's value stays Triton's own."""
    import sys

    import triton

    root = os.path.dirname(triton.__file__)
    try:
        identity, is_settled = _identity.of_files(_files(root))
        if not is_settled:
            return real()
        name = f"triton-key:{sys.implementation.cache_tag}:{identity}"
        known = _client.client().get(name)
        if known is not None and known.isascii():
            return known.decode()
        key = real()
        if _identity.of_files(_files(root))[0] == identity:
            _client.client().put(name, key.encode(), kind="other", label="triton_key")
        return key
    except OSError:
        return real()
