# SPDX-License-Identifier: Apache-2.0
"""The compiler of this backend: Triton asks it whether it supports a target."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import BaseBackend


class NoCompiler(BaseBackend):  # type: ignore[misc]
    @staticmethod
    def supports_target(target: Any) -> bool:
        return False


# Triton accepts concrete classes only. It calls the other methods only if it has chosen the backend.
NoCompiler.__abstractmethods__ = frozenset()
