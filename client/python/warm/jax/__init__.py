# SPDX-License-Identifier: Apache-2.0
"""warm.jax: functions that save a JAX program more than the cache of `warm run` does.

Unmodified programs need none of them: JAX finds the plugin by itself, and the daemon is behind its
compilation cache.

    step = warm.jax.jit(warm.jax.value_and_grad(loss))   # only the forward pass is traced
    y = warm.jax.chain(modules, x)                       # a scan over modules that are alike
    params = warm.jax.Stack.of(modules)                  # stacked once, for chain
    packed = warm.jax.Packed.of(params)                  # one array for each dtype

If this module is imported before jax, it imports jax while the cyclic garbage collector is off. The
collector would otherwise go through all objects of jax again and again: 150 000 of them, a tenth of the
import's time (2026-11-21). Then gc.freeze() takes all objects out of later collections, the program's
own too. So this happens only early in a program.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

from warm.jax._ahead import gc_paused

__all__ = ["Packed", "Stack", "chain", "grad", "jit", "value_and_grad"]

if TYPE_CHECKING:
    from warm.jax._chain import Packed, Stack, chain
    from warm.jax._jit import grad, jit, value_and_grad

_EARLY = 100_000  # objects: a program has fewer before its first large import

if "jax" not in sys.modules and len(gc.get_objects()) < _EARLY:
    with gc_paused():
        import jax  # noqa: F401
    gc.freeze()


def __getattr__(name: str) -> Any:
    if name in ("Packed", "Stack", "chain"):
        from warm.jax import _chain

        return getattr(_chain, name)
    if name in __all__:
        from warm.jax import _jit

        return getattr(_jit, name)
    raise AttributeError(f"module 'warm.jax' has no attribute {name!r}")
