# SPDX-License-Identifier: Apache-2.0
"""How long PyTorch and Triton compile at the start of a program, without the cache and with it.

    bench_torch.sh BUILD [--runs N] [--ranks N] [--shared] [ROW…]

Every run is a fresh process; what it measures begins after its imports. The four subjects take turns,
N times, and a cell is the median of their wall times, with the CPU seconds of the process and of the
compilers it started in brackets: on a machine with other load those are the ones to compare.

    cold        fresh folders, no cache
    own warm    the folders of the run before: what the framework keeps by itself
    warm cold   `warm run`, fresh folders, an empty store
    warm warm   `warm run`, fresh folders, the store of the run before
    floor       dynamo's tracing and guards alone (backend "eager"): no cache of artifacts saves them

Ranks are that many processes started at once, each with folders of its own, as on hosts or in
containers (--shared: one folder for all, as on one host); once. Their compiles are the graphs that
Inductor compiled and, after the plus, the files that g++ made; for Triton the kernels.
"""

import argparse
import glob
import json
import os
import statistics
import sys
import time

import kit

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(HERE, os.pardir, "clients")
LAYERS = os.path.join(CLIENTS, "layers.py")
KERNELS = os.path.join(CLIENTS, "six_kernels.py")
TORCH_ROWS = {
    "64 layers, whole, training step": ["--layers", "64"],
    "64 layers, by region, training step": ["--layers", "64", "--regional"],
    "transformer, forward": ["--model", "transformer", "--layers", "2", "--forward"],
    "transformer, training step": ["--model", "transformer", "--layers", "2"],
}
# of which ranks are measured where no row is named: all of them take twice the time
RANK_ROWS = ("64 layers, whole, training step", "64 layers, by region, training step",
             "six Triton kernels, sm_90")
TRITON_ROWS = {"six Triton kernels, sm_80": ["80"], "six Triton kernels, sm_90": ["90"]}


class Run:
    """What one process said of itself."""

    def __init__(self, seen):
        torch = "first_s" in seen and "losses" in seen
        self.wall = seen["first_s"] if torch else seen["compile_s"]
        self.cpu = seen["cpu_s"] + seen.get("children_s", 0.0)
        self.import_s = seen["import_s"]
        self.compiles = seen["fx_misses"] if torch else seen["misses"]


class Bench:
    def __init__(self, options):
        self.options = options

    def command(self, row):
        if row in TORCH_ROWS:
            return [self.options.torch, LAYERS, *TORCH_ROWS[row]]
        return [self.options.triton, KERNELS, *TRITON_ROWS[row]]

    def spawn(self, daemon, row, folder, *more, warm=False, **settings):
        os.makedirs(folder, exist_ok=True)
        return daemon.spawn([*self.command(row), *more], warm=warm, TMPDIR=folder,
                            TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"),
                            TRITON_CACHE_DIR=os.path.join(folder, "triton"), **settings)

    def run(self, *arguments, **settings):
        return finish(self.spawn(*arguments, **settings))

    def one_by_one(self, row):
        seen = {name: [] for name in ("cold", "own warm", "warm cold", "warm warm", "floor")}
        for _ in range(self.options.runs):
            with kit.Daemon() as daemon, kit.Folder() as at:
                def measure(name, folder, *more, **settings):
                    progress(f"{row}: {name}")
                    seen[name].append(self.run(daemon, row, os.path.join(at, folder), *more, **settings))

                measure("cold", "a")
                measure("own warm", "a")
                measure("warm cold", "b", warm=True)
                measure("warm warm", "c", warm=True)
                if row in TORCH_ROWS:
                    measure("floor", "d", "--backend", "eager")
        return seen

    def ranks(self, row, warm):
        """Wall time of all, CPU seconds of all, and the number of compiles."""
        progress(f"{row}: {self.options.ranks} ranks {'with' if warm else 'without'} warm")
        n = self.options.ranks
        with kit.Daemon() as daemon, kit.Folder() as at:
            began = time.perf_counter()
            running = [self.spawn(daemon, row, os.path.join(at, "0" if self.options.shared else str(i)),
                                  warm=warm, RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE=str(n),
                                  TORCHELASTIC_RUN_ID="bench")
                       for i in range(n)]
            seen = [finish(process) for process in running]
            wall = time.perf_counter() - began
            compiles = str(sum(one.compiles for one in seen))
            if row in TORCH_ROWS:
                made = json.loads(daemon.warm("stats", "--json"))["kinds"]["object"]["entries"] if warm \
                    else len(files_of_compilers(at))
                compiles += f" + {made}"
            return wall, sum(one.cpu for one in seen), compiles


def files_of_compilers(at):
    return [path for end in ("so", "gch") for path in glob.glob(f"{at}/**/*.{end}", recursive=True)]


def finish(process):
    try:
        out, error = process.communicate(timeout=4 * kit.RUN_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode}: {error[-4000:]}")
    return Run(json.loads(out.splitlines()[-1]))


def progress(what):
    print(f"bench: {what}", file=sys.stderr, flush=True)


def median(runs, of):
    return statistics.median(getattr(run, of) for run in runs) if runs else None


def cell(runs):
    return f"{median(runs, 'wall'):.2f} ({median(runs, 'cpu'):.2f})" if runs else "—"


def print_table(columns, rows):
    for line in (columns, ["---", *["--:"] * (len(columns) - 1)], *rows):
        print("| " + " | ".join(line) + " |")
    print(flush=True)


def print_single(results):
    names = ("cold", "own warm", "warm cold", "warm warm")
    print_table(["seconds of wall (CPU)", *names, "warm / own", "warm / cold"],
                [[row, *(cell(seen[name]) for name in names),
                  f"{median(seen['warm warm'], 'cpu') / median(seen['own warm'], 'cpu'):.2f}",
                  f"{median(seen['warm warm'], 'cpu') / median(seen['cold'], 'cpu'):.1%}"]
                 for row, seen in results.items()])


def print_rest(results):
    """What is left of a warm start, in CPU seconds, and whose it is."""
    rows = []
    for row, seen in results.items():
        if not seen["floor"]:
            continue
        floor, cold, warm = (median(seen[name], "cpu") for name in ("floor", "cold", "warm warm"))
        rows.append([row, f"{median(seen['warm warm'], 'import_s'):.2f}", f"{floor:.2f}",
                     f"{warm - floor:.2f}", f"{cold - floor:.2f}", f"{(warm - floor) / (cold - floor):.1%}"])
    if rows:
        print_table(["what remains", "imports, wall", "tracing and guards", "rest, warm", "rest, cold",
                     "warm / cold"], rows)


def print_ranks(results, n):
    rows = []
    for row, (without, with_warm) in results.items():
        rows.append([row, *(f"{wall:.1f} ({cpu:.1f})" for wall, cpu, _ in (without, with_warm)),
                     f"{with_warm[0] / without[0]:.2f}", without[2], with_warm[2]])
    if rows:
        print_table([f"{n} ranks at once, cold", "without: wall (CPU)", "with: wall (CPU)", "with / without",
                     "compiles without", "compiles with"], rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True)
    parser.add_argument("--triton", required=True)
    parser.add_argument("--runs", type=int, default=int(os.environ.get("WARM_BENCH_RUNS", "1")))
    parser.add_argument("--ranks", type=int, default=int(os.environ.get("WARM_BENCH_RANKS", "8")))
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--only", choices=["single", "ranks"])
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args()
    rows = [row for row in [*TORCH_ROWS, *TRITON_ROWS]
            if not options.rows or any(word in row for word in options.rows)]
    bench = Bench(options)
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; medians of {options.runs} run(s)\n")
    if options.only != "ranks":
        single = {row: bench.one_by_one(row) for row in rows}
        print_single(single)
        print_rest(single)
    if options.ranks and options.only != "single":
        print_ranks({row: (bench.ranks(row, False), bench.ranks(row, True))
                     for row in rows if options.rows or row in RANK_ROWS}, options.ranks)


main()
