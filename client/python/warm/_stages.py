# SPDX-License-Identifier: Apache-2.0
"""A memory of Triton's stages behind its front end. After the edit of a comment they need not run again.

Triton's own key covers the kernel's source and its first line. So an edit above a kernel, or a comment in
it, changes the key. But of the TTIR that the front end makes, only line numbers change.

    front end ──▶ TTIR ──▶ its form, with ranks in place of lines      _lines.py
                            │ known: the group of files that was made from such a TTIR
                            │        ──▶ its ttgir, llir and ptx, with the lines of this TTIR
                            │ not known: Triton's own stages; then the name of the group is remembered
                            ▼
                          ptxas, as ever

The form of the stored group's own TTIR must equal the new form byte for byte; otherwise Triton's own stages
run. The key also covers everything else that the stages depend on: Triton, ptxas, options, target, settings
and environment. Nothing is remembered if a setting dumps, overrides or instruments. Nor is a kernel whose
code has a source position as data, as a device_assert has its file and line.
"""

from __future__ import annotations

import hashlib
import json
from types import ModuleType
from typing import Any, Callable

from warm import _client, _triton_reads
from warm._lines import Lines, canonical

_STAGES = ["ttir", "ttgir", "llir", "ptx", "cubin"]
_TEXTS = ("ttgir", "llir", "ptx")


def _surroundings(backend: Any, options: Any, language: Any) -> list[str]:
    """Returns everything that the stages depend on, except the TTIR. Raises Unknown."""
    from triton.runtime.cache import triton_key

    parts = [triton_key(), backend.hash(), repr(backend.target), options.hash(), language]
    return [repr(part) for part in parts] + _triton_reads.settings()


class _Kernel:
    """One kernel on its way through the stages."""

    def __init__(self, backend: Any, options: Any, language: Any, reads: str) -> None:
        from triton import knobs

        self._reads = reads
        self._around = _surroundings(backend, options, language)
        self._has_lines = not knobs.compilation.disable_line_info
        self._name = ""
        self._form = ""
        self._lines: dict[str, list[int]] = {}
        self._before: dict[str, Any] = {}  # the metadata before the stages
        self._texts: dict[str, str] = {}   # of the stages, if they are known
        self._delta: list[tuple[str, Any]] = []

    def begin(self, ttir: str, metadata: dict[str, Any]) -> None:
        """Looks up the texts of the stages behind a TTIR."""
        if "assert" in ttir:
            return
        self._form, self._lines = canonical(ttir, with_files=self._has_lines)
        text = "\0".join([*self._around, self._form])
        self._name = f"triton-stages:2:{hashlib.sha256(text.encode()).hexdigest()}"
        self._before = dict(metadata)
        value = _client.client().get(self._name)
        if value is not None:
            self._load(json.loads(value))

    def _load(self, known: dict[str, Any]) -> None:
        from warm.triton import unpack

        value = _client.client().get(known["group"])
        if value is None:
            return
        files = {name.rpartition(".")[2]: data for name, data in unpack(value).items()}
        form, lines = canonical(files["ttir"].decode(), with_files=self._has_lines)
        if form != self._form:
            return
        ttgir, llir, ptx = (files[stage].decode() for stage in _TEXTS)
        to = Lines(lines, self._lines)
        if not self._has_lines and ("DILocation" in llir or ".loc" in ptx):
            return
        if not to.are_equal:
            ttgir = to.ttgir(ttgir)
            if self._has_lines:
                llir, ptx = to.llir(llir), to.ptx(ptx)
        self._texts = {"ttgir": ttgir, "llir": llir, "ptx": ptx}
        self._delta = [(key, value) for key, value in known["metadata"]]

    def known(self, stage: str, metadata: dict[str, Any]) -> str | None:
        """Returns a stage's text, if it is known."""
        if self._texts and stage == "ttgir":
            metadata.update(self._delta)
        return self._texts.get(stage)

    def check(self, llir: Any) -> None:
        """Forgets the kernel if its code, apart from the debug information, names a source file."""
        code = [line for line in str(llir).splitlines() if not line.startswith("!")]
        if any(file in line for line in code for file in self._lines):
            self._name = ""

    def end(self, metadata: dict[str, Any]) -> None:
        """Stores the name of the group that has the texts. Triton will put the group itself."""
        from triton.runtime.cache import _base32

        from warm.triton import name_of

        if not self._name:
            return
        changed = [[k, v] for k, v in metadata.items() if k not in self._before or self._before[k] != v]
        group = name_of(_base32(metadata["hash"]), self._reads, f"{metadata['name'][:150]}.json")
        value = json.dumps({"group": group, "metadata": changed})
        if json.loads(value)["metadata"] == changed and set(self._before) <= set(metadata):
            _client.client().put(self._name, value.encode(), kind="other", label=f"{metadata['name'][:180]}, its form")


def _remember(stages: dict[str, Callable[..., Any]], kernel: _Kernel) -> None:
    real = dict(stages)

    def ttir(src: Any, metadata: dict[str, Any]) -> Any:
        module = real["ttir"](src, metadata)
        try:
            kernel.begin(str(module), metadata)
        except Exception:  # whatever it is, Triton goes on by itself
            pass
        return module

    def wrap(stage: str) -> Callable[..., Any]:
        def run(src: Any, metadata: dict[str, Any]) -> Any:
            text = kernel.known(stage, metadata)
            if text is not None:
                return text
            made = real[stage](src, metadata)
            try:
                if stage == "llir":
                    kernel.check(made)
                if stage == "ptx":
                    kernel.end(metadata)
            except Exception:
                pass
            return made

        return run

    stages["ttir"] = ttir
    for stage in _TEXTS:
        stages[stage] = wrap(stage)


def install(compiler: ModuleType) -> None:
    """Replaces NVIDIA's stages, if they have the parameters that we know."""
    import inspect

    backend: Any = compiler.CUDABackend
    real = backend.add_stages
    if list(inspect.signature(real).parameters) != ["self", "stages", "options", "language"]:
        return

    def add_stages(self: Any, stages: dict[str, Any], options: Any, language: Any) -> Any:
        result = real(self, stages, options, language)
        try:
            reads = _triton_reads.current()
            if list(stages) == _STAGES and reads is not None:
                _remember(stages, _Kernel(self, options, language, reads))
        except Exception:
            pass
        return result

    backend.add_stages = add_stages
