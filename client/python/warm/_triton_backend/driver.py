# SPDX-License-Identifier: Apache-2.0
"""The driver of this backend: Triton asks it whether it is active."""

from __future__ import annotations

from triton.backends.driver import DriverBase


class NoDriver(DriverBase):  # type: ignore[misc]
    @classmethod
    def is_active(cls) -> bool:
        return False


NoDriver.__abstractmethods__ = frozenset()  # as in compiler.py
