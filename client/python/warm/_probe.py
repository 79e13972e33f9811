# SPDX-License-Identifier: Apache-2.0
"""A memory of TorchInductor's probe of vector instructions.

Before Inductor generates code for AVX2, AVX512 and so on, each process compiles a small library with such
instructions. The probe then tries to load the library in a new Python. Three such libraries load
libtorch_cpu. Each process that compiles for the CPU spends 0.8 s of CPU time on this (2026-11-24).

    VecISA._probe_load(library) ──▶ which files would the loader take?     LD_TRACE_LOADED_OBJECTS, 10 ms
                                ──▶ it was loaded with just these: True
                                ──▶ the real probe; only True is remembered

Torch itself looks at the processor's flags each time, before it asks for a probe, so this module does not
remember them. The probe runs none of the instructions. So a wrong True would end in an error when a
kernel's library is loaded, and not in a wrong number or an illegal instruction.

The answer depends on

- the bytes of the library;
- all files that the loader takes for it, and Python's own, by path, inode, size and times;
- the processor, the kernel, and the environment of the loader, of Python and of the libraries;
- those folders of PYTHONPATH that have a module of Python's standard library. The probe imports no other
  modules, so the program's folder does not count.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from types import ModuleType
from typing import Any, Callable

from warm import _client, _identity

_LOADS = b"loads"
_TRACE_SECONDS = 10.0
_LINE = re.compile(r"\s+(?:[^/\s]\S* => )?(/.*|linux-(?:vdso|gate)\S*) \(0x[0-9a-f]+\)")
_VARIABLES = ("LD_", "GLIBC_", "MALLOC_", "PYTHON", "LC_", "LANG", "OMP_", "GOMP_", "KMP_", "MKL_",
              "ATEN_", "C10_", "DNNL_", "ONEDNN_", "TORCH_", "PYTORCH_")  # fmt: skip

# PYTHONPATH counts by its folders. Python code of torch reads the others, and the probe does not import it.
_SKIPPED = ("PYTHONPATH", "TORCH_EXTENSIONS_DIR", "TORCH_HOME")


def _files(library: str, environment: dict[str, str]) -> list[str]:
    """Returns the files that the dynamic loader takes for Python and the library together. A variable makes
    the loader list them instead of running Python. Raises ValueError if the list has anything else."""
    if set(library) & set(": ;$\n"):
        raise ValueError("a path that LD_PRELOAD cannot name")
    preloads = [library, *filter(None, [environment.get("LD_PRELOAD")])]
    said = subprocess.run(
        [sys.executable],
        env={**environment, "LD_TRACE_LOADED_OBJECTS": "1", "LD_PRELOAD": ":".join(preloads)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=_TRACE_SECONDS,
        check=True,
    )
    lines = [_LINE.fullmatch(line) for line in os.fsdecode(said.stdout).splitlines()]
    found = [line.group(1) for line in lines if line]
    if said.stderr or len(found) != len(lines) or library not in found:
        raise ValueError("the loader does not find all, or is another one")
    return sorted({path for path in found if path.startswith("/") and path != library})


def _has_own_modules(folder: str) -> bool:
    """True if one of Python's own modules may come from `folder`. A path that is no folder, such as an
    archive, may have one."""
    if not os.path.isdir(folder):
        return os.path.exists(folder)
    names = {name.partition(".")[0] for name in os.listdir(folder)}
    return bool(names & (sys.stdlib_module_names | {"sitecustomize", "usercustomize"}))


def _own_modules(path: str) -> list[str]:
    """Returns those of the working folder and PYTHONPATH's folders that may have modules for the probe."""
    return [folder for folder in (os.getcwd(), *path.split(os.pathsep)) if _has_own_modules(folder or ".")]


def _processor() -> str:
    """Returns the first processor's description, without the lines that change from moment to moment."""
    with open("/proc/cpuinfo") as f:
        first = f.read().partition("\n\n")[0]
    return "\n".join(line for line in first.splitlines() if "MHz" not in line and "bogomips" not in line.lower())


def _name(isa: Any, library: str) -> str:
    """Returns the name of the answer. Raises OSError, ValueError or a subprocess's error if there is none."""
    import _ctypes
    import ctypes
    import site

    environment: dict[str, str] = isa._build_probe_env()
    paths = _files(library, environment)
    paths += [sys.executable, ctypes.__file__, getattr(_ctypes, "__file__", None) or ctypes.__file__]
    identity, is_settled = _identity.of_files(paths)
    if not is_settled:
        raise ValueError("a file changed a moment ago, and may still change")
    with open(library, "rb") as f:
        text = hashlib.sha256(f.read())
    folders = _own_modules(environment.get("PYTHONPATH", ""))
    kept = (v for v in environment.items() if v[0].startswith(_VARIABLES) and v[0] not in _SKIPPED)
    variables = sorted(kept) + [("PYTHONPATH", os.pathsep.join(folders))]
    user = site.getusersitepackages()  # depends on $HOME; Python runs code from there, if it exists
    variables.append(("", user if os.path.isdir(user) else ""))
    rest = (identity, variables, _processor(), tuple(os.uname())[2:], sys.version, sys.prefix, isa._avx_py_load)
    text.update(repr(rest).encode("utf-8", "surrogateescape"))
    return f"torch-probe:{text.hexdigest()}"


def remembered(real: Callable[[Any, str], bool], isa: Any, library: str) -> bool:
    """Returns the probe's answer for a library."""
    try:
        name = _name(isa, library)
        if _client.client().get(name) == _LOADS:
            return True
    except Exception:  # whatever it is, the real probe decides
        return real(isa, library)
    loads = real(isa, library)
    try:
        if loads is True and _name(isa, library) == name:
            _client.client().put(name, _LOADS, kind="other", label="a probe of TorchInductor")
    except Exception:
        pass
    return loads


def install(cpu_vec_isa: ModuleType) -> None:
    """Replaces the probe, if it has the parameters that we know."""
    import inspect

    isa: Any = cpu_vec_isa.VecISA
    real = isa._probe_load
    if list(inspect.signature(real).parameters) != ["self", "output_path"] or sys.platform != "linux":
        return

    def _probe_load(self: Any, output_path: str) -> bool:
        return remembered(real, self, output_path)

    isa._probe_load = _probe_load
