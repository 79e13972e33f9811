# SPDX-License-Identifier: Apache-2.0
"""libwarm by ctypes: canonical keys of graphs, identities of files. Optional.

The library is $WARM_LIBRARY, else the one beside the program $WARM_EXE, else the one that was
installed with this package. Without it `graph_key` and `file_identity` raise Unavailable, and an
adapter uses the keys of its framework.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Optional, Tuple

REFUSED = -19  # keygen/err.h: must not be kept
EXACT = 2  # warm.h: the key of the exact bytes
KEY_TEXT, IDENTITY_TEXT = 33, 128  # sizes of buffers, at least those in warm.h
_FORM_USUAL = 128 << 10  # bytes: a larger form is made twice. A buffer of the most that one may have takes 5 ms


class Unavailable(Exception):
    """Raised if there is no library, or if it has no answer."""


class Refused(Exception):
    """Raised for a program that holds addresses of its process: its artifact must not be kept."""


_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None
_looked = False


def files(*names: str) -> list[str]:
    """Returns the paths at which files below the prefix of this installation may be."""
    here = os.path.dirname(os.path.abspath(__file__))
    roots = [os.path.join(here, *[".."] * 4)]  # PREFIX/share/warm/python/warm
    exe = os.environ.get("WARM_EXE")
    if exe:
        roots.insert(0, os.path.join(os.path.dirname(exe), ".."))
    return [os.path.join(root, name) for root in roots for name in names]


def _candidates() -> list[str]:
    given = os.environ.get("WARM_LIBRARY")
    return [given] if given else files("lib/libwarm.so.0", "lib/libwarm.so")


def _declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    lib.warm_graph_key.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
    ]
    lib.warm_graph_form.argtypes = [*lib.warm_graph_key.argtypes, ctypes.c_size_t]
    lib.warm_graph_form.restype = ctypes.c_long
    lib.warm_open.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p]
    lib.warm_close.argtypes = [ctypes.c_void_p]
    lib.warm_close.restype = None
    lib.warm_file_identity.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    return lib


def _library() -> ctypes.CDLL:
    global _loaded, _looked
    with _lock:
        if not _looked:
            _looked = True
            for path in _candidates():
                try:
                    _loaded = _declare(ctypes.CDLL(path))
                    break
                except (OSError, AttributeError):
                    continue
    if _loaded is None:
        raise Unavailable("libwarm was not found")
    return _loaded


def graph_key(kind: str, data: bytes) -> Tuple[str, bool]:
    """Returns the canonical key of a graph in hex, and True if it is the key of the exact bytes."""
    out = ctypes.create_string_buffer(KEY_TEXT)
    code = _library().warm_graph_key(kind.encode(), data, len(data), out)
    if code == REFUSED:
        raise Refused("it may hold addresses of this process")
    if code not in (0, EXACT):
        raise Unavailable(f"no key: {code}")
    return out.value.decode(), code == EXACT


def graph_form(kind: str, data: bytes, cap: int) -> str:
    """Returns the canonical form of a graph as text, of at most `cap` bytes."""
    n, size = min(cap, _FORM_USUAL), 0
    while size < n <= cap:
        out, size = ctypes.create_string_buffer(n), n
        n = _library().warm_graph_form(kind.encode(), data, len(data), out, size)
    if not 0 <= n <= cap:
        raise Unavailable(f"no form: {n}")
    return ctypes.string_at(out, n).decode("utf-8", "replace")


def file_identity(path: str) -> str:
    """Returns a text that is equal for files of equal content. The daemon remembers it."""
    lib = _library()
    handle = ctypes.c_void_p()
    if lib.warm_open(ctypes.byref(handle), None):
        raise Unavailable("no daemon")
    try:
        out = ctypes.create_string_buffer(IDENTITY_TEXT)
        code = lib.warm_file_identity(handle, os.fsencode(path), out)
    finally:
        lib.warm_close(handle)
    if code:
        raise Unavailable(f"no identity of {path}: {code}")
    return out.value.decode()
