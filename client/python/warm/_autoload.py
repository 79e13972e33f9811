# SPDX-License-Identifier: Apache-2.0
"""What runs inside `import torch`: torch calls every entry point of the group "torch.backends".

It costs an import of torch a look at two variables. Where `warm run` made our daemon torch's remote
cache, what follows is done to three modules as soon as they are loaded, which is when torch first
compiles:

    torch._inductor.remote_cache    the backend of remote caches becomes warm.torch.Backend
    torch._inductor.codecache       warm.torch looks at each graph before it is asked for
    triton.runtime.cache            triton_key() is remembered: warm.triton.remembered_key

With TORCH_DEVICE_BACKEND_AUTOLOAD=0 torch reaches the same daemon through the `redis` package.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any


def is_wanted() -> bool:
    """Whether torch was pointed at our socket, rather than at a Redis of the user's."""
    url, path = os.environ.get("TORCHINDUCTOR_REDIS_URL", ""), os.environ.get("WARM_SOCKET", "")
    return bool(path) and url.partition("?")[0] == f"unix://{path}"


def _patch_torch(module: ModuleType) -> None:
    from warm.torch import install

    install(module)


def _patch_codecache(module: ModuleType) -> None:
    from warm.torch import watch

    watch(module)


def _patch_triton(module: ModuleType) -> None:
    def triton_key() -> str:  # warm.triton needs this module, which is being loaded
        from warm.triton import remembered_key

        module.triton_key = remembered_key(real)  # type: ignore[attr-defined]
        return str(module.triton_key())

    real = module.triton_key
    module.triton_key = triton_key  # type: ignore[attr-defined]


_PATCHES = {
    "torch._inductor.remote_cache": _patch_torch,
    "torch._inductor.codecache": _patch_codecache,
    "triton.runtime.cache": _patch_triton,
}


def _apply(name: str, module: ModuleType) -> None:
    try:
        _PATCHES[name](module)
    except Exception:  # whatever it looks like by then: it goes on without us
        pass


class _Finder:
    """Finds these modules the way they are always found; once loaded, they are patched."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _PATCHES:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                _apply(name, module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def torch() -> None:
    """The entry point."""
    if not is_wanted():
        return
    for name in _PATCHES:
        if name in sys.modules:
            _apply(name, sys.modules[name])
    sys.meta_path.insert(0, _Finder)
