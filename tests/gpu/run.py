# SPDX-License-Identifier: Apache-2.0
"""The first run of warm on a GPU: `make test-gpu`, or `python3 tests/gpu/run.py BUILD`.

Runs programs plain, under `warm run` with an empty store (cold), and again (warm), each in a fresh home. Prints one
table, and writes BUILD/gpu/report.json after each step, and the programs' output into BUILD/gpu/log. Needs a driver,
Python with some of torch, Triton, JAX, CuPy, cuda.core and NVRTC, and warm: no network, no other package.

    STEPS=1,2     only these steps
    WHEEL=FILE    the wheel to test, in place of BUILD
    PYTHONS=A:B   more interpreters, or patterns of them: a step takes the first that has its library;
                  without it those of `make test-clients`
    PTX_CORPUS=D  more PTX for step 2
    BUDGET_S=480  seconds for all steps
    OUT=FOLDER    in place of BUILD/gpu

A step whose library is missing says so and is no failure. Without a GPU the steps run on the stand-in for the driver,
or on the CPU: that finds errors of these programs, not of a GPU. Exit status: 1 if a step failed.
"""

import glob
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import corpus
import machine

HERE = os.path.dirname(os.path.abspath(__file__))
BUDGET_S = float(os.environ.get("BUDGET_S", 480))
LAST_STEP = 14
SLOW = 10  # times the limits where there is no GPU: such machines are small and busy
LAST_LINES = 3  # of stderr, for the table


class Step:
    """A row of the table. `limit` is in seconds; `settings` are for the runs with warm. It runs where Python has the
    module `needs`, and better where that has `better`, too."""

    def __init__(self, number, name, run, limit, needs="", arguments=(), settings=None, better=""):
        self.number, self.name, self.run, self.limit = number, name, run, limit
        self.needs, self.arguments, self.settings, self.better = needs, arguments, settings or {}, better


class Failed(Exception):
    """A step that went wrong, in words for the table."""


class Run:
    """All steps, with the daemon and the report."""

    def __init__(self, build, work):
        self.work, self.began = work, time.monotonic()
        self.out = os.path.abspath(os.environ.get("OUT") or os.path.join(build, "gpu"))
        os.makedirs(os.path.join(self.out, "log"), exist_ok=True)
        self.machine = machine.Machine(work)
        self.warm = machine.Installed(build, work)
        self.build = build
        self.nvrtc = machine.nvrtc_folders(self.machine.cuda)
        self.daemon = machine.Warmd(self.warm, work, self.nvrtc)
        self.slow = 1 if self.machine.kind == "gpu" else SLOW
        self.report = {"machine": {"kind": self.machine.kind, "device": self.machine.device, "arch": self.machine.arch,
                                   "cuda": self.machine.cuda, "driver": self.machine.release(),
                                   "wheel": self.warm.from_wheel, "nvrtc": self.nvrtc}, "steps": []}
        self.homes = 0

    # ---- one program ----

    def left(self):
        return BUDGET_S * self.slow - (time.monotonic() - self.began)

    def program(self, log, argv, deadline, **settings):
        """Runs a program to its end or its deadline. Returns (seconds, exit status, stdout, stderr)."""
        self.homes += 1
        home = os.path.join(self.work, f"home{self.homes}")
        env = machine.environment(self.machine, home, WARM_SOCKET=self.daemon.socket, **settings)
        began = time.monotonic()
        process = subprocess.Popen(argv, env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, error = process.communicate(timeout=max(1.0, deadline - began))
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its workers, too
            out, error = process.communicate()
            status = None
        with open(os.path.join(self.out, "log", log + ".txt"), "w") as f:
            f.write(f"$ {' '.join(argv)}\n{out}\n---- stderr, status {status} ----\n{error}")
        return time.monotonic() - began, status, out, error

    def said(self, log, argv, deadline, **settings):
        """Runs a step program. Returns (seconds, the line that it printed). Raises Failed."""
        seconds, status, out, error = self.program(log, argv, deadline, **settings)
        if status is None:
            raise Failed(f"TIME: no end after {seconds:.0f} s")
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if status or not lines:
            words = " | ".join(error.strip().splitlines()[-LAST_LINES:])
            raise Failed(f"FAILED: status {status}: {words[-300:]}")
        return seconds, json.loads(lines[-1])

    # ---- kinds of steps ----

    def three(self, step, row, deadline):
        """Plain, cold, warm: the same numbers, and hits on the third."""
        python = machine.python_with(step.needs, step.better)
        if not python:
            row["verdict"] = f"no {step.needs}"
            return
        argv = [python, os.path.join(HERE, step.arguments[0]), *step.arguments[1:]]
        warm_run = [self.warm.program("warm"), "run", "--no-start", "--"]
        seen = {}
        for mode in ("plain", "cold", "warm"):
            before = self.daemon.stats()
            row[mode], seen[mode] = self.said(f"{step.number}-{step.name}-{mode}".replace(" ", "_"),
                                              argv if mode == "plain" else warm_run + argv, deadline,
                                              **({} if mode == "plain" else step.settings))
            after = self.daemon.stats()
            for count in ("hits", "misses"):
                row[f"{mode}_{count}"] = after.get(count, 0) - before.get(count, 0)
            row[f"{mode}_said"] = seen[mode]
            if "lacks" in seen[mode] or "no_gpu" in seen[mode]:
                row["verdict"] = f"no {seen[mode]['lacks']}" if "lacks" in seen[mode] else "no GPU"
                return
        row["same"] = same(seen, seen["plain"].get("tolerance", 0))
        row["verdict"] = self.verdict(step, row, seen)

    def verdict(self, step, row, seen):
        wrong = next((f"WRONG, {mode}: {s['wrong']}" for mode, s in seen.items() if "wrong" in s), None)
        if wrong or not row["same"]:
            return wrong or "WRONG: the numbers differ"
        hits = not seen["warm"].get("no_hits")
        if hits and not row["warm_hits"]:
            return "WRONG: no hits when warm"
        if hits and row["cold_misses"] and row["warm_misses"] >= row["cold_misses"]:
            return f"WRONG: {row['warm_misses']} misses when warm, {row['cold_misses']} when cold"
        notes = [seen["warm"]["note"]] if "note" in seen["warm"] else []
        hits, misses = row["warm_hits"], row["warm_misses"]
        counts = f"{hits} hit{'s' * (hits != 1)}, {misses} miss{'es' * (misses != 1)}"
        return ", ".join(["right", *notes, counts, *self.where(seen["warm"])])

    def where(self, said):
        """Returns on what a program ran, if that is not a GPU."""
        on = said.get("on", "GPU" if self.machine.kind == "gpu" else self.machine.kind)
        return [] if on == "GPU" else [f"on the {on}"]

    def once(self, step, row, deadline, argv=None, **settings):
        """One run, which looks at warm by itself."""
        python = machine.python_with(step.needs)
        if not python:
            row["verdict"] = f"no {step.needs}"
            return
        argv = argv or [python, os.path.join(HERE, step.arguments[0]), *step.arguments[1:]]
        row["plain"], said = self.said(f"{step.number}-{step.name}".replace(" ", "_"), argv, deadline, **settings)
        row["said"] = said
        if "lacks" in said or "no_gpu" in said:
            row["verdict"] = f"no {said['lacks']}" if "lacks" in said else "no GPU"
        elif "wrong" in said:
            row["verdict"] = f"WRONG: {said['wrong']}"
        else:
            row["verdict"] = ", ".join([said.get("note") or "right", *self.where(said)])

    # ---- the steps that are more than a program ----

    def doctor(self, step, row, deadline):
        seconds, status, out, error = self.program("0-doctor", [self.warm.program("warm"), "doctor"], deadline)
        row["plain"], row["doctor"] = seconds, out
        if status not in (0, 1) or not self.nvrtc:
            raise Failed("no NVRTC found" if status in (0, 1) else f"FAILED: status {status}: {error[-200:]}")
        row["verdict"] = f"{self.machine.device}, {self.machine.arch}, CUDA {self.machine.cuda // 1000}." \
                         f"{self.machine.cuda % 1000 // 10}, driver {self.report['machine']['driver'] or 'unknown'}"

    def jitcmp(self, step, row, deadline):
        folder, cache = os.path.join(self.work, "ptx"), os.path.join(self.work, "jit-cache")
        if not os.path.isdir(folder):
            half = (time.monotonic() + deadline) / 2
            row["written"] = corpus.write(self.daemon, folder, self.machine.arch, half)
        os.makedirs(cache, exist_ok=True)
        folders = [folder, *glob.glob(f"{self.work}/home*/.triton"), *filter(None, [os.environ.get("PTX_CORPUS")])]
        argv = [sys.executable, os.path.join(HERE, "jitcmp.py"), *folders]
        self.once(step, row, deadline, argv, CUDA_CACHE_PATH=cache)

    def graphs(self, step, row, deadline):
        step.arguments = (step.arguments[0], self.warm.program("warm"), self.machine.arch)
        self.once(step, row, deadline)

    def inside(self, step, row, deadline):
        python = machine.python_with(step.needs)
        self.once(step, row, deadline, [self.warm.program("warm"), "run", "--no-start", "--", python or "",
                                        os.path.join(HERE, step.arguments[0])])

    def demo(self, step, row, deadline):
        program = os.path.join(self.build, "bin", "warm-kernels")
        if not os.access(program, os.X_OK):
            row["verdict"] = "no warm-kernels: make build/bin/warm-kernels"
            return
        cubins, cccl = [], [f"{folder}/../include{tail}" for folder in self.nvrtc
                            for tail in ("-bundled", "-bundled/cccl", "", "/cccl")]
        includes = [f"-I{folder}" for folder in cccl if os.path.isdir(folder)]
        for path in sorted(glob.glob(f"{machine.ROOT}/kernels/*.cu")):
            cubin = os.path.join(self.work, f"{os.path.basename(path)[:-3]}.{self.machine.arch}.cubin")
            for newest in ([], ["--nvrtc", "13"]):  # the headers of CCCL may be of that one
                if not os.path.exists(cubin):
                    self.daemon.warm("compile", path, "--arch", self.machine.arch, "-o", cubin, *includes, *newest,
                                     timeout=60)
            cubins += [cubin] if os.path.exists(cubin) else []
        if self.machine.kind != "gpu":
            row["verdict"] = f"no GPU, {len(cubins)} compiled"
            return
        row["plain"], status, out, error = self.program("demo", [program, *cubins], deadline)
        if status or not cubins or out.count(": right on ") != len(cubins):
            raise Failed(f"WRONG: {' | '.join(line for line in out.splitlines() if 'WRONG' in line)[:300]}{error[-200:]}")
        row["verdict"] = f"right: {len(cubins)} kernels"

    def sanitizer(self, step, row, deadline):
        tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
        bundle = os.path.join(self.work, "sanitized.bundle")
        self.daemon.warm("compile", f"{machine.ROOT}/kernels/examples/mlp_1_16_1.mlir", "--vjp", "--arch",
                         self.machine.arch, "-o", bundle, timeout=60)
        argv = [self.warm.runner, bundle, *["=0.1"] * 7]
        row["plain"], status, out, error = self.program("runner", argv, deadline)
        if status:
            raise Failed(f"FAILED: warm-exec: status {status}: {error[-200:]}" if self.machine.kind != "none" else "no GPU")
        if not tool or self.machine.kind != "gpu":
            row["verdict"] = "no compute-sanitizer, the bundle ran" if self.machine.kind == "gpu" else "no GPU"
            return
        row["cold"], status, out, error = self.program("sanitizer", [tool, "--error-exitcode", "9", *argv], deadline)
        if status:
            raise Failed(f"WRONG: status {status}: {out[-300:]}")
        row["verdict"] = "right: no errors"

    def end(self, step, row, deadline):
        stats, why = self.daemon.stats(), self.daemon.warm("why", "--last")
        row["stats"], row["why"] = stats, why
        if not stats or stats["corrupt"]:
            raise Failed(f"WRONG: {stats['corrupt']} corrupt" if stats else "WRONG: the daemon does not answer")
        row["verdict"] = f"right: {stats['hits']} hits, {stats['entries']} entries, none corrupt"

    # ---- all of them ----

    def steps(self):
        jit = {"WARM_DRIVER_JIT": "1"}
        return [
            Step(0, "machine", self.doctor, 25),
            Step(1, "Triton launch", self.three, 60, "triton", ["triton_launch.py"]),
            Step(2, "is a link a load", self.jitcmp, 90),
            Step(3, "PTX", self.three, 20, "", ["ptx_loads.py"]),
            Step(3, "PTX, loads served", self.three, 20, "", ["ptx_loads.py"], settings=jit),
            Step(3, "PTX by cuda.core", self.three, 30, "cuda.core", ["ptx_core.py"], better="nvidia.cu13"),
            Step(4, "CuPy", self.three, 60, "cupy", ["cupy_kernels.py"]),
            Step(5, "torch jiterator", self.three, 50, "torch", ["jiterator.py"]),
            Step(6, "torch.compile", self.three, 90, "torch", ["torch_step.py", "default"]),
            Step(7, "JAX", self.three, 70, "jax", ["jax_step.py"]),
            Step(8, "graphs beside JAX", self.graphs, 90, "jax", ["graphs.py"]),
            Step(8, "graph inside of jit", self.inside, 40, "jax", ["jax_inside.py"]),
            Step(9, "torch max-autotune", self.three, 100, "torch", ["torch_step.py", "max-autotune"]),
            Step(10, "torch CUDA graphs", self.three, 70, "torch", ["torch_step.py", "reduce-overhead"]),
            Step(11, "demo's kernels", self.demo, 20),
            Step(12, "compute-sanitizer", self.sanitizer, 30),
            Step(13, "foreign bundles", lambda s, r, d: self.once(s, r, d), 15, "",
                 ["faults.py", self.warm.program("warm"), self.machine.arch]),
            Step(14, "the daemon's end", self.end, 10),
        ]

    def take(self, step):
        """Runs one step. Returns its row."""
        row = {"step": step.number, "name": step.name}
        deadline = time.monotonic() + min(step.limit * self.slow, self.left())
        try:
            if self.left() < 2:
                raise Failed("TIME: none was left")
            step.run(step, row, deadline)
        except Failed as e:
            row["verdict"] = str(e)
        except Exception as e:  # a fault of this script: the other steps go on
            row["verdict"] = f"FAILED: {e!r}"
        row["failed"] = row["verdict"].startswith(("FAILED", "WRONG", "TIME", "no NVRTC"))
        return row

    def all(self, chosen):
        print(f"{'':2s} {'step':20s} {'plain s':>8s} {'cold s':>8s} {'warm s':>8s} {'same':4s}  verdict", flush=True)
        for step in self.steps():
            if chosen and step.number not in chosen:
                continue
            row = self.take(step)
            self.report["steps"].append(row)
            self.report["seconds"] = round(time.monotonic() - self.began, 1)
            with open(os.path.join(self.out, "report.json"), "w") as f:
                json.dump(self.report, f, indent=1)
            print_row(row)
        return any(row["failed"] for row in self.report["steps"])


def same(seen, tolerance):
    """True if the three runs gave the same numbers."""
    first = seen["plain"].get("numbers")
    for other in (seen["cold"].get("numbers"), seen["warm"].get("numbers")):
        if tolerance and isinstance(first, list) and isinstance(other, list):
            if len(first) != len(other) or not all(math.isclose(a, b, rel_tol=tolerance) for a, b in zip(first, other)):
                return False
        elif first != other:
            return False
    return True


def print_row(row):
    times = [f"{row[mode]:8.2f}" if mode in row else f"{'-':>8s}" for mode in ("plain", "cold", "warm")]
    is_same = {None: "-", True: "yes", False: "NO"}[row.get("same")]
    print(f"{row['step']:2d} {row['name']:20s} {' '.join(times)} {is_same:4s}  {row['verdict']}", flush=True)


def main():
    words = os.environ.get("STEPS", "").replace(",", " ").split()
    if not all(w.isdigit() and int(w) <= LAST_STEP for w in words):
        sys.exit(f"test-gpu: STEPS={','.join(words)}: steps have numbers from 0 to {LAST_STEP}, like STEPS=1,2")
    chosen = {int(w) for w in words}
    work = tempfile.mkdtemp(prefix="warm-gpu-")
    run = None
    try:
        run = Run(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build"), work)
        failed = run.all(chosen)
        print(f"test-gpu: {'FAILED' if failed else 'no step failed'} in {run.report.get('seconds', 0)} s; see "
              f"{run.out}/report.json")
    finally:
        if run:
            run.daemon.stop()
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(failed)


main()
