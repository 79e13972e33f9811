# SPDX-License-Identifier: Apache-2.0
"""Programs that compile with NVRTC or link with nvJitLink, and then load and launch what came of it on the stand-in for
a driver. What they compile is served; what they ask of the driver is the same.

CuPy's RawKernel asks NVIDIA's runtime for the number of devices first. The runtime asks the driver for tables of
functions that NVIDIA does not document, and the stand-in has none: there it ends, with warm as without it.
"""

import glob
import os
import subprocess
import sys
import unittest
import zipfile

import kit
from transparent import Transparent

LAUNCH = """
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, ObjectCode, Program, ProgramOptions, launch
device = Device()
device.set_current()
def run(kernel):
    print(kernel.attributes.num_regs)
    memory = driver.cuMemAlloc(16)[1]
    driver.cuMemcpyHtoD(memory, np.arange(1, 5, dtype="f4").ctypes.data, 16)
    stream = device.create_stream()
    launch(stream, LaunchConfig(grid=1, block=4), kernel, int(memory))
    stream.sync()
    data = np.empty(4, dtype="f4")
    driver.cuMemcpyDtoH(data.ctypes.data, memory, 16)
    print(data)
TWICE = 'extern "C" __global__ void twice(float *p) { p[threadIdx.x] *= 2; }'
"""

PROGRAM = LAUNCH + """
made = Program(TWICE, "c++", ProgramOptions(arch="sm_90")).compile("cubin")
run(made.get_kernel("twice"))
scale = "template <class T> __global__ void scale(T *p) { p[0] *= 3; }"
made = Program(scale, "c++", ProgramOptions(arch="sm_90")).compile("cubin", name_expressions=("scale<float>",))
run(made.get_kernel("scale<float>"))
"""

LINKER = LAUNCH + """
other = "__device__ float factor() { return 2; }"
code = [Program(text, "c++", ProgramOptions(arch="sm_90", relocatable_device_code=True)).compile("ptx")
        for text in ("__device__ float factor();" + TWICE.replace("2;", "factor();"), other)]
run(Linker(*code, options=LinkerOptions(arch="sm_90")).link("cubin").get_kernel("twice"))
"""

# A function of another file, which numba links with its kernel.
NUMBA = """
import sys, warnings
import numpy as np
from numba import cuda
warnings.simplefilter("ignore")
factor = cuda.declare_device("factor", "float32(float32)", link=sys.argv[1])
@cuda.jit
def twice(x):
    x[cuda.threadIdx.x] *= factor(x[0])
data = cuda.to_device(np.arange(4, dtype="f4"))
twice[1, 4](data)
cuda.synchronize()
print(data.copy_to_host())
"""

CUPY = """
import cupy
try:
    cupy.RawKernel('extern "C" __global__ void twice(float *p) { p[threadIdx.x] *= 2; }', "twice").compile()
except cupy.cuda.runtime.CUDARuntimeError as e:
    print(e)
"""

# PyTorch's table of functions: libcaffe2_nvrtc.so is linked with NVRTC and the driver, and PyTorch loads it RTLD_LOCAL.
# It compiles, loads and launches a kernel as PyTorch's jiterator does.
TABLE = """
import ctypes, sys
P = ctypes.c_void_p
library = ctypes.CDLL(sys.argv[1])
library.load_nvrtc.restype = ctypes.POINTER(P)
table = library.load_nvrtc()
class Symbol(ctypes.Structure):  # Dl_info
    _fields_ = [("file", ctypes.c_char_p), ("base", P), ("name", ctypes.c_char_p), ("address", P)]
def name_of(address):
    it = Symbol()
    assert ctypes.CDLL(None).dladdr(P(address), ctypes.byref(it))
    return it.name.decode()
functions = {name_of(table[i]): table[i] for i in range(36)}
print(sorted(functions))
def call(name, *arguments):
    code = ctypes.CFUNCTYPE(ctypes.c_int)(functions[name])(*arguments)
    assert code == 0, (name, code)
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
context, program, module, function = P(), P(), P(), P()
size, memory = ctypes.c_size_t(), ctypes.c_ulonglong()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("nvrtcCreateProgram", ctypes.byref(program),
     b'extern "C" __global__ void twice(float *p) { p[threadIdx.x] *= 2; }', None, 0, None, None)
options = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
call("nvrtcCompileProgram", program, 1, options)
call("nvrtcGetCUBINSize", program, ctypes.byref(size))
cubin = ctypes.create_string_buffer(size.value)
call("nvrtcGetCUBIN", program, cubin)
call("nvrtcDestroyProgram", ctypes.byref(program))
call("cuModuleLoadData", ctypes.byref(module), cubin)
call("cuModuleGetFunction", ctypes.byref(function), module, b"twice")
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(16)) == 0
data = (ctypes.c_float * 4)(1, 2, 3, 4)
cuda.cuMemcpyHtoD_v2(memory, data, ctypes.c_size_t(16))
arguments = (P * 1)(ctypes.addressof(memory))
call("cuLaunchKernel", function, 1, 1, 1, 4, 1, 1, 0, None, arguments, None)
cuda.cuMemcpyDtoH_v2(data, memory, ctypes.c_size_t(16))
call("cuModuleUnload", module)
print(size.value, list(data))
"""

TORCH = "torch==2.12.1"  # its wheel is for CUDA 13
TABLE_LIBRARY = "torch/lib/libcaffe2_nvrtc.so"


def table_library():
    """Returns the path of libcaffe2_nvrtc.so, which it takes out of PyTorch's wheel once; None if that cannot be had."""
    path = os.path.join(sys.prefix, TORCH, os.path.basename(TABLE_LIBRARY))
    if not os.path.exists(path):
        with kit.Folder() as folder:
            got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, TORCH],
                                 timeout=kit.RUN_S)
            if got.returncode:
                return None
            wheel, = glob.glob(os.path.join(folder, "torch-*.whl"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with zipfile.ZipFile(wheel) as whole, open(path + ".part", "wb") as part:
                part.write(whole.read(TABLE_LIBRARY))
            os.rename(path + ".part", path)
    return path


class Driver(Transparent):
    def test_cuda_core_program(self):
        self.check(PROGRAM, needs=("cuLibraryLoadData", "cuLaunchKernelEx"))

    def test_cuda_core_linker_with_nvjitlink(self):
        self.check(LINKER, needs=("cuLibraryLoadData", "cuLaunchKernelEx"))

    def test_numba_links_and_launches(self):
        path = os.path.join(self.daemon.folder, "factor.cu")
        with open(path, "w") as f:
            f.write('extern "C" __device__ int factor(float *out, float x) { *out = 2; return 0; }')
        self.check(NUMBA, path, needs=("cuLibraryLoadData", "cuLaunchKernelEx"))

    def test_cupy_until_it_asks_the_runtime(self):
        self.check(CUPY, needs=("cuInit",))

    def test_torch_table_of_functions(self):
        path = table_library()
        if not path:
            raise unittest.SkipTest("PyTorch's wheel cannot be had")
        nvrtc, = glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/nvidia/cu13/lib"))
        self.check(TABLE, path, needs=("cuModuleLoadData", "cuLaunchKernel"),
                   LD_LIBRARY_PATH=f"{self.daemon.folder}:{nvrtc}")


if __name__ == "__main__":
    kit.main()
