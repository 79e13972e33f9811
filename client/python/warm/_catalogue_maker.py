# SPDX-License-Identifier: Apache-2.0
"""Makes the catalogue of a build of torch, in a process of its own: torch alone, without plugins, sitecustomize and
the program's folders and variables. It registers all that torch registers late: it imports the modules that a
compile may import, compiles a small model without the compiler, and calls what the passes call once.

    start(name)    in the program: starts the process, and returns at once
    main()         in the process: takes the lease of the name; makes the value and puts it

A process is started at most once a program. It ends by itself after _SECONDS at most.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

_SECONDS = 300
_KEPT = ("PATH", "HOME", "USER", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "XDG_", "WARM_SOCKET", "WARM_SESSION", "WARM_TIMEOUT",
         "WARM_EXE", "WARM_LIBRARY", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "SYSTEMROOT")  # fmt: skip
_NEEDED = ("torch", "sympy", "mpmath", "numpy", "typing_extensions", "filelock", "networkx", "jinja2", "fsspec",
           "triton", "setuptools", "warm")  # fmt: skip
_OPTIONAL = ("tqdm", "opt_einsum", "redis", "optree", "tabulate", "z3")
_IMPORTED = ("torch._inductor", "torch._functorch", "torch._higher_order_ops", "torch._subclasses", "torch._library",
             "torch._decomp", "torch._refs", "torch._prims", "torch._prims_common", "torch.fx.passes",
             "torch.fx.experimental", "torch.nested._internal", "torch.export", "torch._export", "torch.sparse",
             "torch.ao.quantization.fx", "torch.distributed.tensor", "torch.distributed.fsdp",
             "torch.distributed._functional_collectives", "torch.nn.attention", "torch.autograd", "torch.backends",
             "torch.masked", "torch.distributed.pipelining", "torch._dynamo.backends", "torch.utils.cpp_extension",
             "torch.fx.annotate", "torch.fx._graph_pickler", "torch.cuda", "torch.utils._helion")  # fmt: skip
_SKIPPED = ("test", "benchmark", "debug", "fb", "__main__", "compile_worker", "_ansi", "repro")

_started: list[Any] = []


def _file(name: str) -> str | None:
    module = sys.modules.get(name)
    if module is not None or name not in _OPTIONAL:
        return getattr(module, "__file__", None)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec else None


def optional() -> list[str]:
    """Returns the packages that torch's modules take where they are: without them they define their own."""
    return [name for name in _OPTIONAL if _file(name)]


def _folders() -> list[str]:
    """Returns the folders that have the packages that torch needs or takes."""
    found: list[str] = []
    for name in _NEEDED + _OPTIONAL:
        file = _file(name)
        if file:
            folder = os.path.dirname(os.path.abspath(file))
            folder = os.path.dirname(folder) if os.path.basename(file).startswith("__init__.") else folder
            if folder not in found:
                found.append(folder)
    return found


def flags() -> list[str]:
    """Returns the options of Python that change its functions: they leave asserts out, or load modules from files (notebooks)."""
    frozen = sys._xoptions.get("frozen_modules")
    return ["-O"] * sys.flags.optimize + ([f"-Xfrozen_modules={frozen}"] if isinstance(frozen, str) else [])


def start(name: str) -> None:
    from warm import _client

    if _started or not _client.client().may_store:
        return
    environment = {k: v for k, v in os.environ.items() if k.startswith(_KEPT)}
    # Without vectors: else torch compiles six programs to see which the machine has. No entry depends on them.
    environment.update(TORCH_DEVICE_BACKEND_AUTOLOAD="0", OMP_NUM_THREADS="1", PYTORCH_NVML_BASED_CUDA_CHECK="1",
                       TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="0",
                       TORCH_DYNAMO_RUN_GC_AFTER_COMPILE="0")  # fmt: skip
    code = f"import sys; sys.path += {_folders()!r}; from warm import _catalogue_maker as m; m.main({name!r})"
    process = subprocess.Popen(
        [sys.executable, *flags(), "-I", "-S", "-c", code],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
    )  # fmt: skip
    _started.append(process)


def is_at_work() -> bool:
    return bool(_started) and _started[0].poll() is None


# ---- in the process ----


def main(name: str) -> None:
    import signal

    signal.alarm(_SECONDS)
    os.nice(5)
    from warm import _client

    lease = _client.client().lease(name, wait=_SECONDS)
    if lease.value is None:
        value = make()
        lease.put(value, kind="other", label="the catalogue of a build of PyTorch", compiler="PyTorch")


def make() -> bytes:
    """Returns the value of the catalogue."""
    import gc
    import tempfile

    gc.disable()  # it would look at all of torch many times, and this process ends soon
    sys.meta_path.insert(0, _Watcher())
    with tempfile.TemporaryDirectory(prefix="warm-catalogue-") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.environ["TMPDIR"] = folder
        tempfile.tempdir = None  # names with this folder are those that $TMPDIR decides
        import torch

        from warm import _catalogue, _dispatcher

        _Watcher.watch()
        before = _first_graph(torch)
        _import_all()
        _register_late(torch)
        return _catalogue.pack(before, _reading(), _dispatcher.dumps(_catalogue.root()))


def _reading() -> Any:
    from warm import _catalogue, _functions, _tables

    return _tables.read(_catalogue.root()), _functions.read(_catalogue.root())


class _Watcher:
    """Watches the dispatcher from when a program under `warm run` does: torch imports its plugins, and then this."""

    is_done = False

    @classmethod
    def watch(cls) -> None:
        from warm import _dispatcher

        if not cls.is_done:
            cls.is_done = True
            _dispatcher.watch(sys.modules["torch.library"])

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torch._native":
            self.watch()


class _Enough(Exception):
    """Ends a compile when the code is generated, before a compiler runs."""


def _first_graph(torch: Any) -> Any:
    """Compiles a small model. Returns the entries of all tables and spaces when AOTAutograd asks for its first graph."""
    import torch._functorch._aot_autograd.autograd_cache as autograd_cache
    import torch._inductor.graph as graph

    found: list[Any] = []
    real = autograd_cache.check_cacheable

    def check_cacheable(gm: Any) -> None:
        if not found:
            found.append(_reading())
        real(gm)

    generate = graph.GraphLowering.codegen

    def codegen(self: Any, *arguments: Any, **options: Any) -> Any:
        generate(self, *arguments, **options)
        raise _Enough

    autograd_cache.check_cacheable = check_cacheable
    graph.GraphLowering.codegen = codegen
    for device in _devices(torch):
        for grad in (True, False):
            x = torch.ones(4, 4, device=device, requires_grad=grad)
            try:
                torch._dynamo.reset()
                torch.compile(lambda x: (x.sin() @ x).sum())(x)
            except Exception:
                pass
    autograd_cache.check_cacheable, graph.GraphLowering.codegen = real, generate
    return found[0]


def _devices(torch: Any) -> list[str]:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return ["cpu"] + ([accelerator.type] if accelerator else [])


def _import_all() -> None:
    import importlib
    import pkgutil

    for name in _IMPORTED:
        try:
            package = importlib.import_module(name)
        except Exception:
            continue
        for found in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}.", lambda _: None):
            if not any(part.startswith(_SKIPPED) for part in found.name.split(".")[2:]):
                try:
                    importlib.import_module(found.name)
                except BaseException:  # it needs another package or another machine
                    pass


def _register_late(torch: Any) -> None:
    """Calls what torch calls once, when it needs it. An export takes the rule of an operator away."""
    from torch._inductor.fx_passes import freezing_patterns, joint_graph, post_grad, pre_grad

    def call(function: Any, *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception:
            pass

    for device in [None, *map(torch.device, _devices(torch))]:
        for module in (joint_graph, post_grad, pre_grad, freezing_patterns):
            call(module.lazy_init, device)
    call(lambda: torch.export.export(torch.nn.ReLU(), (torch.ones(2),)).run_decompositions())
    for name in ("_print", "_linalg_check_errors"):  # which torch notes when it traces them
        call(lambda: torch.fx.node.has_side_effect(getattr(torch.ops.aten, name).default))
    for name in ("call_torchbind", "hop_print", "invoke_leaf_function"):
        call(lambda: torch.fx.node.has_side_effect(getattr(torch._higher_order_ops.effects, name)))
    call(lambda: __import__("torch._inductor.comm_lowering", fromlist=["x"]).register_comm_lowerings())
    call(torch.vmap(torch.sin), torch.ones(1))  # flex attention calls it, too
    call(lambda: __import__("torch._inductor.codegen.common", fromlist=["x"]).init_backend_registration())
