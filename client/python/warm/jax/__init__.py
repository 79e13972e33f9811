# SPDX-License-Identifier: Apache-2.0
"""warm.jax: functions for JAX programs beyond the cache that `warm run` gives every program.

Unmodified programs need nothing from here: JAX finds the plugin by itself, and the daemon is behind its
compilation cache. These functions save more:

    step = warm.jax.jit(warm.jax.value_and_grad(loss))   # only the forward pass is traced
    y = warm.jax.chain(modules, x)                       # a scan over modules that are alike
    params = warm.jax.Stack.of(modules)                  # stacked once, for chain
    packed = warm.jax.Packed.of(params)                  # one array for each dtype

Imported before jax, it imports jax itself while the cyclic garbage collector rests. The collector would
go through the 150 000 objects of jax again and again: a tenth of the import's time and of the program's
first second. All older objects are frozen too (gc.freeze), so this happens early in a program, or not
at all.
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
