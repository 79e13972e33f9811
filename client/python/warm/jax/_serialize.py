# SPDX-License-Identifier: Apache-2.0
"""Executables that a program serializes itself, by jax.experimental.serialize_executable.

XLA can serialize an executable only in the process that compiled it. If a process loads an executable and
serializes it again, nobody can load the result. So for an executable from the cache we return its entry's bytes.

    get_executable_and_time ──▶ note(executable, name)
    serialize(compiled) ──▶ its pickler ──▶ the entry of that name

XLA's executables have no place for a name, and no weak references. So a table holds them by identity, and
drops those that nothing else holds. Any thread.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
from typing import Any, Callable, Dict, Optional, Tuple

log = logging.getLogger("warm.jax")

_SWEEP_MIN = 64  # executables in the table before it is first swept

_lock = threading.Lock()
_loaded: Dict[int, Tuple[Any, str]] = {}  # executables with the names of their entries, by id
_sweep_at = _SWEEP_MIN


def note(executable: Any, name: str) -> None:
    """Notes that an executable was loaded from the entry of that name."""
    with _lock:
        if len(_loaded) >= _sweep_at:
            _sweep()
        _loaded[id(executable)] = executable, name


def _sweep() -> None:
    """Drops the executables that nothing else holds. The next sweep comes when as many again are there."""
    global _sweep_at
    for key, held in list(_loaded.items()):
        if sys.getrefcount(held[0]) <= 2:  # by the table, and by this call
            del _loaded[key]
    _sweep_at = max(_SWEEP_MIN, 2 * len(_loaded))


def install(read: Callable[[str], Optional[bytes]]) -> None:
    """Hooks JAX's pickler. `read` returns the executable of an entry as XLA serialized it, or None."""
    try:
        from jax.experimental import serialize_executable

        pickler: Any = serialize_executable._JaxPjrtPickler
        stock = pickler.persistent_id
    except (ImportError, AttributeError) as e:
        log.info("programs serialize by themselves: %r", e)
        return

    @functools.wraps(stock)
    def persistent_id(self: Any, obj: Any) -> Any:
        held = _loaded.get(id(obj))
        if held is not None and held[0] is obj:
            try:
                found = read(held[1])
            except Exception as e:
                log.debug("%s: not read again: %r", held[1], e)
                found = None
            if found is not None:
                return "exec", found
        return stock(self, obj)

    pickler.persistent_id = persistent_id
