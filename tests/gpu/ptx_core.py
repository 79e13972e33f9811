# SPDX-License-Identifier: Apache-2.0
"""PTX through cuda.core: ObjectCode.from_ptx, and Program, whose NVRTC makes a cubin."""

import sys

import numpy

import device

core = device.wanted("cuda.core")
from cuda.bindings import driver as cu
from cuda.core import Device, LaunchConfig, ObjectCode, Program, ProgramOptions, launch

SOURCE = 'extern "C" __global__ void thrice(float *x) { x[threadIdx.x] *= 3; }'
PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry twice(.param .u64 p) {
  .reg .b32 %r<2>; .reg .f32 %f<3>; .reg .b64 %d<5>;
  ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1;
  mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d2, %d3;
  ld.global.f32 %f1, [%d4]; add.f32 %f2, %f1, %f1; st.global.f32 [%d4], %f2;
  ret;
}
"""


def run(gpu, kernel):
    data = numpy.arange(1, 5, dtype="f4")
    memory = cu.cuMemAlloc(data.nbytes)[1]
    cu.cuMemcpyHtoD(memory, data.ctypes.data, data.nbytes)
    stream = gpu.create_stream()
    launch(stream, LaunchConfig(grid=1, block=4), kernel, int(memory))
    stream.sync()
    cu.cuMemcpyDtoH(data.ctypes.data, memory, data.nbytes)
    return data.tolist()


def main():
    device.open_driver()
    gpu = Device()
    gpu.set_current()
    arch = "sm_%d%d" % tuple(gpu.compute_capability)
    seen, want = [run(gpu, ObjectCode.from_ptx(PTX).get_kernel("twice"))], [[2, 4, 6, 8]]
    try:
        made = Program(SOURCE, "c++", ProgramOptions(arch=arch)).compile("cubin")
    except RuntimeError as e:  # cuda.pathfinder finds no NVRTC
        made = None
        print(e, file=sys.stderr)
    if made:
        seen.append(run(gpu, made.get_kernel("thrice")))
        want.append([3, 6, 9, 12])
    served = {"no_hits": not made}  # what NVRTC makes is served, loads of PTX are not by default
    if not device.COMPUTES:
        device.done([], note="launched" if made else "launched, no NVRTC", **served)
    right = seen == want
    device.done(seen, **served, **({} if right else {"wrong": str(seen)}))


main()
