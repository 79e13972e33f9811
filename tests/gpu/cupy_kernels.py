# SPDX-License-Identifier: Apache-2.0
"""CuPy: a RawKernel, an ElementwiseKernel, a reduction and a RawModule with templates. NVRTC compiles each."""

import device

cupy = device.wanted("cupy")

SAXPY = """extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{ int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) y[i] += a * x[i]; }"""
SCALE = "template <class T, int N> __global__ void scale(T *x) { x[threadIdx.x] *= N; }"


def main():
    if not device.COMPUTES:
        compiled()
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, dtype=cupy.float32)
    cupy.RawKernel(SAXPY, "saxpy")((8,), (128,), (cupy.float32(2), x, y, cupy.int32(1000)))
    square = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * x - y", "square")
    scale = cupy.RawModule(code=SCALE, name_expressions=["scale<float, 3>"])
    scale.get_function("scale<float, 3>")((1,), (1000,), (x,))
    sums = [float(y.sum()), float(square(x, y).max()), float((x * x).sum())]
    want = [1000 + 999 * 1000.0, 2997.0**2 - 1999]
    wrong = any(abs(a - b) > 1e-4 * abs(b) for a, b in zip(sums, want))
    device.done(sums, **({"wrong": f"{sums[:2]}, not {want}"} if wrong else {}))


def compiled():
    """Without a GPU: CuPy's own calls of NVRTC."""
    import hashlib
    import os
    import tempfile

    from cupy.cuda import compiler

    made = []
    for code, names in ((SAXPY, None), (SCALE, ["scale<float, 3>"])):
        with tempfile.TemporaryDirectory() as folder:
            program = compiler._NVRTCProgram(code, os.path.join(folder, "kernel.cubin.cu"),
                                             name_expressions=names, method="cubin")
            cubin, _ = program.compile(("-arch=sm_90",))
            made.append(hashlib.sha256(cubin).hexdigest())
    device.done(made, on="CPU", note="compiled only")


main()
