# SPDX-License-Identifier: Apache-2.0
"""The results of XLA's autotuning on a GPU, from process to process: only with WARM_XLA_AUTOTUNE=1, because this
has not run on a GPU yet.

XLA keeps a file for each fusion in the folder that xla_gpu_per_fusion_autotune_cache_dir names. A changed model
then measures only its new fusions. An executable of ours comes without these files, so here they are one entry:

    a compile that missed ─▶ folder of this process, once with the entry's files
      └─ XLA compiles: reads its fusions' files, writes those of new ones
      └─ new files? the entry is read again, joined with them, and stored

The entry's name has XLA's libraries and the devices; XLA's own keys, the files' names, have the fusion and its
device. JAX's keys do not change: the option is set after the key was made, for the time of the compile. A folder
that the user set stays. If XLA fails with these files, it compiles without them. Any thread.
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import re
import shutil
import tempfile
import threading
import zlib
from typing import Any, Callable, Dict, Optional

from warm import _client

log = logging.getLogger("warm.jax")

SETTING = "WARM_XLA_AUTOTUNE"
NAME = "jax:autotune:1:"
_OPTION = "xla_gpu_per_fusion_autotune_cache_dir"
_MODE = "xla_gpu_experimental_autotune_cache_mode"
_FILE = re.compile(r"[\w+=-][\w+=.-]{0,199}")  # a name: no path, no hidden file
_FILE_MAX = 64 << 10  # bytes of a file; XLA's have some hundred
_ALL_MAX = 16 << 20  # bytes of all files; beyond that no new ones are kept

Files = Dict[str, str]


def is_wanted() -> bool:
    return os.environ.get(SETTING, "") not in ("", "0")


# ---- the entry ----


def pack(files: Files) -> bytes:
    return zlib.compress(json.dumps(files, sort_keys=True).encode(), 1)


def unpack(value: Optional[bytes]) -> Files:
    """Returns the files of an entry; none of what is not as pack makes it."""
    if value is None:
        return {}
    try:
        stream = zlib.decompressobj()
        found: Any = json.loads(stream.decompress(value, 2 * _ALL_MAX))
    except (zlib.error, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {n: t for n, t in found.items() if _FILE.fullmatch(n) and isinstance(t, str) and len(t) <= _FILE_MAX}


# ---- the folder ----


def read_folder(folder: str) -> Files:
    files: Files = {}
    for entry in os.scandir(folder):
        if not _FILE.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
            continue
        try:
            if entry.stat().st_size <= _FILE_MAX:
                with open(entry.path, encoding="utf-8") as f:
                    files[entry.name] = f.read()
        except (OSError, ValueError):  # XLA renames files, and may one day write other ones
            continue
    return files


class Tuning:
    """The results for one kind of device, and the folder that has them for XLA."""

    def __init__(self, name: str, hardware: str) -> None:
        self._name, self._hardware = name, hardware
        self._lock = threading.Lock()
        self.folder = tempfile.mkdtemp(prefix="warm-autotune-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self._seen = unpack(_client.client().get(name)) if _client.client().may_hit else {}
        for file, text in self._seen.items():
            with open(os.path.join(self.folder, file), "w", encoding="utf-8") as f:
                f.write(text)
        self.gave = bool(self._seen)  # files that may be the reason if XLA fails

    def keep(self) -> None:
        """Stores the files that XLA has added."""
        with self._lock:
            files = read_folder(self.folder)
            if files.keys() <= self._seen.keys():
                return
            joined = {**unpack(_client.client().get(self._name)), **files}
            if sum(map(len, joined.values())) <= _ALL_MAX:
                _client.client().put(self._name, pack(joined), kind="autotune", hardware=self._hardware,
                                     compiler="XLA", label="results of autotuning")  # fmt: skip
            self._seen = files


@functools.lru_cache(maxsize=None)
def _tuning(name: str, hardware: str) -> Tuning:
    return Tuning(name, hardware)


# ---- a compile ----


def compile_with(name: str, hardware: str, options: Any, compile_: Callable[[], Any]) -> Any:
    """Returns compile_(), which XLA does with the results that belong to the name. The options are as before at
    the end."""
    debug: Any = options.executable_build_options.debug_options
    if getattr(debug, _OPTION, None) != "":  # the user's own, or an XLA that has no such option
        return compile_()
    try:
        tuning = _tuning(name, hardware)
        mode = _begin(debug, tuning.folder)
    except Exception as e:
        log.debug("autotuning: %r", e)
        setattr(debug, _OPTION, "")
        return compile_()
    try:
        made = compile_()
    except Exception as e:
        if not tuning.gave:
            raise
        log.info("XLA fails with the results of autotuning, compiled without: %r", e)
        _end(debug, mode)
        return compile_()
    finally:
        _end(debug, mode)
    try:
        tuning.keep()
    except Exception as e:
        log.debug("autotuning: not kept: %r", e)
    return made


def _begin(debug: Any, folder: str) -> Any:
    """Names the folder to XLA, and lets it write there. Returns the mode that was set."""
    from jaxlib import xla_client

    setattr(debug, _OPTION, folder)
    mode = getattr(debug, _MODE, None)
    update = getattr(getattr(xla_client, "AutotuneCacheMode", None), "UPDATE", None)
    if mode is not None and update is not None:
        setattr(debug, _MODE, update)
    return mode


def _end(debug: Any, mode: Any) -> None:
    setattr(debug, _OPTION, "")
    if mode is not None:
        setattr(debug, _MODE, mode)
