# SPDX-License-Identifier: Apache-2.0
"""Runs when JAX starts in a program that has this package on its path."""

from __future__ import annotations

from warm.jax import _cache, _enzyme


def install() -> None:
    if _cache.install():
        _enzyme.install()
