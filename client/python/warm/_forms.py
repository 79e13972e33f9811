# SPDX-License-Identifier: Apache-2.0
"""Forms. A form is the text that an entry's key was made of, kept for `warm why` (client/wire/PROTOCOL.md,
kind "form").

Only an entry that this process made gets a form, after the entry was stored. If a form cannot be made or
stored, the program goes on without it. Any thread.
"""

from __future__ import annotations

import zlib
from typing import Callable, Iterable

from warm import _client

MIN_COST_MS = 10.0  # a cheaper entry is not worth a form
TEXT_MAX = 8 << 20  # bytes
PACKED_MAX = 256 << 10  # bytes: the daemon takes no more


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
    except Exception:  # text() reads a framework, which may have changed
        pass
