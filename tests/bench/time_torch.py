# SPDX-License-Identifier: Apache-2.0
"""Times the compiles of PyTorch and Triton at the start of a program, without the cache and with it.

    torch.sh BUILD [--runs N] [--warm-runs N] [--ranks N] [--shared] [ROW…]

Every run is a fresh process, and its time begins after the imports. The subjects take turns. A cell is the
median of the wall times. In brackets are the CPU seconds of the process and of the compilers that it
started: compare these on a machine with other load. Cold subjects, which take most of the time, run --runs
times, the others --warm-runs times as often.

    cold        fresh folders, no cache
    own warm    the folders of the run before: what the framework keeps by itself
    warm cold   `warm run`, fresh folders, an empty store
    warm warm   `warm run`, folders of the same path, emptied, the store of the run before
    floor       dynamo's tracing and guards alone (backend "eager"): no cache of artifacts saves them

The work for 64 equal layers is counted, too: the graphs that Inductor compiled, their calls of kernels, the
distinct kernels, and the files that g++ made.

Ranks are --ranks processes that start at once, in one round. Each has folders of its own, as on several
hosts or in containers. With --shared all have one folder, as on one host. Their compiles are the graphs
that Inductor compiled and, after the plus, the files that g++ made. For Triton they are the kernels.
"""

import argparse
import glob
import json
import os
import shutil
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
    "64 layers, whole, --regional": ["--layers", "64"],
    "transformer, forward": ["--model", "transformer", "--layers", "2", "--forward"],
    "transformer, training step": ["--model", "transformer", "--layers", "2"],
}
# with the variable that `warm run --regional` sets; without warm it is the row WHOLE
REGIONAL = "64 layers, whole, --regional"
WHOLE = "64 layers, whole, training step"
# the rows that ranks run if no row is named: all rows would take twice the time
RANK_ROWS = (WHOLE, "six Triton kernels, sm_90")
TRITON_ROWS = {"six Triton kernels, sm_80": ["80"], "six Triton kernels, sm_90": ["90"]}


SUBJECTS = ("cold", "own warm", "warm cold", "warm warm", "floor")
WORK = ("compiles", "calls", "kernels", "made")  # fields of a Run


class Run:
    """The figures that one process printed."""

    def __init__(self, seen):
        torch = "first_s" in seen and "losses" in seen
        self.wall = seen["first_s"] if torch else seen["compile_s"]
        self.cpu = seen["cpu_s"] + seen.get("children_s", 0.0)
        self.import_s = seen["import_s"]
        self.compiles = seen["fx_misses"] if torch else seen["misses"]
        self.calls, self.kernels = seen.get("calls", 0), seen.get("kernels", 0)
        self.made = 0  # files of g++


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
        """Returns the runs of each subject."""
        seen = {name: [] for name in SUBJECTS}
        for _ in range(self.options.runs):
            with kit.Daemon() as daemon, kit.Folder() as at:
                def measure(name, folder, *more, times=1, **settings):
                    for i in range(times):
                        progress(f"{row}: {name}")
                        path = os.path.join(at, folder)
                        if "warm" in settings:  # an empty folder, at the same path each time
                            shutil.rmtree(path, ignore_errors=True)
                        before = objects(daemon)
                        run = self.run(daemon, row, path, *more, **settings)
                        given = objects(daemon) - before
                        run.made = given if "warm" in settings else len(files_of_compilers(path))
                        seen[name].append(run)

                again = self.options.warm_runs
                with_warm = dict(warm=True, **({"WARM_REGIONAL": "1"} if row == REGIONAL else {}))
                if row != REGIONAL:
                    measure("cold", "a")
                    measure("own warm", "a", times=again)
                measure("warm cold", "b", **with_warm)
                measure("warm warm", "b", times=again, **with_warm)
                if row in TORCH_ROWS and row != REGIONAL:
                    measure("floor", "d", "--backend", "eager", times=again)
        return seen

    def ranks(self, row, warm):
        """Returns the wall time and the CPU seconds of all ranks together, and their compiles."""
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
                made = objects(daemon) if warm else len(files_of_compilers(at))
                compiles += f" + {made}"
            return wall, sum(one.cpu for one in seen), compiles


def files_of_compilers(at):
    return [path for end in ("so", "gch") for path in glob.glob(f"{at}/**/*.{end}", recursive=True)]


def objects(daemon):
    """Returns how many files of compilers the daemon was given."""
    return daemon.stats("kinds").get("object", {}).get("puts", 0)


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
    return f"{median(runs, 'wall'):.2f} ({median(runs, 'cpu'):.2f})" if runs else "–"


def print_table(columns, rows):
    for line in (columns, ["---", *["--:"] * (len(columns) - 1)], *rows):
        print("| " + " | ".join(line) + " |")
    print(flush=True)


def ratio(seen, name, form):
    if not seen[name]:
        return "–"
    return form.format(median(seen["warm warm"], "cpu") / median(seen[name], "cpu"))


def after_tracing(seen):
    """Returns the share of the cold CPU seconds that is left when warm, without imports, tracing and guards."""
    if not seen["floor"]:
        return "–"
    floor, cold, warm = (median(seen[name], "cpu") for name in ("floor", "cold", "warm warm"))
    return f"{(warm - floor) / (cold - floor):.1%}"


def print_single(results):
    names = [name for name in SUBJECTS if name != "floor"]
    print_table(["", "cold, without", "own warm", "with warm, cold", "with warm, warm", "CPU: warm / own",
                 "warm / cold", "after tracing"],
                [[row, *(cell(seen[name]) for name in names), ratio(seen, "own warm", "{:.2f}"),
                  ratio(seen, "cold", "{:.1%}"), after_tracing(seen)] for row, seen in results.items()])


def print_work(results):
    """Prints what the 64 equal layers compile, in which process, and how often."""
    places = [(WHOLE, "cold", "without, every process"), (WHOLE, "warm cold", "with warm, the first process"),
              (WHOLE, "warm warm", "with warm, later ones"), (REGIONAL, "warm cold", "--regional, the first"),
              (REGIONAL, "warm warm", "--regional, later ones")]
    rows = [[place, *(str(median(results[row][name], of)) for of in WORK)]
            for row, name, place in places if row in results and results[row][name]]
    if rows:
        print_table(["", "graphs compiled", "calls", "kernels", "files from `g++`"], rows)


def print_rest(results):
    """Prints the parts that are left of a warm start, in CPU seconds."""
    rows = []
    for row, seen in results.items():
        if not seen["floor"]:
            continue
        floor, cold, warm = (median(seen[name], "cpu") for name in ("floor", "cold", "warm warm"))
        rows.append([row, f"{median(seen['warm warm'], 'import_s'):.2f}", f"{floor:.2f}",
                     f"{warm - floor:.2f}", f"{cold - floor:.2f}"])
    if rows:
        print_table(["what remains, s", "imports, wall", "tracing and guards", "rest, warm", "rest, cold"], rows)


def print_ranks(results, n):
    rows = []
    for row, (without, with_warm) in results.items():
        rows.append([row, *(f"{wall:.1f} ({cpu:.1f})" for wall, cpu, _ in (without, with_warm)),
                     f"{with_warm[0] / without[0]:.2f}", f"{without[2]} → {with_warm[2]}"])
    if rows:
        print_table([f"{n} ranks at once, cold", "without", "with warm", "ratio", "compiles"], rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True)
    parser.add_argument("--triton", required=True)
    parser.add_argument("--runs", type=int, default=int(os.environ.get("WARM_BENCH_RUNS", "1")))
    parser.add_argument("--warm-runs", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=int(os.environ.get("WARM_BENCH_RANKS", "8")))
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--only", choices=["single", "ranks"])
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args()
    rows = [row for row in [*TORCH_ROWS, *TRITON_ROWS]
            if not options.rows or any(word in row for word in options.rows)]
    bench = Bench(options)
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; medians of {options.runs} run(s), "
          f"of {options.runs * options.warm_runs} where it is warm\n")
    if options.only != "ranks":
        single = {row: bench.one_by_one(row) for row in rows}
        print_single(single)
        print_rest(single)
        print_work(single)
    if options.ranks and options.only != "single":
        print_ranks({row: (bench.ranks(row, False), bench.ranks(row, True))
                     for row in rows if options.rows or row in RANK_ROWS}, options.ranks)


main()
