#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""style.py: figures of style that must not get worse. `make check-style` runs it.

  prototype   functions that a header declares, without a comment above them or on their line
  opening     .c files with less than OPENING characters of comment before the first #include
  verb        comments above a function that do not begin with a verb: Returns, Adds, True if
  name        files whose name repeats the name of their folder in front
  long test   tests of more than LINES lines

Prints the first three for each folder, and the number of assert, WARM_EXPECT and _Static_assert in 1000
lines. If there are more faults than LIMITS allows, or fewer assertions than ASSERTS, prints them on stderr
and ends with 1. A change that improves a figure lowers its limit."""
import collections
import os
import re
import subprocess
import sys

OPENING, LINES = 110, 800
# Assertions in 1000 lines that are not blank: of each top folder, and of all together.
ASSERTS = {"client": 6.0, "daemon": 8.5, "kernels": 11.0, "keygen": 5.9, "store": 5.7, "tier": 6.7, "": 7.2}
LIMITS = {"prototype": 0, "opening": 0, "verb": 0, "name": 0, "long test": 0}  # the first three: % of all


def prototypes(text):
    """Yields the line of each function that a header declares, and whether it has a comment."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.match(r"(?!typedef|static|_Static_assert)[a-z].*\(", line):
            end = next((j for j in range(i, len(lines)) if re.search("[;{]", lines[j])), i)
            if "{" not in lines[end]:
                yield i + 1, "*/" in lines[i - 1] or "/*" in lines[end]


def opening(text):
    """Returns the characters of comment before the first #include, without the licence."""
    head = re.split(r"^#\s*include", text, maxsplit=1, flags=re.M)[0]
    comments = re.findall(r"/\*(.*?)\*/", head, re.S)
    return sum(len(" ".join(re.sub(r"^ \*", "", c, flags=re.M).split()))
               for c in comments if "SPDX" not in c)


def function_comments(text):
    """Yields the line of each comment that stands above a function, and whether it begins with a verb."""
    above = r"^/\* ((?:[^*]|\*(?!/))*)\*/\n(?=(?!_Static|extern|typedef|enum|union|struct \w+ \{)[A-Za-z_][^=\n]*\()"
    for comment in re.finditer(above, text, re.M):
        if not comment[1].startswith(("-", "SPDX")) and not re.match(r"[A-Z_]+\(", text[comment.end():]):
            yield text.count("\n", 0, comment.start()) + 1, re.match(r"(True|False|[A-Z][a-z]+s)\b", comment[1])


def look_at(path, text, faults, count):
    """Adds the faults of a file to `faults`, and the numbers of checked functions and files to `count`."""
    folder, name = os.path.split(path)
    if path.startswith("tests/"):
        if len(text.splitlines()) > LINES:
            faults["long test"].append(f"{path}: {len(text.splitlines())} lines, more than {LINES}")
        return
    if name.startswith(os.path.basename(folder) + "_") and "internal" not in name:
        faults["name"].append(f"{path}: the name of the folder stands in front of it already")
    count["lines", folder] += sum(bool(line.strip()) for line in text.split("\n"))
    count["asserts", folder] += len(re.findall(r"\b(?:assert|expect|[A-Z]+_EXPECT|_Static_assert)\(", text))
    for line, has_verb in function_comments(text):
        count["verb", folder] += 1
        if not has_verb:
            faults["verb"].append(f"{path}:{line}: the comment does not begin with a verb")
    if path.endswith(".c"):
        count["opening", folder] += 1
        if opening(text) < OPENING:
            faults["opening"].append(f"{path}: opens with less than {OPENING} characters")
        return
    for line, is_documented in prototypes(text):
        count["prototype", folder] += 1
        if not is_documented:
            faults["prototype"].append(f"{path}:{line}: a function without a comment")


def assertions(is_counted):
    """Returns the assertions in 1000 lines of the folders for which is_counted is true."""
    lines, asserts = (sum(n for key, n in count.items() if key[0] == what and is_counted(key[1]))
                      for what in ("lines", "asserts"))
    return 1000 * asserts / lines


faults, count, too_many = {what: [] for what in LIMITS}, collections.Counter(), False
for path in subprocess.check_output(["git", "ls-files", "*.c", "*.h"], text=True).split():
    with open(path, encoding="utf-8") as f:
        look_at(path, f.read(), faults, count)

print(f"{'good, of all':26} {'prototype':>20} {'opening':>18} {'verb':>20} {'asserts':>8}")
for folder in [*sorted({folder for _, folder in count}), ""]:
    cells = []
    for what in "prototype", "opening", "verb":
        of = sum(n for key, n in count.items() if key[0] == what and folder in ("", key[1]))
        bad = sum(folder in ("", os.path.dirname(fault.split(":")[0])) for fault in faults[what])
        cells.append(f"{of - bad} of {of}{100 - 100 * bad // of:5} %" if of else "")
    density = assertions(lambda of: folder in ("", of))
    print(f"{folder or 'together':26} {cells[0]:>20} {cells[1]:>18} {cells[2]:>20} {density:8.1f}")
for top, least in ASSERTS.items():
    density = assertions(lambda of: top in ("", of.split("/")[0]))
    if density < least:
        too_many = True
        print(f"asserts, {top or 'together'}: {density:.1f} in 1000 lines, at least {least}", file=sys.stderr)

for what, limit in LIMITS.items():
    of = sum(n for key, n in count.items() if key[0] == what)
    if len(faults[what]) > (limit * of / 100 if of else limit):
        too_many = True
        print(*faults[what], sep="\n", file=sys.stderr)
        print(f"{what}: {len(faults[what])}, limit {limit}{' %' * bool(of)}", file=sys.stderr)
sys.exit(too_many)
