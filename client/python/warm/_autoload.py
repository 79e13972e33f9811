# SPDX-License-Identifier: Apache-2.0
"""The code that `import torch` and `import triton` run. Each framework calls the entry points of its
own group ("torch.backends", "triton.backends"), and so torch() or triton() of this module.

This costs such an import one look at the environment. If `warm run` pointed the framework at our daemon,
this module patches the modules below as soon as Python has loaded them. Python loads them when the
framework first compiles.

    torch._inductor.remote_cache    makes warm.torch.Backend the backend of remote caches
    torch._inductor.codecache       shows each graph to warm.torch before torch asks for it, tells `warm why`
                                    which graphs torch does not cache, and remembers torch_key()
    torch._functorch.….autograd_cache  the same for graphs of AOTAutograd
    torch.library                   notes the kernels that a program gives torch's operators: warm._dispatcher
    torch._inductor.cpu_vec_isa     remembers its probe: warm._probe
    torch._dynamo.config            switches its graph deduplication on, for `warm run --regional`
    triton.runtime.cache            remembers triton_key(): warm.triton.remembered_key
    triton.language, and modules    remembers what Triton's names refer to: warm._triton_reads.remember
      of Triton behind it
    triton.compiler.compiler        notes what a kernel reads that is not in Triton's key: warm._triton_reads
    triton.backends.nvidia.compiler  remembers the stages behind the front end: warm._stages
    cutlass.base_dsl.compiler       gives CuTe DSL's compiler our pass manager: warm._cute
    warp._src.build                 asks for what NVIDIA Warp compiles: warm._warp
    redis.connection                checks who listens at our socket

With TORCH_DEVICE_BACKEND_AUTOLOAD=0 torch reaches the same daemon through the `redis` package.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, Callable


def _torch_is_ours() -> bool:
    """True if torch uses our socket rather than a Redis of the user."""
    url, path = os.environ.get("TORCHINDUCTOR_REDIS_URL", ""), os.environ.get("WARM_SOCKET", "")
    return bool(path) and url.partition("?")[0] == f"unix://{path}"


def _triton_is_ours() -> bool:
    """True if Triton uses our cache manager rather than the user's."""
    return os.environ.get("TRITON_CACHE_MANAGER") == "warm.triton:CacheManager"


def _patch_torch(module: ModuleType) -> None:
    from warm.torch import install

    install(module)


def _patch_codecache(module: ModuleType) -> None:
    from warm.torch import name_kernels, note_vectors, remember_key, tell_bypasses, tell_guards, watch

    watch(module)
    name_kernels(module)
    note_vectors(module)
    remember_key(module)
    tell_bypasses(module)
    tell_guards(module)


def _patch_autograd(module: ModuleType) -> None:
    from warm.torch import check_config, check_operators, refuse_keys, tell_bypasses, watch_autograd

    check_operators(module)
    check_config(module)
    refuse_keys(module)
    tell_bypasses(module)
    watch_autograd(module)


def _patch_library(module: ModuleType) -> None:
    from warm import _dispatcher, _in_place

    _dispatcher.watch(module)
    _in_place.watch()


def _patch_probe(module: ModuleType) -> None:
    from warm._probe import install

    install(module)


def _patch_dynamo(module: ModuleType) -> None:
    if hasattr(module, "use_graph_deduplication"):
        module.use_graph_deduplication = True  # type: ignore[attr-defined]


def _patch_triton(module: ModuleType) -> None:
    real = module.triton_key
    known: list[str] = []

    def triton_key() -> str:
        if not known:
            from warm.triton import remembered_key  # only now: it needs triton.runtime.cache

            known.append(remembered_key(real))
        return known[0]

    module.triton_key = triton_key  # type: ignore[attr-defined]


def _patch_stages(module: ModuleType) -> None:
    from warm._stages import install

    install(module)


def _patch_language(module: ModuleType) -> None:
    from warm._triton_reads import remember

    remember(module)


def _patch_sources(module: ModuleType) -> None:
    from warm._triton_reads import install

    install(module)


def _patch_cute(module: ModuleType) -> None:
    from warm._cute import install

    install(module)


def _patch_warp(module: ModuleType) -> None:
    from warm._warp import install

    install(module)


def _patch_redis(module: ModuleType) -> None:
    from warm._client import check_peer

    connection = module.UnixDomainSocketConnection
    real = connection._connect

    def _connect(self: Any) -> Any:
        sock = real(self)
        if self.path == os.environ.get("WARM_SOCKET"):
            try:
                check_peer(sock, self.path)
            except OSError:
                sock.close()
                raise
        return sock

    connection._connect = _connect


_AUTOGRAD = "torch._functorch._aot_autograd.autograd_cache"
_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    _AUTOGRAD: _patch_autograd,
    "torch._inductor.remote_cache": _patch_torch,
    "torch._inductor.codecache": _patch_codecache,
    "torch._inductor.cpu_vec_isa": _patch_probe,
    "torch._dynamo.config": _patch_dynamo,
    "torch.library": _patch_library,
    "triton.runtime.cache": _patch_triton,
    "triton.language": _patch_language,
    "triton.compiler.compiler": _patch_sources,
    "triton.backends.nvidia.compiler": _patch_stages,
    "cutlass.base_dsl.compiler": _patch_cute,
    "warp._src.build": _patch_warp,
    "redis.connection": _patch_redis,
}


def _apply(name: str, module: ModuleType) -> None:
    _awaited.discard(name)
    _done.add(name)
    try:
        _PATCHES.get(name, _patch_language)(module)
    except Exception:  # another version of the framework, which goes on without us
        pass


class _Finder:
    """A finder of the awaited modules, and of those that Triton loads late: it finds them as Python does, and patches each
    after its load."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _awaited and not ("triton.language" in _done and name.startswith("triton.")):
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


_awaited: set[str] = set()  # modules to patch when they are loaded
_done: set[str] = set()


def _patch(*names: str) -> None:
    """Patches modules, each once: loaded ones now, and others as soon as they are loaded."""
    for name in set(names) - _done - _awaited:
        if name in sys.modules:
            _apply(name, sys.modules[name])
        else:
            _awaited.add(name)
    if _awaited and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def torch() -> None:
    """Patches torch's modules, and Triton's. This is our entry point of the group "torch.backends"."""
    if _torch_is_ours():
        _patch("torch._inductor.remote_cache", "torch._inductor.codecache", "torch._inductor.cpu_vec_isa", _AUTOGRAD)
        _patch("torch.library")
        if os.environ.get("WARM_REGIONAL", "") not in ("", "0"):
            _patch("torch._dynamo.config")
    triton()  # not every version of Triton calls its entry points


def triton() -> None:
    """Patches Triton's modules, and torch's client of Redis. Triton and torch() call this."""
    if _torch_is_ours():
        _patch("redis.connection")
    if _triton_is_ours():
        _patch("triton.runtime.cache", "triton.language", "triton.compiler.compiler", "triton.backends.nvidia.compiler")


def library(name: str) -> None:
    """Patches the modules around a library that Python loads. The library that `warm run` loads calls this when Python
    looks up the first function in it (client/preload/python.c): these packages have no entry points."""
    if os.environ.get("WARM_SOCKET"):
        _patch(_LIBRARIES[name])


_LIBRARIES = {  # by that function
    "PyInit__cutlass_ir": "cutlass.base_dsl.compiler",
    "wp_cuda_compile_program": "warp._src.build",
    "wp_compile_cpp": "warp._src.build",
}
