# SPDX-License-Identifier: Apache-2.0
"""What runs inside `import torch`: torch calls every entry point of the group "torch.backends".

It costs an import of torch a look at two variables. Where `warm run` made our daemon torch's remote
cache, that cache's backend becomes warm.torch.Backend as soon as torch loads its remote caches,
which is when it first compiles. Otherwise, and with TORCH_DEVICE_BACKEND_AUTOLOAD=0, nothing changes:
torch then reaches the same daemon through the `redis` package.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

TARGET = "torch._inductor.remote_cache"


def is_wanted() -> bool:
    """Whether torch was pointed at our socket, rather than at a Redis of the user's."""
    url, path = os.environ.get("TORCHINDUCTOR_REDIS_URL", ""), os.environ.get("WARM_SOCKET", "")
    return bool(path) and url.partition("?")[0] == f"unix://{path}"


class _Finder:
    """Finds one module the way it is always found, and hands it to `install` once it is loaded."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name != TARGET:
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(cls)  # type: ignore[arg-type]
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                _install(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _install(module: ModuleType) -> None:
    try:
        from warm.torch import install

        install(module)
    except Exception:  # whatever torch looks like by then: it goes on without us
        pass


def torch() -> None:
    """The entry point."""
    if not is_wanted():
        return
    if TARGET in sys.modules:
        _install(sys.modules[TARGET])
    else:
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
