# SPDX-License-Identifier: Apache-2.0
"""Times the programs of programs.py from start to end, cold and warm, each in a process of its own.

    python.sh BUILD programs.txt time_programs [--rounds N] [ROW…]     ROW: a word of a program's name
    python.sh BUILD jit.txt time_programs --list jit [--rounds N] [ROW…]   the programs for those packages

For each program, one after the other, in folders of their own:

    cold        fresh caches, no warm
    own         the caches of the run before: what the framework keeps by itself
    first       `warm run`, fresh caches, an empty store
    elsewhere   `warm run`, fresh caches, the program in another folder
    renamed     the same with other names of its variables, functions and classes, and other lines
    home        the program where it was first, with another home and fresh caches

A cell has the wall time. In brackets are the CPU seconds of the program, of all processes that it started, and of
the daemon. All are medians of --rounds. "bits" tells whether all runs computed the same. "compile" has the CPU seconds
after the imports, without the daemon's: cold, elsewhere and with another home.
The ratios, and the figures P13 and P14 at the end, are of CPU seconds.
"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import sys
import time

import kit

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs.py")
PHASES = ("cold", "own", "first", "elsewhere", "renamed", "home")
CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TORCH_EXTENSIONS_DIR": "extensions",
          "TRITON_CACHE_DIR": "triton", "JAX_COMPILATION_CACHE_DIR": "jax", "CUPY_CACHE_DIR": "cupy",
          "HOME": "home", "XDG_CACHE_HOME": "home/.cache", "TMPDIR": "tmp"}
# JAX's own cache keeps short compiles only with this setting
SETTINGS = {"JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1", "HF_HUB_OFFLINE": "1"}


def names(mark):
    with open(PROGRAMS) as f:
        return [name.replace("_", " ") for name in re.findall(rf"@{mark}\ndef (\w+)_n\(", f.read())]


def copy(folder, renamed=False):
    """Writes the programs into a folder; with other names if `renamed`. Returns the path."""
    with open(PROGRAMS) as f:
        text = f.read()
    if renamed:
        text = "# the same under other names\n\n\n" + re.sub(r"_n\b", "_other", text)
    path = os.path.join(folder, "models.py" if renamed else "programs.py")
    with open(path, "w") as f:
        f.write(text)
    return path


def cpu_of(pid):
    """Returns the CPU seconds of a process and of its children that ended."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return sum(int(v) for v in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Row:
    def __init__(self, name, at):
        self.name, self.at = name, at
        self.wall = {phase: [] for phase in PHASES}
        self.cpu = {phase: [] for phase in PHASES}
        self.compile = {phase: [] for phase in PHASES}
        self.digests = {phase: set() for phase in PHASES}

    def run(self, phase, daemon, caches, path, warm):
        settings = dict(SETTINGS)
        for variable, folder in CACHES.items():
            settings[variable] = os.path.join(self.at, caches, folder)
            os.makedirs(settings[variable], exist_ok=True)
        if warm:
            settings["JAX_COMPILATION_CACHE_DIR"] = None
        settings["PYTENSOR_FLAGS"] = f"base_compiledir={os.path.join(self.at, caches, 'pytensor')}"
        print(f"{self.name}: {phase}", file=sys.stderr, flush=True)
        cpu, wall = children_cpu() + cpu_of(daemon.process.pid), time.perf_counter()
        ended = daemon.run([sys.executable, path, self.name], warm=warm, cwd=os.path.dirname(path),
                           **settings)
        self.wall[phase].append(time.perf_counter() - wall)
        self.cpu[phase].append(children_cpu() + cpu_of(daemon.process.pid) - cpu)
        self.compile[phase].append(kit.result(ended)["seconds"])
        self.digests[phase].add(kit.result(ended)["digest"])

    def round(self):
        here, there, other = (os.path.join(self.at, name) for name in ("here", "there/deeper", "other"))
        for folder in (here, there, other):
            os.makedirs(folder)
        with kit.Daemon() as daemon:
            self.run("cold", daemon, "a", copy(here), warm=False)
            self.run("own", daemon, "a", copy(here), warm=False)
            self.run("first", daemon, "b", copy(here), warm=True)
            self.run("elsewhere", daemon, "c", copy(there), warm=True)
            self.run("renamed", daemon, "d", copy(other, renamed=True), warm=True)
            self.run("home", daemon, "e", copy(here), warm=True)

    def ratio(self, of, to, what):
        return statistics.median(what[of]) / statistics.median(what[to])

    def line(self):
        cells = [f"{statistics.median(self.wall[p]):.1f} ({statistics.median(self.cpu[p]):.1f})" for p in PHASES]
        ratios = [f"{self.ratio(of, to, self.cpu):.2f}" for of, to in
                  (("elsewhere", "own"), ("elsewhere", "cold"), ("renamed", "elsewhere"), ("home", "cold"), ("first", "cold"))]
        same = len(set.union(*self.digests.values())) == 1
        compile_s = ", ".join(f"{statistics.median(self.compile[p]):.2f}" for p in ("cold", "elsewhere", "home"))
        return f"| {' | '.join([self.name, *cells, *ratios, compile_s, 'equal' if same else 'DIFFER'])} |"


def figure(number, what, rows, of, to, target):
    """Prints a figure of the design: the median over the programs, with the lowest and the highest."""
    ratios = sorted(row.ratio(of, to, row.cpu) for row in rows)
    median = statistics.median(ratios)
    print(f"{number}  {what:58} {median:6.2f}  {ratios[0]:.2f} to {ratios[-1]:.2f}  <= {target}  "
          f"{'reached' if median <= target else 'MISSED'}")


HEAD = ("| program | " + " | ".join(PHASES) +
        " | elsewhere / own | elsewhere / cold | renamed / elsewhere | home / cold | first / cold | compile | bits |\n" +
        "|---" * (len(PHASES) + 8) + "|\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--list", choices=("programs", "jit"), default="programs")
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args()
    chosen = [name for name in names("jit_program" if options.list == "jit" else "program")
              if not options.rows or any(w in name for w in options.rows)]
    failed, rows = False, []
    print(HEAD, end="", flush=True)
    for name in chosen:
        with kit.Folder() as at:
            row = Row(name, at)
            try:
                for i in range(options.rounds):
                    row.round()
                    if i + 1 < options.rounds:
                        shutil.rmtree(at)
            except RuntimeError as error:
                failed = True
                print(f"{name}: {str(error)[-2000:]}", file=sys.stderr)
                continue
        print(row.line(), flush=True)
        rows.append(row)
    if rows:
        print()
        figure("P13", "first run under warm, empty store / without", rows, "first", "cold", 1.05)
        figure("P14", "second run, in another folder / without", rows, "elsewhere", "cold", 0.34)
        figure("P14", "the same / the framework's own warm cache", rows, "elsewhere", "own", 1.0)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
