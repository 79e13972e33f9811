# SPDX-License-Identifier: Apache-2.0
"""The text that an entry's key was made of, kept for `warm why`: client/wire/PROTOCOL.md, kind "form".

Only what had to be made gets one, after it was stored. A form that cannot be had or kept costs the
program nothing but the attempt. Any thread.
"""

from __future__ import annotations

import zlib
from typing import Callable, Iterable

from warm import _client

MIN_COST_MS = 10.0  # what took less is not worth a text
TEXT_MAX = 8 << 20  # bytes
PACKED_MAX = 256 << 10  # what the daemon takes


def keep(name: str, label: str, cost_ms: float, text: Callable[[], Iterable[str]]) -> None:
    """Keeps the lines of text() for the entry `name`."""
    if cost_ms < MIN_COST_MS:
        return
    try:
        plain = "\n".join(text()).encode("utf-8", "replace")
        if not 0 < len(plain) <= TEXT_MAX:
            return
        packed = zlib.compress(plain, 1)
        if len(packed) <= PACKED_MAX:
            _client.client().put(f"form:{name}", packed, kind="form", label=label)
    except Exception:  # of a framework that changed
        pass
