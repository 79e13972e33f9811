# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver's JIT compiler under `warm run`. cuda.bindings and cuda.core find the driver through
cuGetProcAddress. They load PTX in one process, and its cubin in the next.

They run on a stand-in for libcuda.so.1 (tests/fakecuda), which logs what it does. With WARM_TEST_LIBCUDA=1
they run on the real driver, and only results are checked.
"""

import os

import kit

PTX = kit.PTX_TWICE.replace("b'''", "b'''// NUMBER\\n") + """
import os
PTX = PTX.replace(b"NUMBER", str(os.getpid()).encode())  # another text each time, the same program
"""

BINDINGS = PTX + """
import numpy as np
from cuda.bindings import driver

def check(result):
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]

check(driver.cuInit(0))
device = check(driver.cuDeviceGet(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
module = check(driver.cuModuleLoadData(PTX + b"\\0"))
twice = check(driver.cuModuleGetFunction(module, b"twice"))
data = np.arange(1, 5, dtype="f4")
memory = check(driver.cuMemAlloc(data.nbytes))
check(driver.cuMemcpyHtoD(memory, data.ctypes.data, data.nbytes))
argument = np.array([int(memory)], dtype=np.uint64)
arguments = np.array([argument.ctypes.data], dtype=np.uint64)
check(driver.cuLaunchKernel(twice, 1, 1, 1, 4, 1, 1, 0, 0, arguments.ctypes.data, 0))
check(driver.cuMemcpyDtoH(data.ctypes.data, memory, data.nbytes))
print(data)
"""

CORE = PTX + """
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch

device = Device()
device.set_current()
twice = ObjectCode.from_ptx(PTX).get_kernel("twice")
data = np.arange(1, 5, dtype="f4")
memory = driver.cuMemAlloc(data.nbytes)[1]
driver.cuMemcpyHtoD(memory, data.ctypes.data, data.nbytes)
stream = device.create_stream()
launch(stream, LaunchConfig(grid=1, block=4), twice, int(memory))
stream.sync()
driver.cuMemcpyDtoH(data.ctypes.data, memory, data.nbytes)
print(data)
"""

# Without nvJitLink cuda.core links through the driver.
LINKER = PTX.replace("str(os.getpid()).encode()", "b'1'") + """
from cuda.core import Device, Linker, LinkerOptions, ObjectCode

device = Device()
device.set_current()
arch = "sm_%d%d" % tuple(device.compute_capability)
code = Linker(ObjectCode.from_ptx(PTX), options=LinkerOptions(arch=arch)).link("cubin")
code.get_kernel("twice")
print(len(code.code))
"""


class Driver(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.notes = os.path.join(self.daemon.folder, "notes")
        kit.stand_in(self.daemon.folder)

    def run_program(self, program, **settings):
        """Runs a program. Returns its output, and the number of runs of the driver's compiler."""
        open(self.notes, "w").close()
        settings = kit.driver_settings(self.daemon.folder, FAKECUDA_LOG=self.notes, WARM_DRIVER_JIT=1,
                                       **settings)
        out = self.daemon.run(program, **settings)
        with open(self.notes) as notes:
            return out.stdout, notes.read().split("\n").count("jit")

    def check(self, program):
        plain, _ = self.run_program(program, WARM_DISABLE=1)
        cold, n_cold = self.run_program(program)
        warm, n_warm = self.run_program(program)
        self.assertEqual((cold, warm), (plain, plain))
        if not kit.REAL_DRIVER:
            self.assertEqual((n_cold, n_warm), (1, 0))
            another, n_another = self.run_program(program, FAKECUDA_CC="100")
            self.assertEqual(n_another, 1)
        self.daemon.kill()
        self.assertEqual(self.run_program(program, WARM_SOCKET="/nowhere/warmd.sock")[0], plain)

    def test_cuda_bindings_module(self):
        self.check(BINDINGS)

    def test_cuda_core_object_code(self):
        self.check(CORE)

    def test_cuda_core_linker(self):
        self.check(LINKER)


if __name__ == "__main__":
    kit.main()
