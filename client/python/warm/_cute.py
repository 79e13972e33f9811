# SPDX-License-Identifier: Apache-2.0
"""CuTe DSL's compiler on the daemon, for FlashAttention 4, QuACK and programs with cutlass.cute.

CuTe DSL traces a kernel to an MLIR module, and its Compiler gives that to a pipeline of passes, which ends with
libNVVM and ptxas in the same library. We stand in for the pass manager:

    PassManager.parse(pipeline) ──▶ run(module)
         │ a pipeline, setting or option that is not in the tables below: the pass manager itself
         ▼
    a copy of the module without source positions: its bytes are the key
         │ hit:  the module that the pipeline made of these bytes
         │ miss: the pipeline runs on the copy; of all processes that ask at once, one runs it
         ▼
    its body takes the place of the module's

All that the passes read is in the key, or nothing is kept: the module, the pipeline as text, the variables of
_VARIABLES and the digest of the library. They open no file and ask no driver. Positions count if line tables or
assertions are on. If the copy's compile fails or says anything, the program's own module is compiled, and the
program gets that error. The frontend's tracing, which is Python, runs as ever.

Any thread, as MLIR: one at a time for each context.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
import time
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from warm import _client, _dumps, _identity

_PIPELINE = re.compile(r"builtin\.module\((?:lir-to-cute-dsl(?:\{(?:enable-pyir=true)?\})?, *)?cute-to-nvvm\{([^{}]*)\}\)$")
_OPTION = re.compile(r"([\w-]+)(?:=('[^']*'|[^\s']*))?(?:\s+|$)")
# What the passes know, without the options that name files, print, instrument or collect messages.
_OPTIONS = frozenset(
    "check-inline-asm cubin-format opt-level enable-pyir rdc enable-assertions preserve-line-info cubin-chip ptx-options "
    "enable-cuda-dialect cuda-dialect-external-module".split()
)
_PTXAS = re.compile(
    r"(-O[0-4]|--?(opt-level|maxrregcount|register-usage-level|allow-expensive-optimizations|fmad)=\w+|\s+)*$"
)
_POSITIONS = ("enable-assertions", "preserve-line-info")  # these compile source positions in
# The library asks for variables of CUDA's, LLVM's and its own. These of them lead to no output.
_VARIABLES = re.compile(
    r"(CUTE|CUTLASS|CUDA|NVPTX|PTX|PTXAS|OCG|LLVM|MLIR|IKET|CAN_FINALIZE|FINALIZER|NVJITLINK)_|\w*NVVM|AS_SECURE"
)
_HARMLESS = re.compile(
    r"CUDA_(VISIBLE_DEVICES|DEVICE_\w+|CACHE_\w+|MODULE_LOADING|LAUNCH_BLOCKING|MPS_\w+|VERSION)$|CUTE_DSL_CACHE_DIR$"
)


_reports: ContextVar[bool] = ContextVar("warm_cute_reports", default=False)  # remarks bypass the pipeline's text


def _why_not(pipeline: str) -> str:
    """Returns why the result of a pipeline is not kept, or ""."""
    known = _PIPELINE.match(pipeline)
    if not known:
        return "its pipeline is not CuTe DSL's own"
    at, text = 0, known[1].strip()
    while at < len(text):
        option = _OPTION.match(text, at)
        if not option or option[1] not in _OPTIONS:
            return f"its pipeline has the option {text[at:].split()[0]}"
        if option[1] == "ptx-options" and not _PTXAS.match((option[2] or "").strip("'")):
            return f"its pipeline has {option[0].strip()}"
        at = option.end()
    return ""


def _has_positions(pipeline: str) -> bool:
    """True unless each option that compiles positions in, of a pipeline that is kept, is absent or false."""
    return any(option not in ("=false", "=0") for name in _POSITIONS for option in re.findall(rf"{name}([^\s}}]*)", pipeline))


def _variables() -> list[str]:
    return [f"{name}={value}" for name, value in sorted(os.environ.items())
            if _VARIABLES.match(name) and not _HARMLESS.match(name)]  # fmt: skip


class _Library:
    """The file with the passes, as it was when this process loaded it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = _identity.of_files([path])
        self._digest = ""

    def digest(self) -> str:
        """Returns the file's SHA-256, which the daemon remembers by its identity. Raises OSError if it changed."""
        if not self._digest:
            name = f"cute-library:{self._seen[0]}"
            known = _client.client().get(name) if self._seen[1] else None
            if known is None:
                known = _sha256(self._path).encode()
                if self._seen[1]:
                    _client.client().put(name, known, kind="other", label=os.path.basename(self._path))
            if _identity.of_files([self._path])[0] != self._seen[0]:
                raise OSError("the library was replaced")
            self._digest = known.decode()
        return self._digest


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while part := f.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _bytes(operation: Any) -> bytes:
    out = io.BytesIO()
    operation.write_bytecode(out)
    return out.getvalue()


def _files(operation: Any) -> list[str]:
    """Returns size and time of each file that a module's text may name: ptxas before 13.4 writes them beside lines."""
    out = []
    for text in sorted(set(re.findall(rb'"([^"\n]+)"', operation.get_asm(enable_debug_info=True).encode()))):
        path = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda code: bytes.fromhex(code[1].decode()), text)
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            continue
        out.append(f"{os.fsdecode(path)} {found.st_size} {int(found.st_mtime)}")
    return out


def _label(module: Any) -> str:
    for op in module.regions[0].blocks[0].operations:
        if op.operation.name != "gpu.module" and "sym_name" in op.attributes:
            return str(op.attributes["sym_name"]).strip('"')[:200]
    return "module"


def _names(attributes: Any) -> list[str]:
    return [getattr(named, "name", named) for named in attributes]  # pairs in older versions, names in newer ones


def _take(module: Any, made: Any) -> None:
    """Gives `module` the body and the attributes of the module `made`."""
    body = module.regions[0].blocks[0]
    for op in list(body.operations):
        op.operation.erase()
    for op in list(made.regions[0].blocks[0].operations):
        body.append(op)
    for name in _names(module.attributes):
        del module.attributes[name]
    for name in _names(made.attributes):
        module.attributes[name] = made.attributes[name]


class _Passes:
    """Stands in for a PassManager. Whoever asks it for more than Compiler does gets the pass manager's own answer,
    and nothing is kept."""

    def __init__(self, owner: _Managers, pipeline: str, *args: Any, **kwargs: Any) -> None:
        self._owner, self._pipeline, self._verifies = owner, pipeline, None
        self._real = owner.real.PassManager.parse(pipeline, *args, **kwargs)
        self._is_plain = not args and not kwargs

    def __getattr__(self, name: str) -> Any:
        self._is_plain = False
        return getattr(self._real, name)

    def enable_verifier(self, enable: bool) -> None:
        self._verifies = enable
        self._real.enable_verifier(enable)

    def run(self, operation: Any) -> None:
        why = "the program uses its pass manager itself" if not self._is_plain else _why_not(self._pipeline)
        why = why or self._owner.why_not()
        if why and "cute-to-nvvm" in self._pipeline:  # small pipelines, for texts to read, are nothing to keep
            _client.client().note("uncacheable", _label(operation), why)
        made = None if why else self._try(operation)
        if made is None:
            self._real.run(operation)
        else:
            _take(operation, made)

    def _try(self, operation: Any) -> Any:
        try:
            return self._made(operation)
        except Exception:  # another version of MLIR's Python, or a library that was replaced: as without us
            return None

    def _made(self, module: Any) -> Any:
        """Returns a module with what the pipeline makes of this one; None: the pass manager itself must run."""
        copy, files = module.clone().operation, []
        if _has_positions(self._pipeline):
            files = _files(copy)
        else:
            self._owner.real.PassManager.parse("builtin.module(strip-debuginfo)").run(copy)
        parts = [self._owner.library.digest(), self._pipeline, str(self._verifies), *_variables(), *files]
        texts = [part.encode("utf-8", "surrogateescape") for part in parts]
        key = hashlib.sha256(b"\0".join([_bytes(copy), *texts])).hexdigest()
        with _client.client().lease(f"cute:1:{key}") as lease:
            if lease.value is not None:
                return self._owner.ir.Module.parse(lease.value, module.context).operation
            start = time.monotonic()
            if not self._compile(copy):
                return None
            cost = (time.monotonic() - start) * 1000
            lease.put(_bytes(copy), kind="executable", cost_ms=cost, label=_label(module), compiler=self._owner.version(),
                      hardware=self._hardware())  # fmt: skip
        return copy

    def _compile(self, copy: Any) -> bool:
        """Runs the passes on the copy. False if they fail, or say anything."""
        said: list[str] = []
        handler = copy.context.attach_diagnostic_handler(lambda d: said.append(d.message) or True)
        try:
            self._real.run(copy)
        except Exception:
            return False
        finally:
            handler.detach()
        return not said

    def _hardware(self) -> str:
        chips = re.findall(r"cubin-chip='?(\w+)", self._pipeline)
        return chips[-1] if chips else ""


class _Manager:
    """Stands in for the class PassManager."""

    def __init__(self, owner: _Managers) -> None:
        self._owner = owner

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        return _Passes(self._owner, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._owner.real.PassManager(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner.real.PassManager, name)


class _Managers:
    """Stands in for the module cutlass._mlir.passmanager, which is given to a Compiler."""

    def __init__(self, real: Any, ir: Any, library: _Library) -> None:
        self.real, self.ir, self.library = real, ir, library
        self.PassManager = _Manager(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def why_not(self) -> str:
        if _reports.get():
            return "its compiler collects or writes remarks"
        if getattr(self.ir, "_GlobalDebug", None) and self.ir._GlobalDebug.flag:
            return "MLIR's debug output is on"
        dump = _dumps.cute()
        return f"{dump} is a dump" if dump else ""

    def version(self) -> str:
        return f"CuTe DSL {getattr(sys.modules.get('cutlass'), '__version__', '')}".strip()


def install(module: ModuleType) -> None:
    """Gives each Compiler of cutlass.base_dsl.compiler, as soon as it is made, our pass manager."""
    library = _Library(sys.modules["cutlass._mlir._mlir_libs._cutlass_ir"].__file__ or "")
    real = module.Compiler.__init__

    def __init__(self: Any, passmanager: Any, *args: Any, **kwargs: Any) -> None:
        real(self, _Managers(passmanager, module.ir, library), *args, **kwargs)

    compile = module.Compiler.compile

    def reported(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _reports.set(any(kwargs.get(name) for name in ("remark_output", "collect_compiler_diagnostics")))
        try:
            return compile(self, *args, **kwargs)
        finally:
            _reports.reset(before)

    module.Compiler.__init__ = __init__  # type: ignore[attr-defined]
    module.Compiler.compile = reported  # type: ignore[attr-defined]
