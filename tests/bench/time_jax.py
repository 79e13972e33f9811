# SPDX-License-Identifier: Apache-2.0
"""time_jax.py ROUNDS wall|cpu [ROW…]: prints the table of the time that JAX programs take to their first result.

Each figure is the median of ROUNDS fresh processes of jax_programs.py. The forms take turns:
  cold     without warm, nothing cached
  JAX's    JAX's own cache, filled by the same program in the same place
  filling  with warm, nothing of the program stored (the libraries' identities are known)
  warm     with warm, in another folder, with other names of functions, arguments and keys
  jit      warm.jax.jit, in another folder with other names: its share of "cold", from the end of the
           imports to the first result, and then with the imports, most of which are JAX's own
  8 cold   eight processes ($TOGETHER) at once, nothing stored: wall seconds, and all compiles as a multiple
           of those of one process
Results must have the same bits in all forms."""

import os
import re
import statistics
import sys
import time

import kit

import json

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax_programs.py")
WIDTHS = ("1-16-1", "1-256-1", "1-16-16-1", "1-16-16-16-1", "five layers")
ROWS = (*[f"grad {w}" for w in WIDTHS], *[f"enzyme {w}" for w in WIDTHS], "grad 64 layers",
        "grad 128 layers", "chain loop, each", "chain loop, packed", "chain scan, each",
        "chain scan, packed", "sharded loop", "sharded gradient")
# The new names of dictionary keys sort as the old ones do, because JAX sorts by them.
NAMES = {"mean_error": "objective", "predict": "forward", "params": "weights", "layer": "block",
         "module": "unit", "train": "fit", "adam": "update", "ocean": "sea", "exchange": "swap",
         "halo_exchange": "pad.17", "enzyme_loss": "to_differentiate", "by_array": "one_by_one",
         "by_dtype": "all_at_once", "field": "u", "rows": "north", "columns": "east"}
KINDS = ("executable", "backward", "graph")
STAGES = ("import", "trace", "lower", "passes", "compile")


def renamed(text):
    text = text.replace('f"layer{', 'f"block{')
    for old, new in NAMES.items():
        if "." in new:
            text = text.replace(f'"{old}"', f'"{new}"')
        else:
            text = re.sub(rf"\b{old}\b", new, text)
    return "# another user's\n" + text


class Bench:
    def __init__(self, daemon, rounds, clock):
        self.daemon, self.rounds, self.clock = daemon, rounds, clock
        self.here = self.write("here", open(PROGRAMS).read())
        self.there = self.write("there", renamed(open(PROGRAMS).read()))

    def write(self, folder, text):
        os.mkdir(os.path.join(self.daemon.folder, folder))
        path = os.path.join(self.daemon.folder, folder, f"{folder}.py")
        with open(path, "w") as f:
            f.write(text)
        return path

    def command(self, path, row, form):
        return [sys.executable, path, row, form]

    def settings(self, **more):
        """Returns the settings of a process. Python's cache of bytecode is filled for all forms, as after a
        program's first run."""
        return dict(BENCH_CLOCK=self.clock, PYTHONPATH=os.path.join(kit.BUILD, "share/warm/python"),
                    PYTHONDONTWRITEBYTECODE=None,
                    PYTHONPYCACHEPREFIX=os.path.join(self.daemon.folder, "bytecode"), **more)

    def run(self, path, row, form="jit", warm=True, **settings):
        if not warm:
            settings["WARM_DISABLE"] = 1
        process = self.daemon.run(self.command(path, row, form), warm=warm,
                                  cwd=os.path.dirname(path), **self.settings(**settings))
        return json.loads(process.stdout.splitlines()[-1])

    def forget(self):
        for kind in KINDS:
            self.daemon.warm("evict", "--kind", kind)

    def together(self, row, n):
        if not n:
            return 0, []
        self.forget()
        begin = time.monotonic()
        running = [self.daemon.spawn(self.command(self.here, row, "jit"), **self.settings())
                   for _ in range(n)]
        out = [p.communicate(timeout=kit.RUN_S)[0] for p in running]
        wall = time.monotonic() - begin
        return wall, [json.loads(o.splitlines()[-1]) for o in out]

    def row(self, row):
        jax_cache = dict(JAX_COMPILATION_CACHE_DIR=os.path.join(self.daemon.folder, "jax"),
                         JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
        has_jit = row.startswith(("grad", "chain"))
        found = {name: [] for name in ("cold", "jax", "filling", "warm", "jit")}
        self.run(self.here, row, warm=False, **jax_cache)
        for i in range(self.rounds):
            found["cold"].append(self.run(self.here, row, warm=False))
            found["jax"].append(self.run(self.here, row, warm=False, **jax_cache))
            self.forget()
            found["filling"].append(self.run(self.here, row))
            found["warm"].append(self.run(self.there, row, **({} if i else {"BENCH_KEYS": 1})))
            if has_jit:
                self.run(self.here, row, "warm")
                found["jit"].append(self.run(self.there, row, "warm"))
        wall, eight = self.together(row, int(os.environ.get("TOGETHER", "8")))
        return found, wall, eight


def median(runs, name):
    values = [r["times"][name] for r in runs if name in r["times"]]
    return statistics.median(values) if values else None


def seconds(value):
    return "–" if value is None else f"{value:.3f}" if value < 0.9995 else f"{value:.2f}"


def stages(runs, names=None):
    """Returns the seconds of each stage; without names, of the stages that a cache saves."""
    names = names or [s for s in STAGES[3:] if median(runs, s) is not None]
    return " / ".join(seconds(median(runs, s)) for s in names)


def made(runs):
    """Returns the seconds of passes and compilation, which a cache saves."""
    return statistics.median(r["times"].get("passes", 0) + r["times"]["compile"] for r in runs)


def until_result(runs, *without):
    return statistics.median(sum(t for s, t in r["times"].items() if s not in without) for r in runs)


def report(row, found, wall, eight):
    jit, cold = found["jit"], found["cold"]
    bits = {r["digest"] for name in ("cold", "jax", "filling", "warm") for r in found[name]}
    bits |= {r["digest"] for r in eight}
    jit_bits = {r["digest"] for r in jit} <= bits
    same = "same" if len(bits) == 1 and jit_bits else "DIFFER"
    ours, theirs = found["warm"][0]["keys"]
    jit_cell = "– | –"
    if jit:
        after = until_result(jit, "import") / until_result(cold, "import")
        jit_cell = f"{after:.0%} | {until_result(jit) / until_result(cold):.0%}"
    alone, n = found["filling"][0]["compiles"], sum(r["compiles"] for r in eight)
    eight_cell = f"{wall:.1f}; {n / alone:.2g}" if eight else "–"
    return (f"| {row} | {stages(cold, STAGES)} | {stages(found['jax'])} | {stages(found['filling'])} "
            f"| **{stages(found['warm'])}** | {made(found['warm']) / made(cold):.0%} | {jit_cell} "
            f"| {eight_cell} | {ours * 1e3:.1f} / {theirs * 1e3:.1f} | {same} |")


def main():
    rounds, clock, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    rows = [row for row in ROWS if not words or any(word in row for word in words)]
    if not rows:
        raise SystemExit(f"no row has the word {words[0]}; there are: {'; '.join(ROWS)}")
    cell = " / ".join(STAGES)
    print(f"seconds ({clock}), medians of {rounds} fresh processes; {os.cpu_count()} CPUs")
    print(f"| program | cold: {cell} | passes, compile: JAX's own cache | with warm, cold "
          "| with warm, renamed | of cold | `warm.jax.jit`, after imports | with imports "
          "| 8 at once, cold: s; compiles | key, ms: ours / JAX's | bits |")
    print("|---" * 11 + "|", flush=True)
    with kit.Daemon() as daemon:
        bench = Bench(daemon, rounds, clock)
        bench.run(bench.here, "enzyme 1-16-1")  # from here on the daemon knows the libraries' identities
        for row in rows:
            print(report(row, *bench.row(row)), flush=True)


if __name__ == "__main__":
    main()
