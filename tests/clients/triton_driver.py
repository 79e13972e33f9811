# SPDX-License-Identifier: Apache-2.0
"""Triton's own driver module under `warm run`: cuda_utils.so is linked with libcuda.so.1 and loaded RTLD_LOCAL, as all
extension modules of Python. It loads and launches a kernel on the stand-in for a driver."""

import kit
from transparent import ALL, Transparent

LAUNCH = """
import ctypes
import triton, triton.language as tl
from triton.runtime import driver

@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

class Memory:
    dtype = "float32"
    def __init__(self, n):
        at = ctypes.c_ulonglong()
        assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4 * n)) == 0
        self.at = at.value
    def data_ptr(self):
        return self.at

print(driver.active.get_current_target(), driver.active.get_current_device())
cuda = ctypes.CDLL("libcuda.so.1")
x = Memory(1000)
for block in 128, 256:
    kernel = add_one[(-(-1000 // block),)](x, 1000, BLOCK=block)
    print(kernel.n_regs, kernel.n_spills, kernel.metadata.shared, len(kernel.asm["cubin"]))
"""


class Driver(Transparent):
    def test_a_kernel_is_launched(self):
        # a script, because Triton reads the source of its kernels from their file
        path = self.daemon.folder + "/launch.py"
        with open(path, "w") as f:
            f.write(LAUNCH)
        self.check([kit.sys.executable, path], modes=ALL, needs=("cuModuleLoadData", "cuLaunchKernelEx"))


if __name__ == "__main__":
    kit.main()
