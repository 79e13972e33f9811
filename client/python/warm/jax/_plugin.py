# SPDX-License-Identifier: Apache-2.0
"""The start of the plugin: jax_plugins.warm calls install() before JAX's first compile."""

from __future__ import annotations

import os

from warm.jax import _cache, _enzyme


def _hide_frames() -> None:
    """Takes this package out of tracebacks and locations, as JAX does with its own files."""
    from jax._src import source_info_util, traceback_util

    here = os.path.dirname(os.path.abspath(__file__)) + os.sep
    for util in (source_info_util, traceback_util):
        exclude = getattr(util, "register_exclusion", None)
        if exclude is not None:
            exclude(here)


def install() -> None:
    if _cache.install():
        _hide_frames()
        _enzyme.install()
