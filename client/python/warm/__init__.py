# SPDX-License-Identifier: Apache-2.0
"""warm: the client of the warm compilation cache.

    import warm

    value = warm.get("my-artifact")          # bytes, or None
    warm.put("my-artifact", b"...", cost_ms=1200)

    with warm.lease("my-artifact") as lease: # of many processes that ask at once, one makes it
        value = lease.value
        if value is None:
            value = make()
            lease.put(value)

Everything fails open. Without a daemon, after a deadline or after any other failure, a get is a miss
and a put stores nothing. No failure of the daemon raises an exception.

    WARM_DISABLE=1     turns the cache off
    WARM_READONLY=1    stores nothing
    WARM_RECACHE=1     takes nothing from the cache
    WARM_SOCKET        the path of the daemon's socket

The module is safe in threads and across fork. Its import opens nothing and loads little, because
programs under `warm run` may never need it.
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


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
