# SPDX-License-Identifier: Apache-2.0
"""time_clients.py GROUP [LIBNVRTC]: times whole programs that compile, from start to end, in milliseconds.
Their own processor time is in brackets, without that of the daemon. GROUP is nvrtc, nvrtc12 or tools. It
prints rows of a table; GROUP "head" prints the head.

Each round starts every program without warm, with an empty store, and then with the filled store. A
program with a cache of its own starts a second time with that. The table has medians of the rounds.
"imports" is the same program without its compiles: no cache can make it faster. NVRTC's own cache needs
a real driver: WARM_TEST_LIBCUDA=1.
"""

import os
import re
import resource
import statistics
import subprocess
import sys
import time

import kit
import nvrtc_programs as programs

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 5))

OWN_CACHE = "own.cache"  # a folder in the program's folder

COLUMNS = ("imports", "without", "cold", "warm", "own cache")
HEAD = """| program | its imports | without | with warm, cold | with warm, warm | own cache, warm | without : warm |
|---|--:|--:|--:|--:|--:|--:|"""

CUDA_CORE_CACHED = programs.MANY.replace(
    "for i in", "from cuda.core.utils import FileStreamProgramCache\n"
    f"cache = FileStreamProgramCache(os.path.join(folder, '{OWN_CACHE}'))\nfor i in").replace(
    'compile("cubin")', 'compile("cubin", cache=cache)')
# numba-cuda's cache takes no kernel that is linked with other code.
NUMBA_ALONE = programs.PRELUDE + """
import numpy as np
from numba import cuda
@cuda.jit("void(float32, float32[:], float32[:])")
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]
x = np.arange(4, dtype="f4")
saxpy[1, 4](2, x, x)
cuda.synchronize()
print("launched")
"""
TRITON = f"""
import contextlib, io, json, sys
import triton
sys.path.insert(0, {os.path.dirname(kit.__file__)!r})
sys.argv[1:] = ["90"]
import six_kernels
with contextlib.redirect_stdout(io.StringIO()) as told:
    six_kernels.main()
print(json.loads(told.getvalue())["cubins"])
"""
HOST = """#include <algorithm>
#include <cmath>
#include <string>
#include <vector>
extern "C" float total(const float *p, int n)
{ std::vector<float> v(p, p + n); std::sort(v.begin(), v.end());
  float sum = 0; for (float x : v) sum += std::sqrt(x); return sum + std::to_string(n).size(); }
"""
NUMBA_CACHED = NUMBA_ALONE.replace('[:])")', '[:])", cache=True)')


class Client:
    """A program in three forms: as it is, without its compiles, and with its own cache if it has one."""

    def __init__(self, name, argv, imports, own=None):
        self.name, self.argv, self.imports, self.own = name, argv, imports, own


def script(folder, name, text, own=None):
    """Returns a client that is a Python program."""
    def write(kind, what):
        path = os.path.join(folder, f"{re.sub('[^a-z0-9]', '_', name.lower())}_{kind}.py")
        with open(path, "w") as f:
            f.write(what)
        return [sys.executable, path, folder]
    imports = "\n".join(line for line in re.findall(r"(?m)^(?:from|import) .*", text)
                        if "six_kernels" not in line)
    return Client(name, write("program", text), write("imports", imports), own and write("own", own))


def shell(name, command, nothing):
    """Returns a client that is a compiler, started as programs start it. `nothing` compiles nothing."""
    return Client(name, ["sh", "-c", f"{command} && cksum out"], ["sh", "-c", nothing])


def build_client(folder, library, linked):
    source = os.path.join(kit.ROOT, "tests/programs/nvrtc_client.c")
    path = os.path.join(folder, "linked" if linked else "client")
    where = os.path.dirname(library)
    link = ["-DLINKED", f"-L{where}", f"-l:{os.path.basename(library)}",
            f"-Wl,-rpath,{where}"] if linked else []
    subprocess.run(["cc", "-D_GNU_SOURCE", "-std=c11", "-O1", "-pthread", "-o", path, source, *link,
                    "-ldl"], check=True)
    name = f"C, {'linked' if linked else 'dlopen'}"
    return Client(name, [path, library, "simple"], [path, "nowhere", "default"])


def nvrtc_clients(folder, library):
    return [
        build_client(folder, library, False),
        build_client(folder, library, True),
        script(folder, "cuda.bindings", programs.CUDA_BINDINGS),
        script(folder, "cuda.core", programs.CUDA_CORE),
        script(folder, "cuda.core, 24 kernels", programs.MANY, CUDA_CORE_CACHED),
        script(folder, "CuPy", programs.CUPY),
        script(folder, "nvJitLink", programs.NVJITLINK),
        script(folder, "numba-cuda, linked with CUDA C++", programs.NUMBA),
        script(folder, "numba-cuda, one kernel", NUMBA_ALONE, NUMBA_CACHED)]


def tool_clients(folder):
    for name, text in (("k.cu", programs.EXTRA), ("v.cpp", HOST)):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    clients = [script(folder, "Triton, six kernels", TRITON, TRITON),
               shell("g++ -O2 -shared", f"g++ -O2 -shared -fPIC {folder}/v.cpp -o out",
                     "g++ --version")]
    if kit.NVCC:
        clients.append(shell("nvcc -cubin", f"{kit.NVCC} -cubin -arch=sm_90 -rdc=true "
                             f"{folder}/k.cu -o out", f"{kit.NVCC} --version"))
    return clients


class Bench:
    def __init__(self, group, library=None):
        self.keeper = kit.Folder()
        self.folder = self.keeper.__enter__()
        for name, text in (("scale.h", "#define SCALE 2\n"), ("extra.cu", programs.EXTRA)):
            with open(os.path.join(self.folder, name), "w") as f:
                f.write(text)
        kit.stand_in(self.folder)
        self.settings = dict(kit.driver_settings(self.folder),
                             NUMBA_CACHE_DIR=os.path.join(self.folder, OWN_CACHE),
                             NUMBA_CUDA_NVRTC_EXTRA_SEARCH_PATHS=self.folder)
        self.group = group
        self.n_runs = 0
        self.clients = tool_clients(self.folder) if group == "tools" \
            else nvrtc_clients(self.folder, library)

    def timed(self, daemon, argv, **settings):
        """Runs a program. Returns its milliseconds from start to end, those on a processor, and its output."""
        self.n_runs += 1  # unless settings name a folder, Triton's own cache is empty each time
        settings = {"TRITON_CACHE_DIR": os.path.join(self.folder, f"triton{self.n_runs}"),
                    **self.settings, **settings}
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = daemon.run(argv, check=False, **settings)
        after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        took_ms = ((end - start) * 1000, cpu * 1000)
        if ran.returncode and argv[-1] != "default":
            raise SystemExit(f"{argv}: {ran.stderr[-1000:]}")
        return took_ms, ran.stdout

    def measure(self, client, times):
        def note(what, took_ms):
            times.setdefault(what, []).append(took_ms)
        with kit.Daemon() as daemon:
            note("imports", self.timed(daemon, client.imports, warm=False)[0])
            took, plain = self.timed(daemon, client.argv, warm=False)
            note("without", took)
            for what in "cold", "warm":
                took, out = self.timed(daemon, client.argv)
                note(what, took)
                assert out == plain, f"{client.name}: {what} is not the same"
            if client.own:
                cache = {"warm": False, "TRITON_CACHE_DIR": os.path.join(self.folder, "own.triton")}
                self.timed(daemon, client.own, **cache)
                note("own cache", self.timed(daemon, client.own, **cache)[0])
            elif kit.REAL_DRIVER:
                cache = {"CUDA_CACHE_DISABLE": 0, "warm": False,
                         "CUDA_CACHE_PATH": os.path.join(self.folder, "driver.cache")}
                self.timed(daemon, client.argv, **cache)
                note("own cache", self.timed(daemon, client.argv, **cache)[0])

    def run(self):
        all_times = {client.name: {} for client in self.clients}
        for _ in range(ROUNDS):
            for client in self.clients:
                self.measure(client, all_times[client.name])
        for name, times in all_times.items():
            wall, cpu = ({c: statistics.median(t[i] for t in times[c]) for c in times}
                         for i in range(2))
            cells = [f"{wall[c]:.0f} ({cpu[c]:.0f})" if c in wall else "–" for c in COLUMNS]
            print(f"| {name}{', CUDA 12.9' if self.group == 'nvrtc12' else ''} | " + " | ".join(cells) +
                  f" | {wall['without'] / wall['warm']:.1f} |", flush=True)
        self.keeper.__exit__()


if __name__ == "__main__":
    if sys.argv[1] == "head":
        print(f"whole programs, ms (of these on a processor), medians of {ROUNDS}\n{HEAD}")
    else:
        Bench(*sys.argv[1:]).run()
