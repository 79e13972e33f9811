# SPDX-License-Identifier: Apache-2.0
"""TorchInductor's probe of vector instructions, remembered.

Before it generates code for AVX2, AVX512 and so on, each process of Inductor compiles a small library with
such instructions, and loads it in a new Python: can it be loaded, with the torch of this process? Three of
these load libtorch_cpu. This is 0.8 s of CPU of each process that compiles for the CPU.

    VecISA._probe_load(library) ──▶ which files would the loader take?     LD_TRACE_LOADED_OBJECTS, 10 ms
                                ──▶ it was loaded with just these: True
                                ──▶ the real probe; only True is remembered

Whether the processor has the instructions is not remembered: torch looks at its flags each time, and asks
for a probe only then. The probe runs none of them. So a wrong True would end in an error when the library
of a kernel is loaded, and not in a wrong number or an illegal instruction.

The answer hangs on: the bytes of the library; all files that the loader takes for it, and Python's, by path,
inode, size and times; the processor, the kernel, and the environment of loader, Python and the libraries.
Of the folders in which Python looks for modules those count that have one of Python's own modules: the probe
imports no others. So the program's folder does not count.
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

# PYTHONPATH counts by its folders; the others are read by Python code of torch, which the probe does not import
_SKIPPED = ("PYTHONPATH", "TORCH_EXTENSIONS_DIR", "TORCH_HOME")


def _files(library: str, environment: dict[str, str]) -> list[str]:
    """Returns the files that the loader takes for Python and the library together: it is told to say so
    instead of running the program. Raises ValueError if it says anything else."""
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
    """True if one of Python's own modules may come from there: also from what is no folder, an archive."""
    if not os.path.isdir(folder):
        return os.path.exists(folder)
    names = {name.partition(".")[0] for name in os.listdir(folder)}
    return bool(names & (sys.stdlib_module_names | {"sitecustomize", "usercustomize"}))


def _own_modules(path: str) -> list[str]:
    """Returns the folders of PYTHONPATH, and the working folder, that have modules for the probe."""
    return [folder for folder in (os.getcwd(), *path.split(os.pathsep)) if _has_own_modules(folder or ".")]


def _processor() -> str:
    """Returns the first processor's description, without what changes from moment to moment."""
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
    user = site.getusersitepackages()  # by $HOME; Python runs code of it, if it is there
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
    except Exception:  # whatever it is, the real probe knows
        return real(isa, library)
    loads = real(isa, library)
    try:
        if loads is True and _name(isa, library) == name:
            _client.client().put(name, _LOADS, kind="other", label="a probe of TorchInductor")
    except Exception:
        pass
    return loads


def install(cpu_vec_isa: ModuleType) -> None:
    """Takes the place of the probe, if it is the one that we know."""
    import inspect

    isa: Any = cpu_vec_isa.VecISA
    real = isa._probe_load
    if list(inspect.signature(real).parameters) != ["self", "output_path"] or sys.platform != "linux":
        return

    def _probe_load(self: Any, output_path: str) -> bool:
        return remembered(real, self, output_path)

    isa._probe_load = _probe_load
