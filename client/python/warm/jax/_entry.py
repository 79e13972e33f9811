# SPDX-License-Identifier: Apache-2.0
"""An executable as an entry's value, and the check that this process can load it.

    "warm-jax/1 " {"name": …, "sha256": …, "targets": […], …} newline payload

The name and the digest show whether a value was cut, changed or swapped. The targets are the custom calls
of the executable: XLA ends a process that runs an unregistered one.

Any thread; no state.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import List, NamedTuple, Optional, Set

MAGIC = b"warm-jax/1 "  # then a line of JSON, then the payload


class Entry(NamedTuple):
    payload: bytes  # compressed: compile time and executable, as JAX stores it
    targets: List[str]  # custom calls that must be registered before it is loaded


def encode(name: str, entry: Entry, **more: str) -> bytes:
    about = {
        "name": name,
        "sha256": hashlib.sha256(entry.payload).hexdigest(),
        "targets": entry.targets,
        **more,
    }
    return MAGIC + json.dumps(about).encode() + b"\n" + entry.payload


def decode(name: str, value: bytes) -> Optional[Entry]:
    """Decodes a value; None if it is not the whole, unchanged entry of that name."""
    end = value.find(b"\n")
    if not value.startswith(MAGIC) or end < 0:
        return None
    try:
        about = json.loads(value[len(MAGIC) : end])
        payload, targets = value[end + 1 :], about["targets"]
        right = about["name"] == name and about["sha256"] == hashlib.sha256(payload).hexdigest()
    except (ValueError, KeyError, TypeError):
        return None
    return Entry(payload, targets) if right and isinstance(targets, list) else None


def _registered(platform: str) -> Optional[Set[str]]:
    """Returns the names of custom calls that this process has; None if they are not known."""
    from jax._src.lib import xla_client

    try:
        names = xla_client.custom_call_targets({"cpu": "Host"}.get(platform, "CUDA"))
        return {str(n) for n in names}
    except Exception:
        return None


def targets_of(module: bytes, platform: str) -> List[str]:
    """Returns the registered custom calls whose names are in a module's bytecode. These are the ones that it
    calls, and perhaps more. One too many costs a recompile at worst."""
    names = _registered(platform)
    if not names or b"custom_call" not in module:
        return []
    pattern = re.compile(b"|".join(re.escape(n.encode()) for n in sorted(names, reverse=True)))
    return sorted({m.decode() for m in pattern.findall(module)})


def can_load(targets: List[str], platform: str) -> bool:
    if not targets:
        return True
    names = _registered(platform)
    return names is not None and names.issuperset(targets)
