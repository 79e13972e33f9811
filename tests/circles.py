#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""circles.py OBJECTS: fails if files of one folder call one another in a circle. `make check-circles` runs it.

Reads the symbols of all objects below OBJECTS with nm. A file calls another if it uses a symbol that the
other defines. `make check-layers` excludes circles between folders. ALLOWED are parsers by recursive descent
that are too large for one file; the internal header of each says so."""
import collections
import os
import subprocess
import sys

ALLOWED = {"keygen/mlir", "keygen/bytecode"}


def calls(folder):
    """Returns for each object the objects of its own folder that it calls."""
    objects = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
               if os.path.isfile(os.path.relpath(os.path.join(at, name), folder).removesuffix(".o") + ".c")]
    defines, wants = collections.defaultdict(set), collections.defaultdict(set)
    for line in subprocess.check_output(["nm", "-A", *objects], text=True).splitlines():
        path, symbol = line.split(":", 1)
        *_, kind, name = symbol.split()
        if kind == "U":
            wants[path].add(name)
        elif kind in "TDBRVW":
            defines[os.path.dirname(path), name].add(path)
    return {path: {other for name in wants[path] for other in defines[os.path.dirname(path), name]} for path in objects}


def reached(graph, start):
    """Returns all objects that `start` calls, directly or through others."""
    seen, todo = set(), [start]
    while todo:
        for other in graph[todo.pop()] - seen:
            seen.add(other)
            todo.append(other)
    return seen


graph = calls(sys.argv[1])
all_reached = {path: reached(graph, path) for path in graph}
circles = {tuple(sorted(other for other in graph if other in all_reached[path] and path in all_reached[other]))
           for path in graph if path in all_reached[path]}
bad = 0
for circle in sorted(circles):
    names = [os.path.relpath(path, sys.argv[1]).removesuffix(".o") + ".c" for path in circle]
    if os.path.dirname(names[0]) not in ALLOWED and not names[0].startswith("tests/"):
        print("a circle:", *names, file=sys.stderr)
        bad = 1
sys.exit(bad)
