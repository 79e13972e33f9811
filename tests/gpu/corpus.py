# SPDX-License-Identifier: Apache-2.0
"""Writes PTX for jitcmp.py into a folder: of the demo's kernels with several options, and of the graph compiler's
kernels for the graphs of this repository. The daemon's entries of the latter hold the PTX beside the cubin.

jitcmp.py also gets what Triton wrote in an earlier step, and the folder that PTX_CORPUS names.
"""

import concurrent.futures
import glob
import json
import os
import re
import time

from machine import ROOT

VARIANTS = ([], ["--use_fast_math"], ["--maxrregcount=32"], ["-lineinfo"])
GRAPHS = ("layers", "train", "portable", "reactant_for")
EVERY = 12  # of the graphs in jax_graphs.txt one of so many
PTX = re.compile(rb"(?://[^\n\0]*\n)*\s*\.version [^\0]*")


def demo_jobs(folder, arch):
    """Yields the arguments of `warm compile` for the demo's kernels."""
    for path in sorted(glob.glob(f"{ROOT}/kernels/*.cu")):
        name = os.path.basename(path)[:-3]
        for i, options in enumerate(VARIANTS):
            yield [path, "--arch", arch.replace("sm_", "compute_"), "-o", f"{folder}/{name}.{i}.ptx", *options]


def graph_jobs(folder, arch):
    """Writes the graphs into `folder`, and yields the arguments of `warm compile` for each."""
    paths = sorted(glob.glob(f"{ROOT}/kernels/examples/*.mlir"))
    paths += [f"{ROOT}/tests/data/{name}.mlir" for name in GRAPHS]
    with open(f"{ROOT}/tests/data/jax_graphs.txt") as f:
        modules = re.findall(r"^graph (\w+)\n(.*?^\})$", f.read(), re.MULTILINE | re.DOTALL)
    for name, text in modules[::EVERY]:
        paths.append(f"{folder}/{name}.mlir")
        with open(paths[-1], "w") as f:
            f.write(text + "\n")
    for i, path in enumerate(paths):
        yield [path, "--vjp", "--arch", arch, "-o", f"{folder}/{i}.bundle"]


def take_ptx(daemon, folder):
    """Writes the PTX of the daemon's entries of graphs into the folder."""
    rows = json.loads(daemon.warm("ls", "--kind", "cubin", "--json") or "[]")
    for row in rows:
        path = f"{folder}/entry"
        daemon.warm("get", row["key"], "-o", path)
        with open(path, "rb") as f:
            text = PTX.search(f.read())
        if text and row["label"] == "graph.cu":
            with open(f"{folder}/graph.{row['key'][:12]}.ptx", "wb") as f:
                f.write(text[0])


def write(daemon, folder, arch, deadline):
    """Returns the number of files that were written. No compile goes on beyond the deadline."""
    os.makedirs(folder)

    def compile_(job):
        left = deadline - time.monotonic()
        if left > 1:
            daemon.warm("compile", *job, timeout=left)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(compile_, [*demo_jobs(folder, arch), *graph_jobs(folder, arch)]))
    take_ptx(daemon, folder)
    return len(glob.glob(f"{folder}/*.ptx"))
