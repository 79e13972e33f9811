# SPDX-License-Identifier: Apache-2.0
"""New line numbers for Triton's intermediate texts.

    canonical(ttir)            the text with ranks in place of line numbers, and the line numbers of each file
    Lines(old, new).ttgir(…)   the text that Triton would make from the TTIR with the new line numbers
                    llir(…)
                    ptx(…)

A comment above a kernel moves all of its lines, and changes nothing else in these texts. So the new text is
the old one in which the line of the same rank replaces each line. The rank of a line is its place among the
lines of its file that a text names. A text that this module does not understand raises ValueError.
"""

from __future__ import annotations

import re
from typing import Callable

OfFiles = dict[str, list[int]]

_PLACE = re.compile(r'"((?:[^"\\\n]|\\.)*)":(\d+):(\d+)( to :)?')
_NODE = re.compile(r"^(!\d+) = (?:distinct )?!(DI\w+)\((.*)\)$", re.M)
_DI_FILE = re.compile(r'filename: "([^"\\]*)", directory: "([^"\\]*)"')
_FIELD = re.compile(r"\b(scope|file|line|scopeLine): (!?\d+)")
_LOC = re.compile(r"^\t\.loc\t(\d+) (\d+) (\d+)(, function_name \S+ inlined_at (\d+) (\d+) (\d+))? *// (.*)$", re.M)
_PTX_FILE = re.compile(r'^\t\.file\t(\d+) "([^"\\]*)"$', re.M)
_CALL_FILE = "// DW_AT_call_file"
_CALL_LINE = "// DW_AT_call_line"
_COMMENT_AT = 40  # the column at which LLVM begins a comment


def canonical(text: str, with_files: bool = True) -> tuple[str, OfFiles]:
    """Returns an MLIR text with ranks in place of lines, and the lines of each file. Without `with_files` an
    index replaces each file's name. A line above 255 gets a mark: it takes two bytes in debug information."""
    lines: dict[str, set[int]] = {}
    for place in _PLACE.finditer(text):
        if place[4]:
            raise ValueError("a range of lines")
        lines.setdefault(place[1], set()).add(int(place[2]))
    ranked = {file: sorted(of_file) for file, of_file in lines.items()}
    ranks = {file: {line: i for i, line in enumerate(of_file)} for file, of_file in ranked.items()}
    names = {file: file if with_files else str(i) for i, file in enumerate(ranked)}

    def rank(place: re.Match[str]) -> str:
        line = int(place[2])
        return f'"{names[place[1]]}":#{ranks[place[1]][line]}{"" if line < 256 else "w"}:{place[3]}'

    return _PLACE.sub(rank, text), ranked


class Lines:
    """A map from the lines of one text to those of another text with an equal canonical form."""

    def __init__(self, old: OfFiles, new: OfFiles) -> None:
        if [len(lines) for lines in old.values()] != [len(lines) for lines in new.values()]:
            raise ValueError("texts of another form")
        self._files = dict(zip(old, new))
        self._lines = {file: dict(zip(old[file], new[to])) for file, to in self._files.items()}
        self._new = new
        self.are_equal = old == new and list(old) == list(new)

    def _line(self, file: str, line: str) -> str:
        if line == "0":  # no line
            return line
        to = self._lines.get(file, {}).get(int(line))
        if to is None:
            raise ValueError("a line that is not in the source")
        return str(to)

    def ttgir(self, text: str) -> str:
        """Returns a text in TritonGPU's dialect with the new lines."""

        def place(m: re.Match[str]) -> str:
            if m[4]:
                raise ValueError("a range of lines")
            return f'"{self._files.get(m[1], m[1])}":{self._line(m[1], m[2])}:{m[3]}'

        return _PLACE.sub(place, text)

    def llir(self, text: str) -> str:
        """Returns a text of LLVM IR with the new lines."""
        nodes = {m[1]: (m[2], m[3], dict(_FIELD.findall(m[3]))) for m in _NODE.finditer(text)}
        files = {}
        for node, (kind, body, _) in nodes.items():
            name = _DI_FILE.search(body) if kind == "DIFile" else None
            if name:
                files[node] = f"{name[2]}/{name[1]}"

        def node_line(m: re.Match[str]) -> str:
            _, _, fields = nodes[m[1]]
            if m[2] == "DILocation":
                fields = {**nodes.get(fields.get("scope", ""), ("", "", {}))[2], **{"line": fields.get("line", "0")}}
            elif m[2] not in ("DISubprogram", "DILexicalBlock"):
                if "line" in fields or "scopeLine" in fields:
                    raise ValueError("a line of another kind")
                return m[0]
            file = files.get(fields.get("file", ""))
            if file is None:
                raise ValueError("a place without a file")
            return re.sub(
                r"\b(line|scopeLine): (\d+)", lambda f: f"{f[1]}: {self._line(file, f[2])}", m[0]
            )

        return _NODE.sub(node_line, text)

    def ptx(self, text: str) -> str:
        """Returns PTX with the new lines."""
        files = {m[1]: m[2] for m in _PTX_FILE.finditer(text)}
        told = {index: file.rpartition("/")[2] for index, file in files.items()}

        def line(file: str, at: str) -> str:
            if file not in files:
                raise ValueError("a file without a name")
            return self._line(files[file], at)

        def loc(m: re.Match[str]) -> str:
            new = line(m[1], m[2])
            comment = f"{told[m[1]]}:{m[2]}:{m[3]}"
            code = f"\t.loc\t{m[1]} {new} {m[3]}"
            inlined = ""
            if m[4]:
                caller = line(m[5], m[6])
                inlined = m[4][: m[4].rindex(f"{m[5]} {m[6]} {m[7]}")] + f"{m[5]} {caller} {m[7]}"
            if m[8].partition(" ")[0] != comment:
                raise ValueError("another comment")
            rest = re.sub(
                r"([^\s:\[]+):(\d+):(\d+)",
                lambda c: f"{c[1]}:{self._told_line(told, files, c[1], c[2])}:{c[3]}",
                m[8],
            )
            return _pad(code + inlined, f"// {rest}")

        rewritten, n = _LOC.subn(loc, text)
        if n != len(re.findall(r"^\s*\.loc\s", text, re.M)):
            raise ValueError("a place of another form")
        return self._calls(rewritten, line)

    def _told_line(self, told: dict[str, str], files: dict[str, str], name: str, at: str) -> str:
        """Returns the new line for a comment. The comment names its file without the folder."""
        lines = {self._line(files[file], at) for file in files if told[file] == name and self._has(files[file], at)}
        if len(lines) != 1:
            raise ValueError("a comment for several files")
        return lines.pop()

    def _has(self, file: str, line: str) -> bool:
        return line == "0" or int(line) in self._lines.get(file, {})

    @staticmethod
    def _byte(text: str) -> int:
        m = re.match(r"\.b8 (\d+)\b", text)
        if not m:
            raise ValueError("another form of a byte")
        return int(m[1])

    def _calls(self, text: str, line: Callable[[str, str], str]) -> str:
        """Returns the text with the new lines of calls in .debug_info. A line has one byte or two.
        .debug_abbrev fixes this number of bytes, so it must not change."""
        rows = text.split("\n")
        file, is_inside = "", False
        for i, row in enumerate(rows):
            if row.startswith("\t.section"):
                is_inside = row.startswith("\t.section\t.debug_info")
            elif is_inside and row.endswith(_CALL_FILE):
                file = str(self._byte(row))
            elif is_inside and row.endswith(_CALL_LINE):
                self._call(rows, i, file, line)
        return "\n".join(rows)

    def _call(self, rows: list[str], i: int, file: str, line: Callable[[str, str], str]) -> None:
        wide = rows[i + 1].startswith(".b8 ") and "//" not in rows[i + 1]
        old = self._byte(rows[i]) + (self._byte(rows[i + 1]) << 8 if wide else 0)
        new = int(line(file, str(old)))
        if (new > 255) != wide or (old > 255) != wide or new > 65535:
            raise ValueError("a line of another width")
        rows[i] = _pad(f".b8 {new & 255}", _CALL_LINE)
        if wide:
            rows[i + 1] = f".b8 {new >> 8}"


def _pad(code: str, comment: str) -> str:
    width = len(code.lstrip("\t").expandtabs(8))  # LLVM does not count the first tab
    return code + " " * max(1, _COMMENT_AT - width) + comment
