# SPDX-License-Identifier: Apache-2.0
"""warm: the client of the warm compilation cache.

    import warm

    value = warm.get("my-artifact")          # bytes, or None
    warm.put("my-artifact", b"...", cost_ms=1200)

    with warm.lease("my-artifact") as lease: # if many processes ask at once, one makes it
        value = lease.value
        if value is None:
            value = make()
            lease.put(value)

Everything fails open: without a daemon, after its deadline, or after another failure, a get is a
miss, a put stores nothing, and nothing raises. WARM_DISABLE=1 turns the cache off, WARM_READONLY=1
stores nothing, WARM_RECACHE=1 takes nothing, WARM_SOCKET is the path of the daemon's socket.

It is safe in threads and across fork. Importing it opens nothing and imports little, because programs
under `warm run` may never need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warm._version import VERSION as __version__

__all__ = ["Client", "Lease", "client", "get", "lease", "put", "stats"]

if TYPE_CHECKING:
    from warm._client import Client, Lease, client, get, lease, put, stats


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'warm' has no attribute {name!r}")
    from warm import _client

    return getattr(_client, name)
