# SPDX-License-Identifier: Apache-2.0
"""The dumps of all frameworks, in one list.

A dump is a setting that makes a framework write files, or print texts, about its compile. A hit would write
none, and a program under a dump is often edited by hand. So while a dump of a framework is on, its adapter
neither gets nor puts, and `warm why` names the setting. Other layers (g++, ptxas, nvcc) go on as ever: they
write the files that the framework asked them for.

    framework  where it reads the setting          looked up in
    triton     triton.knobs, the environment        _TRITON_KNOBS, _TRITON_VARIABLES
    jax        XLA_FLAGS, jit's options, jax.config,  _JAX_FLAG, _JAX_SETTINGS, _JAX_VARIABLES
               the environment
    torch      its configs, variables, TORCH_LOGS     _TORCH_FIELDS, _TORCH_VARIABLES, _torch_logs
    cute, warp  the environment                      in their functions

Any thread; no state.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

# A knob that is not in this version of Triton is off.
_TRITON_KNOBS = (
    "compilation.dump_ir", "compilation.dump_ir_extract_di_local_variables", "nvidia.dump_nvptx",
    "nvidia.dump_ptxas_log", "amd.dump_amdgcn", "amd.dump_mir",
)  # fmt: skip
# libtriton reads these itself: all of its variables that begin so, and say that they dump, print or time.
_TRITON_VARIABLES = re.compile(
    r"(TRITON|MLIR|LLVM|NVPTX|AMDGCN|PROTON)_(\w*_)?(DUMP|REPRODUCER|DEBUG|TIMING|DIAGNOSTICS|REMARK)(_\w*)?$"
)
_TRITON_NOT_DUMPS = ("TRITON_DUMP_DIR", "TRITON_DEBUG", "TRITON_FRONT_END_DEBUGGING")  # a folder; they count in the key

# All flags of XLA that dump, or profile. The PJRT shim has the same list for programs without Python
# (client/preload/pjrt/compile_options.c).
_JAX_FLAG = re.compile(r"(xla_\w*dump\w*|xla_hlo_profile\w*)$")
# These only say how: a dump needs one of the others, too.
_JAX_HOW = frozenset(
    "xla_dump_hlo_module_re xla_dump_hlo_pass_re xla_dump_hlo_pipeline_re xla_dump_include_timestamp xla_dump_max_hlo_modules "
    "xla_dump_module_metadata xla_dump_fusion_visualization xla_dump_compress_protos xla_dump_disable_metadata "
    "xla_dump_latency_hiding_schedule xla_dump_enable_mlir_pretty_form xla_dump_large_constants xla_enable_dumping "
    "xla_dump_full_hlo_config xla_dump_emitter_re".split()
)
_JAX_SETTINGS = ("jax_dump_ir_to",)
_JAX_VARIABLES = ("TF_CPP_VMODULE", "TF_CPP_MAX_VLOG_LEVEL")  # with these XLA logs each compile

_TORCH_FIELDS = (
    ("torch._inductor.config", "trace.enabled"),
    ("torch._inductor.config", "trace.graph_diagram"),
    ("torch._inductor.config", "trace.draw_orig_fx_graph"),
    ("torch._dynamo.config", "repro_after"),
    ("torch._functorch.config", "debug_partitioner"),
)
_TORCH_VARIABLES = ("TORCH_COMPILE_DEBUG", "TORCH_TRACE", "TORCH_DTRACE")
# Artifacts of torch's logs that dynamo prints before it asks a cache, or that are about caches. A hit lacks all others.
_TORCH_PRINTED = frozenset(
    "guards verbose_guards bytecode graph graph_code graph_code_verbose graph_sizes graph_breaks graph_region_expansion "
    "trace_source trace_call trace_bytecode trace_shape_events side_effects sym_node recompiles recompiles_verbose "
    "ddp_graphs hierarchical_compile annotation caching not_implemented onnx_diagnostics".split()
)


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() not in ("", "0", "false", "off", "no", "n")


def _field(of: Any, path: str) -> Any:
    for name in path.split("."):
        of = getattr(of, name, None)
    return of


def triton() -> str:
    """Returns the name of a dump of Triton that is on, or ""."""
    knobs = sys.modules.get("triton.knobs")
    for path in _TRITON_KNOBS:
        if _field(knobs, path):
            return f"triton.knobs.{path}"
    for name in os.environ:
        if _TRITON_VARIABLES.match(name) and name not in _TRITON_NOT_DUMPS and _is_set(name):
            return name
    return ""


def jax(overrides: Any = ()) -> str:
    """Returns the name of a dump of JAX or XLA that is on, or "". `overrides` are the compiler_options of one program,
    pairs of name and value."""
    flags = [flag.lstrip("-").partition("=") for flag in os.environ.get("XLA_FLAGS", "").split()]
    for name, value in [*((n, v if has else "1") for n, has, v in flags), *((n, str(v)) for n, v in overrides)]:
        if _JAX_FLAG.match(name) and name not in _JAX_HOW and value.lower() not in ("", "0", "false"):
            return f"--{name}={value}"
    for name in _JAX_SETTINGS:
        flag = getattr(sys.modules.get("jax._src.config"), name, None)
        if getattr(flag, "value", None) or os.environ.get(name.upper()):
            return name
    return next(filter(_is_set, _JAX_VARIABLES), "")


def _torch_logs() -> str:
    """Returns an artifact of torch's logs that is switched on, by TORCH_LOGS or torch._logging.set_logs, or ""."""
    internal = sys.modules.get("torch._logging._internal")
    state = getattr(internal, "log_state", None)
    on = getattr(state, "artifact_names", ())
    return next((f"TORCH_LOGS={name}" for name in sorted(on) if name not in _TORCH_PRINTED), "")


def torch() -> str:
    """Returns the name of a dump of torch that is on, or ""."""
    for name in _TORCH_VARIABLES:
        if _is_set(name):
            return name
    for module, path in _TORCH_FIELDS:
        if _field(sys.modules.get(module), path):
            return f"{module}.{path}"
    return _torch_logs()


def cute() -> str:
    """Returns the name of a dump of CuTe DSL's passes that is on, or "". Those of the frontend are written as ever."""
    return next((name for name in ("CUTE_DSL_KEEP", "DUMP_KNOBS_TO_FILE", "FINALIZER_CUBIE") if os.environ.get(name)), "")


def warp() -> str:
    """Returns the name of a variable that lets Warp's compile print or write files, or "". An empty one does, too."""
    return next((name for name in ("WARP_DEBUG", "WARP_DUMP_LTOIR", "FINALIZER_CUBIE") if name in os.environ), "")
