# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs that compile with NVRTC and nvJitLink: with warm as without it, and warm.

Each program prints one line for each thing it made, with a digest, and knows nothing of warm. Its
first argument is a folder with `scale.h`.
"""

import os
import sys
import time

import kit

PRELUDE = """
import hashlib, os, sys
folder = sys.argv[1]
def show(what, data):
    if not isinstance(data, (bytes, bytearray)):
        data = str(data).encode()
    print(what, len(data), hashlib.sha256(data).hexdigest(), flush=True)
SAXPY = '''
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{ int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) y[i] += a * x[i]; }
'''
NAMES = '''
template <class T, int N> __global__ void scale(T *x) { x[threadIdx.x] *= N; }
'''
HEADER = '''
#include "scale.h"
extern "C" __global__ void scaled(float *x) { x[threadIdx.x] *= SCALE; }
'''
"""

CUDA_CORE = PRELUDE + """
from cuda.core import Program, ProgramOptions
def compiled(code, kind, names=(), **options):
    program = Program(code, "c++", ProgramOptions(arch="sm_90", **options))
    made = program.compile(kind, name_expressions=names)
    show(kind, made.code)
    for name in names:
        show(name, made.symbol_mapping[name])
compiled(SAXPY, "cubin")
compiled(SAXPY, "cubin", lineinfo=True)
compiled(SAXPY, "ltoir", link_time_optimization=True)
compiled(NAMES, "cubin", names=("scale<float, 2>", "scale<double, 3>"))
compiled(HEADER, "cubin", include_path=folder)
try:
    compiled("no CUDA", "cubin")
except Exception as e:
    show("error", type(e).__name__)
"""

CUDA_BINDINGS = PRELUDE + """
from cuda.bindings import nvrtc
def check(result):
    assert result[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]
def compiled(code, *options, names=()):
    program = check(nvrtc.nvrtcCreateProgram(code.encode(), b"k.cu", 0, None, None))
    for name in names:
        check(nvrtc.nvrtcAddNameExpression(program, name))
    rc, = nvrtc.nvrtcCompileProgram(program, len(options), list(options))
    show("rc", int(rc))
    for name in names:
        show("name", check(nvrtc.nvrtcGetLoweredName(program, name)))
    for what in "ProgramLog", "PTX", "CUBIN", "LTOIR", "OptiXIR":
        data = bytearray(check(getattr(nvrtc, f"nvrtcGet{what}Size")(program)))
        check(getattr(nvrtc, "nvrtcGet" + what)(program, data))
        show(what, data)
    nvrtc.nvrtcDestroyProgram(program)
compiled(SAXPY, b"--gpu-architecture=sm_90")
compiled(SAXPY, b"--gpu-architecture=compute_90")
compiled(NAMES, b"-arch=sm_80", names=(b"scale<float, 2>",))
compiled(HEADER, b"-arch=sm_80", b"-I" + folder.encode())
compiled("wrong", b"-arch=sm_80")
"""

# CuPy's own way to NVRTC, below what needs a GPU. The name of its programs is a temporary folder's.
CUPY = PRELUDE + """
import tempfile
from cupy.cuda import compiler
root = os.path.join(os.path.dirname(compiler.__file__), "..", "_core", "include")
UFUNC = '''
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/atomics.cuh>
extern "C" __global__ void add(CArray<float, 1, true, true> x, CArray<float, 1, true, true> y)
{ ptrdiff_t i = threadIdx.x; y[i] += x[i]; }
'''
def compiled(code, *options, names=()):
    with tempfile.TemporaryDirectory() as scratch:
        program = compiler._NVRTCProgram(code, os.path.join(scratch, "kernel.cubin.cu"),
                                         name_expressions=names or None)
        made, mapping = program.compile(("-arch=sm_90", "-ftz=true", "--pch", *options))
        show("cubin", made)
        for name, lowered in sorted((mapping or {}).items()):
            show(name, lowered)
compiled(UFUNC, "-I" + os.path.realpath(root), "--device-as-default-execution-space",
         "-I" + os.path.join(os.path.dirname(sys.modules["nvidia"].__path__[0])
                             if "nvidia" in sys.modules else sys.prefix, "unused"),
         *["-I" + p for p in TOOLKIT])
compiled(SAXPY)
compiled(NAMES, names=("scale<float, 2>",))
compiled(HEADER, "-I" + folder)
"""
CUPY = CUPY.replace("import tempfile", """import glob, tempfile
TOOLKIT = glob.glob(os.path.join(sys.prefix, "lib", "python3*", "site-packages", "nvidia", "cu13",
                                 "include")) + \\
    glob.glob(os.path.join(sys.prefix, "lib", "python3*", "site-packages", "nvidia", "cu13",
                           "include", "cccl"))""")

NVJITLINK = PRELUDE + """
from cuda.core import Linker, LinkerOptions, ObjectCode
from cuda.bindings import nvjitlink, nvrtc
def ptx_of(code, *options):
    _, program = nvrtc.nvrtcCreateProgram(code.encode(), b"k.cu", 0, None, None)
    nvrtc.nvrtcCompileProgram(program, len(options), list(options))
    what = "LTOIR" if b"-dlto" in options else "PTX"
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    data = bytearray(size)
    getattr(nvrtc, "nvrtcGet" + what)(program, data)
    return bytes(data)
def linked(kind, options, *inputs):
    handle = nvjitlink.create(len(options), options)
    for i, data in enumerate(inputs):
        nvjitlink.add_data(handle, kind, data, len(data), f"input{i}")
    nvjitlink.complete(handle)
    cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, cubin)
    show("cubin", cubin)
    for what in "info", "error":
        log = bytearray(getattr(nvjitlink, f"get_{what}_log_size")(handle) + 1)
        getattr(nvjitlink, f"get_{what}_log")(handle, log)
        show(what, log)
    nvjitlink.destroy(handle)
linked(nvjitlink.InputType.PTX, ["-arch=sm_90"], ptx_of(SAXPY, b"-arch=compute_90"))
linked(nvjitlink.InputType.PTX, ["-arch=sm_80", "-O1"],
       ptx_of(SAXPY, b"-arch=compute_80"), ptx_of(NAMES, b"-arch=compute_80"))
linked(nvjitlink.InputType.LTOIR, ["-arch=sm_90", "-lto"], ptx_of(SAXPY, b"-arch=sm_90", b"-dlto"))
try:
    linked(nvjitlink.InputType.PTX, ["-arch=sm_90"], b"no PTX")
except Exception as e:
    show("error", type(e).__name__)
"""

NUMBA = PRELUDE + """
from numba import cuda, float32, int32
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]
def rows(x, out):
    total = float32(0)
    for i in range(x.shape[1]):
        total += x[cuda.threadIdx.x, i]
    out[cuda.threadIdx.x] = total
for function, signature in ((saxpy, (float32, float32[:], float32[:])),
                            (rows, (float32[:, :], float32[:]))):
    ptx, result = cuda.compile_ptx(function, signature, cc=(9, 0))
    show("ptx", ptx)
    from cuda.bindings import nvjitlink
    data = ptx.encode()
    handle = nvjitlink.create(1, ["-arch=sm_90"])
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "numba")
    nvjitlink.complete(handle)
    cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, cubin)
    show("cubin", cubin)
    nvjitlink.destroy(handle)
"""

MANY = PRELUDE + """
from cuda.core import Program, ProgramOptions
for i in range(24):
    code = SAXPY.replace("a * x[i]", f"{i} * a * x[i]")
    show("cubin", Program(code, "c++", ProgramOptions(arch="sm_90")).compile("cubin").code)
"""

PROGRAMS = {"cuda.core": CUDA_CORE, "cuda.bindings": CUDA_BINDINGS, "CuPy": CUPY,
            "nvJitLink": NVJITLINK, "numba": NUMBA}
WITH_HEADER = ("cuda.core", "cuda.bindings", "CuPy")


def made(daemon):
    """How often something was made for this daemon: compiles, and what clients put."""
    counters = daemon.stats()
    return counters["compiles"] + counters["puts"]


class Programs(kit.TestCase):
    def setUp(self):
        self.folder_keeper = kit.Folder()
        self.folder = self.folder_keeper.__enter__()
        self.addCleanup(self.folder_keeper.__exit__)
        self.header = os.path.join(self.folder, "scale.h")
        self.write_header("#define SCALE 2\n")

    def write_header(self, text):
        with open(self.header, "w") as f:
            f.write(text)

    def check_warm(self, name):
        """Cold, warm in a fresh process, warm from another folder, and off: the same bytes."""
        program = PROGRAMS[name]
        with kit.Daemon() as daemon, kit.Folder() as elsewhere:
            plain = daemon.run(program, self.folder, warm=False).stdout
            self.assertGreater(len(plain.splitlines()), 1)
            cold = daemon.run(program, self.folder).stdout
            self.assertEqual(plain, cold, "cold")
            self.assertGreater(made(daemon), 0, "nothing was asked of the daemon")
            n = made(daemon)
            hits = daemon.stats("hits")
            self.assertEqual(plain, daemon.run(program, self.folder).stdout, "warm")
            self.assertEqual(made(daemon), n, "a fresh process found something missing")
            self.assertGreater(daemon.stats("hits"), hits)
            self.assertEqual(plain, daemon.run(program, self.folder, cwd=elsewhere).stdout)
            if name != "CuPy":
                self.assertEqual(made(daemon), n, "another folder found something missing")
            hits = daemon.stats("hits")
            off = daemon.run(program, self.folder, WARM_DISABLE="1").stdout
            self.assertEqual(plain, off, "WARM_DISABLE=1")
            self.assertEqual((made(daemon), daemon.stats("hits")), (n, hits))

    def test_cuda_core(self):
        self.check_warm("cuda.core")

    def test_cuda_bindings(self):
        self.check_warm("cuda.bindings")

    def test_cupy(self):
        self.check_warm("CuPy")

    def test_nvjitlink(self):
        self.check_warm("nvJitLink")

    def test_numba(self):
        self.check_warm("numba")

    def test_a_changed_header_is_a_miss_and_a_touched_one_a_hit(self):
        for name in WITH_HEADER:
            with self.subTest(name), kit.Daemon() as daemon:
                self.write_header("#define SCALE 2\n")
                first = daemon.run(PROGRAMS[name], self.folder).stdout
                n = made(daemon)
                os.utime(self.header)
                self.assertEqual(first, daemon.run(PROGRAMS[name], self.folder).stdout)
                self.assertEqual(made(daemon), n, "a touched header is a miss")
                self.write_header("#define SCALE 7\n")
                plain, warm = daemon.run_both(PROGRAMS[name], self.folder)
                self.assertNotEqual(first, plain.stdout)
                self.assertEqual(plain.stdout, warm.stdout)
                self.assertGreater(made(daemon), n, "a changed header is a hit")

    def test_a_daemon_killed_in_the_middle_is_done_without(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(MANY, self.folder, warm=False).stdout
            running = daemon.spawn(MANY, self.folder)
            head = running.stdout.readline()
            daemon.kill()
            rest, error = running.communicate(timeout=kit.RUN_S)
            self.assertEqual(running.returncode, 0, error)
            self.assertEqual(plain, head + rest)

    def test_a_daemon_that_hangs_is_done_without(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(MANY, self.folder, warm=False).stdout
            running = daemon.spawn(MANY, self.folder)
            head = running.stdout.readline()
            daemon.suspend()
            rest, error = running.communicate(timeout=kit.RUN_S)
            daemon.resume()
            self.assertEqual(running.returncode, 0, error)
            self.assertEqual(plain, head + rest)

    def test_ranks_that_start_together_compile_once(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(MANY, self.folder, warm=False).stdout
            ranks = [daemon.spawn(MANY, self.folder, RANK=i, CUDA_VISIBLE_DEVICES=i)
                     for i in range(8)]
            for rank in ranks:
                out, error = rank.communicate(timeout=kit.RUN_S)
                self.assertEqual(rank.returncode, 0, error)
                self.assertEqual(plain, out)
            self.assertEqual(daemon.stats("compiles"), len(plain.splitlines()))


if __name__ == "__main__":
    kit.main()
