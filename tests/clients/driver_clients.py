# SPDX-License-Identifier: Apache-2.0
"""cuda.bindings and cuda.core find the driver's functions through cuGetProcAddress. They see the driver's own answers
under `warm run`; a link alone is served."""

import kit
from transparent import ALL, LINK, Transparent

PTX = kit.PTX_TWICE

# Each way to load PTX, with the logs that the driver writes; and PTX that does not compile.
BINDINGS = PTX + """
import numpy as np
from cuda.bindings import driver

def check(result):
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]

option = driver.CUjit_option
def logs():
    buffer = bytearray(100)
    return buffer, [option.CU_JIT_INFO_LOG_BUFFER, option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES], [buffer, len(buffer)]

def run(module):
    twice = check(driver.cuModuleGetFunction(module, b"twice"))
    registers = check(driver.cuFuncGetAttribute(driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, twice))
    data = np.arange(1, 5, dtype="f4")
    memory = check(driver.cuMemAlloc(data.nbytes))
    check(driver.cuMemcpyHtoD(memory, data.ctypes.data, data.nbytes))
    argument = np.array([int(memory)], dtype=np.uint64)
    arguments = np.array([argument.ctypes.data], dtype=np.uint64)
    check(driver.cuLaunchKernel(twice, 1, 1, 1, 4, 1, 1, 0, 0, arguments.ctypes.data, 0))
    check(driver.cuMemcpyDtoH(data.ctypes.data, memory, data.nbytes))
    check(driver.cuMemFree(memory))
    print(data, registers)

check(driver.cuInit(0))
device = check(driver.cuDeviceGet(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
for image in PTX, b"broken":
    print(int(driver.cuModuleLoadData(image + b"\\0")[0]))
run(check(driver.cuModuleLoadData(PTX + b"\\0")))
buffer, options, values = logs()
run(check(driver.cuModuleLoadDataEx(PTX + b"\\0", 2, options, values)))
print(bytes(buffer).rstrip(b"\\0"))
library = check(driver.cuLibraryLoadData(PTX + b"\\0", [], [], 0, [], [], 0))
run(check(driver.cuLibraryGetModule(library)))
check(driver.cuLibraryUnload(library))
buffer, options, values = logs()
link = check(driver.cuLinkCreate(2, options, values))
check(driver.cuLinkAddData(link, driver.CUjitInputType.CU_JIT_INPUT_PTX, PTX + b"\\0", len(PTX) + 1, b"a", 0, [], []))
cubin, size = check(driver.cuLinkComplete(link))
run(check(driver.cuModuleLoadData(cubin)))
print(size, bytes(buffer).rstrip(b"\\0"))
check(driver.cuLinkDestroy(link))
"""

OBJECT_CODE = PTX + """
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch

device = Device()
device.set_current()
twice = ObjectCode.from_ptx(PTX).get_kernel("twice")
print(twice.attributes.num_regs, twice.attributes.max_threads_per_block)
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
LINKER = PTX + """
from cuda.core import Device, Linker, LinkerOptions, ObjectCode

device = Device()
device.set_current()
arch = "sm_%d%d" % tuple(device.compute_capability)
code = Linker(ObjectCode.from_ptx(PTX), options=LinkerOptions(arch=arch)).link("cubin")
print(len(code.code), code.get_kernel("twice").attributes.num_regs)
"""


class Driver(Transparent):
    def test_cuda_bindings(self):
        self.check(BINDINGS, modes=ALL, served=LINK,
                   needs=("cuModuleLoadDataEx", "cuLibraryLoadData", "cuLinkComplete", "cuLaunchKernel"))

    def test_cuda_core_object_code(self):
        self.check(OBJECT_CODE, needs=("cuLibraryLoadData", "cuLaunchKernelEx"))

    def test_cuda_core_linker(self):
        self.check(LINKER, served=LINK, needs=("cuLinkComplete",))


if __name__ == "__main__":
    kit.main()
