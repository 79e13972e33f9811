# SPDX-License-Identifier: Apache-2.0
"""The identity of files by stat(2): a file with the same inode, size, mtime and ctime has the same
content."""

from __future__ import annotations

import os
from typing import Iterable

_SETTLED_NS = 2 * 10**9  # a file that changed more recently may change again within one tick of its times


def of_files(paths: Iterable[str]) -> tuple[str, bool]:
    """Returns the identity of these files, and True if it is settled: no file changed a moment ago.
    Raises OSError."""
    import hashlib
    import time

    text, newest = hashlib.sha256(), 0
    for path in paths:
        s = os.stat(path)
        newest = max(newest, s.st_mtime_ns, s.st_ctime_ns)
        known = (path, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
        text.update(repr(known).encode("utf-8", "surrogateescape"))
    return text.hexdigest(), time.time_ns() - newest > _SETTLED_NS
