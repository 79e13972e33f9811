# SPDX-License-Identifier: Apache-2.0
"""PTX through the driver's own functions: cuModuleLoadDataEx with log buffers, cuLibraryLoadData, a recursive
kernel, whose link prints a warning, and cuLink. Each doubles or adds numbers."""

import ctypes
import struct
import time

import device
from device import HANDLE

HEAD = ".version 6.0\n.target sm_50\n.address_size 64\n"
TWICE = HEAD + """.visible .entry twice(.param .u64 p) {
  .reg .b32 %r<2>; .reg .f32 %f<3>; .reg .b64 %d<5>;
  ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1;
  mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d2, %d3;
  ld.global.f32 %f1, [%d4]; add.f32 %f2, %f1, %f1; st.global.f32 [%d4], %f2;
  ret;
}
"""
# sum(n) = n ? n + sum(n - 1) : 0. The stack's size cannot be known, of which the linker warns.
RECURSIVE = HEAD + """.func (.param .b32 out) sum(.param .b32 in);
.func (.param .b32 out) sum(.param .b32 in) {
  .reg .pred %p; .reg .b32 %r<5>;
  ld.param.u32 %r1, [in]; mov.u32 %r4, 0; setp.eq.u32 %p, %r1, 0; @%p bra end;
  sub.u32 %r2, %r1, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), sum, (a); ld.param.b32 %r3, [b]; }
  add.u32 %r4, %r3, %r1;
end:
  st.param.b32 [out], %r4; ret;
}
.visible .entry sums(.param .u64 p) {
  .reg .b32 %r<4>; .reg .b64 %d<5>;
  ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1;
  mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d2, %d3;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), sum, (a); ld.param.b32 %r2, [b]; }
  st.global.u32 [%d4], %r2; ret;
}
"""
INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES, PTX = 3, 4, 5, 6, 1
LOG_MAX = 4096


class Logs:
    """The options of a load that ask for both logs."""

    def __init__(self):
        self.info, self.error = (ctypes.create_string_buffer(LOG_MAX) for _ in range(2))
        self.names = (ctypes.c_int * 4)(INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES)
        self.values = (HANDLE * 4)(ctypes.addressof(self.info), LOG_MAX, ctypes.addressof(self.error), LOG_MAX)


def run_twice(driver, function):
    """Returns what the kernel makes of 1, 2, 3, 4."""
    address = driver.alloc(struct.pack("4f", 1, 2, 3, 4))
    driver.launch(function, 4, ctypes.c_uint64(address))
    return list(struct.unpack("4f", driver.read(address, 16)))


def with_logs(driver):
    module, logs = HANDLE(), Logs()
    driver("cuModuleLoadDataEx", ctypes.byref(module), TWICE.encode(), 4, logs.names, logs.values)
    return run_twice(driver, driver.function(module, "twice"))


def broken(driver):
    """Returns what a text that is no PTX gives: the error's number, and whether there is a log."""
    module, logs = HANDLE(), Logs()
    text = (HEAD + "broken;\n").encode()
    try:
        driver("cuModuleLoadDataEx", ctypes.byref(module), text, 4, logs.names, logs.values)
    except device.Fault as e:
        return [e.code, len(logs.error.value) > 0]
    return [0, False]


def library(driver):
    found, module = HANDLE(), HANDLE()
    driver("cuLibraryLoadData", ctypes.byref(found), TWICE.encode(), None, None, 0, None, None, 0)
    driver("cuLibraryGetModule", ctypes.byref(module), found)
    return run_twice(driver, driver.function(module, "twice"))


def recursive(driver):
    module = HANDLE()
    driver("cuModuleLoadData", ctypes.byref(module), RECURSIVE.encode())
    address = driver.alloc(bytes(32))
    driver.launch(driver.function(module, "sums"), 8, ctypes.c_uint64(address))
    return list(struct.unpack("8I", driver.read(address, 32)))


def linked(driver):
    link, cubin, size, module = HANDLE(), HANDLE(), ctypes.c_size_t(), HANDLE()
    text = TWICE.encode() + b"\0"
    driver("cuLinkCreate_v2", 0, None, None, ctypes.byref(link))
    driver("cuLinkAddData_v2", link, PTX, text, ctypes.c_size_t(len(text)), b"twice", 0, None, None)
    driver("cuLinkComplete", link, ctypes.byref(cubin), ctypes.byref(size))
    driver("cuModuleLoadData", ctypes.byref(module), cubin)
    driver("cuLinkDestroy", link)
    return run_twice(driver, driver.function(module, "twice"))


def main():
    driver = device.open_driver()
    seen, ms = {}, {}
    for part in (with_logs, broken, library, recursive, linked):
        began = time.perf_counter()
        seen[part.__name__] = part(driver)
        ms[part.__name__] = round(1000 * (time.perf_counter() - began), 2)
    want = {"with_logs": [2, 4, 6, 8], "library": [2, 4, 6, 8], "linked": [2, 4, 6, 8],
            "recursive": [0, 1, 3, 6, 10, 15, 21, 28]}
    wrong = [f"{name} gives {seen[name]}" for name in want if seen[name] != want[name]]
    if seen["broken"][0] == 0:
        wrong.append("a text that is no PTX was loaded")
    device.done(seen, ms=ms, **({"wrong": "; ".join(wrong)} if wrong and device.COMPUTES else {}))


main()
