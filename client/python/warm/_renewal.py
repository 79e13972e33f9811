# SPDX-License-Identifier: Apache-2.0
"""Leases that last as long as their makers work.

    a lease ──3/4 of its time──▶ has this process, or one that it started, used the CPU?
                                   yes: RENEW, then the same question every few seconds
                                   no:  nothing is sent, and the lease ends in its time

One thread for all leases of the process. It begins with a lease, and ends when none is held. A child of a fork has
none, and begins its own. If no thread may begin, leases end in their time, as before.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from typing import Protocol

PERIOD = 5.0  # seconds between two RENEWs
FIRST = 0.75  # of the lease's time
LONGEST = 1800.0  # seconds for which a lease is renewed
WORKED_TICKS = 5  # of the kernel's clock, 100 a second: less is that of our own thread
PROCESSES_MAX = 1000


class Held(Protocol):
    lease_seconds: float

    @property
    def held(self) -> bool: ...

    def renew(self) -> None: ...


def _ticks(pid: int | str, left: list[int]) -> int:
    """Returns the CPU time of a process, of those that it started, and of those that have ended, in ticks."""
    left[0] -= 1
    with open(f"/proc/{pid}/stat", "rb") as f:
        fields = f.read().rpartition(b")")[2].split()
    total = sum(map(int, fields[11:15]))
    for thread in os.listdir(f"/proc/{pid}/task") if left[0] > 0 else ():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as f:
            for child in f.read().split():
                with contextlib.suppress(OSError, ValueError):  # it may end at any time
                    total += _ticks(child.decode(), left)
    return total


def used_ticks() -> int:
    try:
        return _ticks("self", [PROCESSES_MAX])
    except (OSError, ValueError):
        return 0


class _Renewer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: weakref.WeakKeyDictionary[Held, tuple[float, float]] = weakref.WeakKeyDictionary()
        self._runs = False
        self._sooner = threading.Event()  # a lease is due before the thread would look
        self._looks_at = 0.0

    def add(self, lease: Held) -> None:
        now = time.monotonic()
        due = now + FIRST * lease.lease_seconds
        with self._lock:
            self._leases[lease] = (now, due)
            if due < self._looks_at:
                self._sooner.set()
            if self._runs:
                return
            with contextlib.suppress(RuntimeError):  # at the interpreter's end, or above a limit of threads
                threading.Thread(target=self._run, name="warm-renewal", daemon=True).start()
                self._runs = True

    def _due(self, now: float) -> tuple[list[Held], float | None]:
        """Returns the leases to renew, and the seconds until the next is due; None if none is held."""
        due, wait = [], None
        with self._lock:
            for lease, (began, at) in list(self._leases.items()):
                if not lease.held or now > began + LONGEST:
                    del self._leases[lease]
                    continue
                if now >= at:
                    at = now + min(PERIOD, lease.lease_seconds / 4)
                    self._leases[lease] = (began, at)
                    due.append(lease)
                wait = at - now if wait is None else min(wait, at - now)
            self._runs = wait is not None
            self._looks_at = now + (wait or 0)
            self._sooner.clear()
        return due, wait

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # as at the interpreter's end: leases then end in their time
            self._renew_all()

    def _renew_all(self) -> None:
        before = used_ticks()
        while True:
            due, wait = self._due(time.monotonic())
            if due:
                now = used_ticks()
                if abs(now - before) >= WORKED_TICKS:  # the time of a process that ends may be lost
                    before = now
                    for lease in due:
                        lease.renew()
                del due
            if wait is None:
                return
            self._sooner.wait(max(wait, 0.01))


_renewer = _Renewer()


def add(lease: Held) -> None:
    """Renews a lease as long as it is held and something works. Borrows it, by a weak reference."""
    _renewer.add(lease)


def _after_fork_in_child() -> None:
    global _renewer
    _renewer = _Renewer()


os.register_at_fork(after_in_child=_after_fork_in_child)
