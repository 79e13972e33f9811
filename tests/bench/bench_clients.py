# SPDX-License-Identifier: Apache-2.0
"""bench_clients.py LIBNVRTC: whole programs that compile, from start to end, in milliseconds, and in
brackets those of processor time that they took themselves (what the daemon took is not in it).

Each round starts every program without warm, with an empty store, with the store of a moment ago, and
where the program has a cache of its own, a second time with that; the table has medians of the
rounds. "imports" is the same program without its compiles: no cache can make it faster. NVRTC's own
cache needs a real driver: WARM_TEST_LIBCUDA=1.
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

CUDA_CORE_CACHED = programs.MANY.replace(
    "for i in", "from cuda.core.utils import FileStreamProgramCache\n"
    f"cache = FileStreamProgramCache(os.path.join(folder, '{OWN_CACHE}'))\nfor i in").replace(
    'compile("cubin")', 'compile("cubin", cache=cache)')
# numba-cuda's cache takes no kernel that is linked with something.
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
NUMBA_CACHED = NUMBA_ALONE.replace('[:])")', '[:])", cache=True)')


class Client:
    """A program, and the same with its own cache if it has one."""

    def __init__(self, name, folder, text=None, own=None, argv=None):
        self.name = name
        self.argv = argv or self.script(folder, "program", text)
        self.imports = argv and [*argv[:-2], "nowhere", "default"]
        if text:
            imports = "\n".join(re.findall(r"(?m)^(?:from|import) .*", text))
            self.imports = self.script(folder, "imports", imports)
        self.own = own and self.script(folder, "own", own)

    def script(self, folder, kind, text):
        path = os.path.join(folder, f"{re.sub('[^a-z0-9]', '_', self.name.lower())}_{kind}.py")
        with open(path, "w") as f:
            f.write(text)
        return [sys.executable, path, folder]


def build_client(folder, library, linked):
    source = os.path.join(kit.ROOT, "tests/programs/nvrtc_client.c")
    path = os.path.join(folder, "linked" if linked else "client")
    where = os.path.dirname(library)
    link = ["-DLINKED", f"-L{where}", f"-l:{os.path.basename(library)}",
            f"-Wl,-rpath,{where}"] if linked else []
    subprocess.run(["cc", "-D_GNU_SOURCE", "-std=c11", "-O1", "-pthread", "-o", path, source, *link,
                    "-ldl"], check=True)
    return [path, library, "simple"]


class Bench:
    def __init__(self, library):
        self.keeper = kit.Folder()
        self.folder = self.keeper.__enter__()
        for name, text in (("scale.h", "#define SCALE 2\n"), ("extra.cu", programs.EXTRA)):
            with open(os.path.join(self.folder, name), "w") as f:
                f.write(text)
        kit.stand_in(self.folder)
        self.settings = dict(kit.driver_settings(self.folder),
                             NUMBA_CACHE_DIR=os.path.join(self.folder, OWN_CACHE),
                             NUMBA_CUDA_NVRTC_EXTRA_SEARCH_PATHS=self.folder)
        self.clients = [
            Client("C, dlopen", self.folder, argv=build_client(self.folder, library, False)),
            Client("C, linked", self.folder, argv=build_client(self.folder, library, True)),
            Client("cuda.bindings", self.folder, programs.CUDA_BINDINGS),
            Client("cuda.core", self.folder, programs.CUDA_CORE),
            Client("cuda.core, 24 kernels", self.folder, programs.MANY, CUDA_CORE_CACHED),
            Client("CuPy", self.folder, programs.CUPY),
            Client("nvJitLink", self.folder, programs.NVJITLINK),
            Client("numba-cuda, linked with CUDA C++", self.folder, programs.NUMBA),
            Client("numba-cuda, one kernel", self.folder, NUMBA_ALONE, NUMBA_CACHED)]

    def timed(self, daemon, argv, **settings):
        """Milliseconds from start to end, those on a processor, and what it printed."""
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = daemon.run(argv, check=False, **dict(self.settings, **settings))
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
                self.timed(daemon, client.own, warm=False)
                took, out = self.timed(daemon, client.own, warm=False)
                note("own cache", took)
            elif kit.REAL_DRIVER:
                cache = {"CUDA_CACHE_DISABLE": 0, "warm": False,
                         "CUDA_CACHE_PATH": os.path.join(self.folder, "driver.cache")}
                self.timed(daemon, client.argv, **cache)
                note("own cache", self.timed(daemon, client.argv, **cache)[0])

    def run(self):
        columns = ("imports", "without", "cold", "warm", "own cache")
        all_times = {client.name: {} for client in self.clients}
        for _ in range(ROUNDS):
            for client in self.clients:
                self.measure(client, all_times[client.name])
        print(f"whole programs, ms, medians of {ROUNDS}")
        print("| program | imports alone | without warm | cold | warm | own cache | without : warm |")
        print("|---|---|---|---|---|---|---|")
        for name, times in all_times.items():
            wall, cpu = ({c: statistics.median(t[i] for t in times[c]) for c in times}
                         for i in range(2))
            cells = [f"{wall[c]:.0f} ({cpu[c]:.0f})" if c in wall else "–" for c in columns]
            print(f"| {name} | " + " | ".join(cells) +
                  f" | {wall['without'] / wall['warm']:.2f} |", flush=True)
        self.keeper.__exit__()


if __name__ == "__main__":
    Bench(sys.argv[1]).run()
