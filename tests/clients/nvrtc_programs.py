# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs that compile with NVRTC, nvJitLink and libNVVM. They print the same with warm as without it,
and start warm.

Each program prints one line with a digest for each artifact that it made. Its first argument is a folder
with `scale.h`. Kernels are for sm_90. Without a GPU the programs find the stand-in for libcuda.so.1
(kit.stand_in). NVRTC is 13.x here, and 12.x in nvrtc12_programs.py.
"""

import os

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
compiled(SAXPY, "cubin", lineinfo=True, name="/src/saxpy.cu")  # without a name it would get a random one
compiled(SAXPY, "ptx")
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

# CuPy's own calls of NVRTC, without those that need a GPU. Its programs are named for a temporary folder.
CUPY = PRELUDE + """
import glob, tempfile
from cupy.cuda import compiler
root = os.path.realpath(os.path.join(os.path.dirname(compiler.__file__), "..", "_core", "include"))
packages = os.path.join(sys.prefix, "lib", "python3*", "site-packages", "nvidia")
toolkit = [folder for place in ("cu13/include", "cu13/include/cccl", "cuda_runtime/include",
                                "cuda_cccl/include")
           for folder in glob.glob(os.path.join(packages, place))]
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
                                         name_expressions=names or None, method="cubin")
        made, mapping = program.compile(("-arch=sm_90", "-ftz=true", "--pch", *options))
        show("cubin", made)
        for name, lowered in sorted((mapping or {}).items()):
            show(name, lowered)
compiled(UFUNC, "--device-as-default-execution-space", "-I" + root, *["-I" + f for f in toolkit])
compiled(SAXPY)
compiled(NAMES, names=("scale<float, 2>",))
compiled(HEADER, "-I" + folder)
"""
NVJITLINK = PRELUDE + """
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
linked(nvjitlink.InputType.PTX, ["-arch=sm_80", "-O0"],
       ptx_of(SAXPY, b"-arch=compute_80"), ptx_of(NAMES, b"-arch=compute_80"))
linked(nvjitlink.InputType.LTOIR, ["-arch=sm_90", "-lto"], ptx_of(SAXPY, b"-arch=sm_90", b"-dlto"))
try:
    linked(nvjitlink.InputType.PTX, ["-arch=sm_90"], b"no PTX")
except Exception as e:
    show("error", type(e).__name__)
"""

# Prints whether the log of a link has ptxas's figures of the code, and whether it has the time of a compile.
# Only a real compile can tell the time.
TIMED = """
import sys
from cuda.bindings import nvjitlink
data = open(sys.argv[1] + "/timed.ptx", "rb").read()
handle = nvjitlink.create(2, ["-arch=sm_90", "-Xptxas=-v"])
nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "timed.ptx")
nvjitlink.complete(handle)
log = bytearray(nvjitlink.get_info_log_size(handle))
nvjitlink.get_info_log(handle, log)
nvjitlink.destroy(handle)
print(b"registers" in log, b"time" in log)
"""

# Uses each function of a program: two modules, PTX and LTO IR, compiles that fail, a second compile of one program,
# and a module that comes after a compile.
NVVM = PRELUDE + """
from cuda.bindings import nvvm
def module(name, factor):
    return ('target triple = "nvptx64-nvidia-cuda"\\n'
        'target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-'
        'f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"\\n'
        f'define void @{name}(float* %x) {{ %v = load float, float* %x\\n %w = fmul float %v, {factor}.0\\n'
        ' store float %w, float* %x\\n ret void }\\n'
        f'!nvvm.annotations = !{{!0}}\\n!0 = !{{void (float*)* @{name}, !"kernel", i32 1}}\\n'
        '!nvvmir.version = !{!1}\\n!1 = !{i32 2, i32 0}\\n').encode()
def ask(program, what):
    data = bytearray(getattr(nvvm, f"get_{what}_size")(program))
    if data:
        getattr(nvvm, f"get_{what}")(program, data)
    show(what, data)
def compiled(options, *modules, lazy=None, verify=True, again=None, late=None):
    program = nvvm.create_program()
    for i, data in enumerate(modules):
        nvvm.add_module_to_program(program, data, len(data), f"module{i}")
    if lazy:
        nvvm.lazy_add_module_to_program(program, lazy, len(lazy), "lazy")
    if verify:
        nvvm.verify_program(program, len(options), options)
    for options in [options] if again is None else [options, again]:
        nvvm.compile_program(program, len(options), options)
        ask(program, "compiled_result")
        ask(program, "program_log")
    if late:
        nvvm.add_module_to_program(program, late, len(late), "late")
        nvvm.compile_program(program, len(options), options)
        ask(program, "compiled_result")
    nvvm.destroy_program(program)
compiled(["-arch=compute_90", "-opt=3"], module("k", 2))
compiled(["-arch=compute_90", "-opt=3"], module("k", 3))
compiled(["-arch=compute_90", "-opt=0"], module("k", 2), verify=False)
compiled(["-arch=compute_90"], module("k", 2), module("l", 2), verify=False, again=["-arch=compute_80"])
compiled(["-arch=compute_90"], module("k", 2), late=module("m", 5))
compiled(["-arch=compute_90", "-gen-lto"], module("k", 2))
for modules, lazy in ([b"no module"], None), ([module("k", 2)], module("l", 2)):
    try:
        compiled(["-arch=compute_90"], *modules, lazy=lazy, verify=False)
    except Exception as e:
        show("error", str(e))
"""

# End to end: NVVM, NVRTC for the linked sources, nvJitLink, the driver. The bytes that nvJitLink made show
# what the driver launched.
NUMBA = PRELUDE + """
import numpy as np
from numba import cuda, float32
extra = os.path.join(folder, "extra.cu")
given = cuda.declare_device("given", "float32(float32)", link=extra)
@cuda.jit("void(float32, float32[:], float32[:])")
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]
@cuda.jit("void(float32[:])", link=[extra])
def linked(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = given(x[i])
for kernel in saxpy, linked:
    for signature in kernel.overloads:
        library = kernel.overloads[signature]._codelibrary
        show("ptx", library.get_asm_str(cc=(9, 0)))
        show("cubin", library.get_cubin(cc=(9, 0)).code)
x = np.arange(4, dtype="f4")
saxpy[1, 4](2, x, x)
linked[1, 4](x)
cuda.synchronize()
"""

# One rank of a job. Each rank has its own working folder, and its own names of programs.
RANK = PRELUDE + """
import tempfile
from cuda.bindings import nvrtc
def check(result):
    assert result[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]
scratch = tempfile.mkdtemp()
for i in range(20):
    code = (HEADER if i % 2 else SAXPY).replace("*=", f"*= {i} *").replace("+=", f"+= {i} *")
    name = os.path.join(scratch, "kernel.cu")
    program = check(nvrtc.nvrtcCreateProgram(code.encode(), name.encode(), 0, None, None))
    options = [b"-arch=sm_90", b"-I" + folder.encode()]
    check(nvrtc.nvrtcCompileProgram(program, len(options), options))
    data = bytearray(check(nvrtc.nvrtcGetCUBINSize(program)))
    check(nvrtc.nvrtcGetCUBIN(program, data))
    show("cubin", data)
"""

MANY = PRELUDE + """
from cuda.core import Program, ProgramOptions
for i in range(24):
    code = SAXPY.replace("a * x[i]", f"{i} * a * x[i]")
    show("cubin", Program(code, "c++", ProgramOptions(arch="sm_90")).compile("cubin").code)
"""

PROGRAMS = {"cuda.core": CUDA_CORE, "cuda.bindings": CUDA_BINDINGS, "CuPy": CUPY,
            "nvJitLink": NVJITLINK, "libNVVM": NVVM, "numba": NUMBA}
FOLDER_SHOWS = ("cuda.core", "nvJitLink", "numba")  # LTO IR holds the working folder
LINKED = ("nvJitLink", "numba")  # programs that use nvJitLink
WITH_HEADER = ("cuda.core", "cuda.bindings", "CuPy", "numba")
EXTRA = """#include "scale.h"
extern "C" __device__ int given(float *out, float v) { *out = SCALE * v; return 0; }
"""


def made(daemon):
    """Returns how many artifacts this daemon compiled or took from clients."""
    counters = daemon.stats()
    return counters["compiles"] + counters["puts"]


class Programs(kit.TestCase):
    def setUp(self):
        keeper = kit.Folder()
        self.folder = keeper.__enter__()
        self.addCleanup(keeper.__exit__)
        self.elsewhere = os.path.join(self.folder, "elsewhere")
        os.mkdir(self.elsewhere)
        self.write("extra.cu", EXTRA)
        self.write("scale.h", "#define SCALE 2\n")
        kit.stand_in(self.folder)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def output(self, daemon, program, **settings):
        return daemon.run(program, self.folder, **self.settings(settings)).stdout

    def settings(self, settings):
        return dict(kit.driver_settings(self.folder),
                    NUMBA_CUDA_NVRTC_EXTRA_SEARCH_PATHS=self.folder, **settings)

    def check_warm(self, name):
        """Checks that a program makes the same bytes cold, warm, warm from another folder, and without warm."""
        program = PROGRAMS[name]
        with kit.Daemon() as daemon:
            plain = self.output(daemon, program, warm=False)
            self.assertGreater(len(plain.splitlines()), 1)
            self.assertEqual(plain, self.output(daemon, program), "cold")
            n = made(daemon)
            self.assertGreater(n, 0, "nothing was asked of the daemon")
            if name in LINKED:
                self.assertIn("nvJitLink", daemon.warm("ls"), "no link was kept")
            hits = daemon.stats("hits")
            self.assertEqual(plain, self.output(daemon, program), "warm")
            self.assertEqual(made(daemon), n, "a fresh process found something missing")
            self.assertGreater(daemon.stats("hits"), hits)
            hits = daemon.stats("hits")
            there = self.output(daemon, program, warm=False, cwd=self.elsewhere)
            self.assertEqual(there, self.output(daemon, program, cwd=self.elsewhere), "elsewhere")
            if name not in FOLDER_SHOWS:
                self.assertGreater(daemon.stats("hits"), hits)
                self.assertEqual(plain, there)
                self.assertEqual(made(daemon), n, "another folder found something missing")
            n = made(daemon)
            hits = daemon.stats("hits")
            off = self.output(daemon, program, WARM_DISABLE="1")
            self.assertEqual(plain, off, "WARM_DISABLE=1")
            self.assertEqual((made(daemon), daemon.stats("hits")), (n, hits))
            daemon.kill()
            self.assertEqual(plain, self.output(daemon, program), "no daemon")

    def test_cuda_core(self):
        self.check_warm("cuda.core")

    def test_cuda_bindings(self):
        self.check_warm("cuda.bindings")

    def test_cupy(self):
        self.check_warm("CuPy")

    def test_nvjitlink(self):
        self.check_warm("nvJitLink")

    def test_libnvvm(self):
        self.check_warm("libNVVM")

    def test_an_environment_that_changes_libnvvm_is_passed_on(self):
        with kit.Daemon() as daemon:
            plain = self.output(daemon, NVVM, warm=False, LIBNVVM_NVVM_VERSION="2.0")
            self.assertEqual(plain, self.output(daemon, NVVM, LIBNVVM_NVVM_VERSION="2.0"))
            self.assertEqual(made(daemon), 0)

    def test_a_hit_says_no_time(self):
        self.write("timed.ptx", ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
        with kit.Daemon() as daemon:
            self.assertEqual(self.output(daemon, TIMED), "True True\n")
            self.assertEqual(self.output(daemon, TIMED), "True False\n")

    def test_numba(self):
        self.check_warm("numba")

    def test_a_changed_header_is_a_miss_and_a_touched_one_a_hit(self):
        for name in WITH_HEADER:
            with self.subTest(name), kit.Daemon() as daemon:
                self.write("scale.h", "#define SCALE 2\n")
                first = self.output(daemon, PROGRAMS[name])
                n = made(daemon)
                os.utime(os.path.join(self.folder, "scale.h"))
                self.assertEqual(first, self.output(daemon, PROGRAMS[name]))
                self.assertEqual(made(daemon), n, "a touched header is a miss")
                self.write("scale.h", "#define SCALE 7\n")
                plain = self.output(daemon, PROGRAMS[name], warm=False)
                self.assertNotEqual(first, plain)
                self.assertEqual(plain, self.output(daemon, PROGRAMS[name]))
                self.assertGreater(made(daemon), n, "a changed header is a hit")

    def check_interrupted(self, program, interrupt):
        with kit.Daemon() as daemon:
            plain = self.output(daemon, program, warm=False)
            with daemon.spawn(program, self.folder, **self.settings({})) as running:
                head = running.stdout.readline()
                interrupt(daemon)
                rest, error = running.stdout.read(), running.stderr.read()
            self.assertEqual(running.returncode, 0, error)
            self.assertEqual(plain, head + rest)

    def test_a_daemon_that_hangs_is_done_without(self):
        self.check_interrupted(MANY, kit.Daemon.suspend)

    def test_a_daemon_killed_in_the_middle_is_done_without(self):
        for name, program in dict(PROGRAMS, many=MANY).items():
            with self.subTest(name):
                self.check_interrupted(program, kit.Daemon.kill)

    def rank_settings(self, i):
        place = os.path.join(self.folder, f"rank{i}")
        os.mkdir(place)
        return self.settings({"cwd": place, "TMPDIR": place, "RANK": i, "LOCAL_RANK": i,
                              "CUDA_VISIBLE_DEVICES": i, "WORLD_SIZE": 8})

    def test_ranks_that_start_together_compile_once(self):
        with kit.Daemon() as daemon:
            plain = self.output(daemon, RANK, warm=False)
            ranks = [daemon.spawn(RANK, self.folder, **self.rank_settings(i)) for i in range(8)]
            for rank in ranks:
                out, error = rank.communicate(timeout=kit.RUN_S)
                self.assertEqual(rank.returncode, 0, error)
                self.assertEqual(plain, out)
            self.assertEqual(daemon.stats("compiles"), 20)


if __name__ == "__main__":
    kit.main()
