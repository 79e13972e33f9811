# SPDX-License-Identifier: Apache-2.0
"""warm.jax: what a JAX program may ask for beyond what `warm run` gives it unasked.

Unmodified programs need nothing from here: JAX finds the plugin by itself and its compilation cache
is the daemon's. This is for those who want more.

    step = warm.jax.jit(warm.jax.value_and_grad(loss))   # tracing and lowering skipped as well
    y = warm.jax.chain(modules, x)                       # a scan over modules that are alike
    params = warm.jax.Stack.of(modules)                  # stacked once, for chain
    packed = warm.jax.Packed.of(params)                  # one array for each dtype

Imported before jax, it imports jax with the garbage collector paused, which saves a fifth of that.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from warm.jax._ahead import gc_paused

__all__ = ["Packed", "Stack", "chain", "grad", "jit", "value_and_grad"]

if TYPE_CHECKING:
    from warm.jax._chain import Packed, Stack, chain
    from warm.jax._jit import grad, jit, value_and_grad

if "jax" not in sys.modules:
    with gc_paused():
        import jax  # noqa: F401


def __getattr__(name: str) -> Any:
    if name in ("Packed", "Stack", "chain"):
        from warm.jax import _chain

        return getattr(_chain, name)
    if name in __all__:
        from warm.jax import _jit

        return getattr(_jit, name)
    raise AttributeError(f"module 'warm.jax' has no attribute {name!r}")
