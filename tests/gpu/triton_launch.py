# SPDX-License-Identifier: Apache-2.0
"""A Triton kernel doubles numbers. Triton's own launcher is a library that is linked with libcuda.so.1."""

import ctypes
import struct

import device

triton = device.wanted("triton")
import triton.language as tl

N, THOUSANDS = 1000, 1024


@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, at < n), at < n)


@triton.jit
def row_sums(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at, at < n, other=0.0), 0))


class Pointer:
    """Memory of the device as Triton sees a tensor. Works without torch."""

    dtype = "fp32"

    def __init__(self, driver, numbers):
        self.driver, self.n = driver, len(numbers)
        self.address = driver.alloc(struct.pack(f"{self.n}f", *numbers))

    def data_ptr(self):
        return self.address

    def numbers(self):
        return struct.unpack(f"{self.n}f", self.driver.read(self.address, 4 * self.n))


def main():
    driver = device.open_driver()
    x, out, total = (Pointer(driver, n) for n in (list(range(N)), [0] * N, [0]))
    twice[(triton.cdiv(N, 256),)](x, out, N, BLOCK=256)
    row_sums[(1,)](out, total, N, BLOCK=THOUSANDS)
    driver("cuCtxSynchronize")
    if not device.COMPUTES:
        device.done([], note="launched")
    want = 2.0 * sum(range(N))
    if total.numbers()[0] != want or list(out.numbers()) != [2.0 * i for i in range(N)]:
        device.done([], wrong=f"the sum is {total.numbers()[0]}, not {want}")
    device.done([want])


main()
