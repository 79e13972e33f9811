# SPDX-License-Identifier: Apache-2.0
"""The backward pass of Enzyme-JAX as an artifact.

enzyme_call.run_pass_pipeline(names, module text, pipeline text) → (name, module text) differentiates
and optimizes. The result depends on the arguments and the library alone. It is kept, as kind
"backward", under a digest of

    names (as a set), the module's text without locations and without its own name, the pipeline,
    the library by content.

The order of statements counts here, unlike in the keys of executables. A gradient adds up its terms in
the reverse of that order, and another order of additions has other last bits.

`lower-jit` writes addresses of the process into the module. So the result of the passes before it is
kept, and the rest runs each time. A result with such addresses is never kept.

The library aborts the process if it cannot make a gradient. The lease ends with the process, so its
waiters go on at once.

Any thread.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import logging
import re
import sys
import time
import zlib
from types import ModuleType
from typing import Any, Callable, List, Optional, Sequence, Tuple

from warm import _client, _dumps, _library
from warm.jax import _keys

log = logging.getLogger("warm.jax")

KEYS = "enzyme:2"  # begins each name: raise the number with each change of name_of
MAGIC = b"warm-enzyme/1 "  # then a line of JSON, then the module's text by zlib
PRIMITIVES, EXTENSION = "enzyme_ad.jax.primitives", "enzyme_call"

# Signs, in a module or a pipeline, of an address or an index of one process, or of a constant that the
# text leaves out.
_DENIED = re.compile(
    r"enzymexla_compile_|cuResultHandlerPtr=|python\w*_callback|CustomSPMDPartitioning"
    r"|InspectSharding|jaxzyme\.|__elided__|elided_large_const|dense<\.\.\.>"
)
_LOCATION_LINE = re.compile(r"^#loc\d* = loc\(.*\)\n?", re.MULTILINE)
# `loc(#loc7)`, `loc("x")`, `loc("x"(#loc7))`. Inside of strings MLIR writes a quote as \22.
_LOCATION = re.compile(r' loc\((?:#loc\d*|unknown|"(?:[^"\\]|\\.)*"(?:\(#loc\d*\))?)\)')
# Names of results count in no key if they are in the head of a function (KEYS.md 2.1).
_FUNCTION_HEAD = re.compile(r"^ *func\.func .*?(?= attributes \{|$)", re.MULTILINE)
_RESULT_INFO = re.compile(r'(jax\.result_info = )"(?:[^"\\]|\\.)*"')
_MODULE_NAME = re.compile(r"^(module) @[\w$.-]+", re.MULTILINE)

Pipeline = Callable[[Sequence[str], str, str], Tuple[str, str]]


def without_locations(text: str) -> str:
    return _LOCATION.sub("", _LOCATION_LINE.sub("", text))


def split_pipeline(pipeline: str) -> Tuple[str, str]:
    """Returns the passes before the first top-level `lower-jit`, and the others ("": none)."""
    depth = start = 0
    quoted = False
    for i, c in enumerate(pipeline + ","):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "{(":
            depth += 1
        elif c in "})":
            depth -= 1
        elif c == "," and depth == 0:
            if re.match(r"\s*lower-jit\b", pipeline[start:i]):
                return pipeline[:start].rstrip(" ,"), pipeline[start:]
            start = i + 1
    return pipeline, ""


def may_keep(*texts: str) -> bool:
    return not any(_DENIED.search(text) for text in texts)


def name_of(names: Sequence[str], source: str, pipeline: str, library: str) -> str:
    fields: List[bytes] = [KEYS.encode(), library.encode(), pipeline.encode()]
    fields += sorted({n.encode() for n in names})
    text = _FUNCTION_HEAD.sub(
        lambda head: _RESULT_INFO.sub(r'\1""', head[0]), without_locations(source)
    )
    fields.append(_MODULE_NAME.sub(r"\1", text, count=1).encode())
    return KEYS + ":" + _keys.digest(fields)


def _encode(name: str, result: Tuple[str, str]) -> bytes:
    text = without_locations(str(result[1])).encode()
    about = {"name": name, "function": result[0], "bytes": len(text)}
    return MAGIC + json.dumps(about).encode() + b"\n" + zlib.compress(text, 1)


def _decode(name: str, value: bytes) -> Optional[Tuple[str, str]]:
    """Decodes a value; None if it is not the whole entry of that name. zlib checks its content."""
    end = value.find(b"\n")
    if not value.startswith(MAGIC) or end < 0:
        return None
    try:
        about = json.loads(value[len(MAGIC) : end])
        text = zlib.decompress(value[end + 1 :])
        right = about["name"] == name and about["bytes"] == len(text)
        return (str(about["function"]), text.decode()) if right else None
    except (ValueError, KeyError, TypeError, zlib.error):
        return None


class Memo:
    """A run_pass_pipeline that remembers its results."""

    def __init__(self, real: Pipeline, library: str) -> None:
        self.real = real
        self.library = library

    def __call__(self, names: Sequence[str], source: str, pipeline: str) -> Tuple[str, str]:
        if not may_keep(source, pipeline) or _dumps.jax():
            return self.real(names, source, pipeline)
        first, rest = split_pipeline(pipeline)
        if not first:
            return self.real(names, source, pipeline)
        found = self._memoized(names, source, first)
        # The function's name is that of the first run: the second run has nothing left to rename.
        return (found[0], self.real(names, found[1], rest)[1]) if rest else found

    def _memoized(self, names: Sequence[str], source: str, pipeline: str) -> Tuple[str, str]:
        name = name_of(names, source, pipeline, self.library)
        with _client.client().lease(name) as lease:
            found = _decode(name, lease.value) if lease.value is not None else None
            if found is not None:
                return found
            start = time.monotonic()
            result = self.real(names, source, pipeline)
            self._keep(name, lease, result, pipeline, time.monotonic() - start)
            return result

    def _keep(
        self, name: str, lease: Any, result: Tuple[str, str], pipeline: str, took: float
    ) -> None:
        try:
            if may_keep(str(result[1])):
                lease.put(
                    _encode(name, result),
                    kind="backward" if "everse" in pipeline else "graph",
                    cost_ms=took * 1000,
                    compiler="Enzyme-JAX",
                    label=str(result[0])[:256],
                )
        except Exception as e:
            log.debug("%s: not kept: %r", name, e)


class _Kept:
    """A compiled function that only has the list of arguments that it keeps. enzyme_ad reads nothing else."""

    def __init__(self, kept: Any) -> None:
        self._executable = self
        self._kept_var_idx = kept


class _Lowered:
    """A lowered function whose compile() does not compile."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def compile(self, *a: Any, **k: Any) -> Any:
        try:
            return _Kept(self._real._lowering.compile_args["kept_var_idx"])
        except Exception:
            return self._real.compile(*a, **k)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def patch(primitives: ModuleType) -> None:
    """Hooks a loaded enzyme_ad.jax.primitives, if it is as expected."""
    extension = getattr(primitives, EXTENSION, None)
    real = getattr(extension, "run_pass_pipeline", None)
    if extension is None or real is None or isinstance(real, Memo):
        return
    try:
        library = _library.file_identity(extension.__file__)
        extension.run_pass_pipeline = Memo(real, library)
    except Exception as e:
        log.info("Enzyme-JAX: off: %r", e)
        return
    lower = getattr(primitives, "lower", None)
    if callable(lower):
        # enzyme_ad compiles each function that it differentiates once more, only to learn which of its
        # arguments are used. The lowering has that list already.
        primitives.lower = lambda *a, **k: _Lowered(lower(*a, **k))  # type: ignore[attr-defined]


class _Loader(importlib.abc.Loader):
    def __init__(self, real: Any) -> None:
        self.real = real

    def create_module(self, spec: Any) -> Any:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.real.exec_module(module)
        patch(module)


class _Finder(importlib.abc.MetaPathFinder):
    """A finder that notices an import of enzyme_ad after JAX's first compile."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != PRIMITIVES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    loaded = sys.modules.get(PRIMITIVES)
    if loaded is not None:
        patch(loaded)
    elif importlib.util.find_spec("enzyme_ad") is not None:
        sys.meta_path.insert(0, _Finder())
