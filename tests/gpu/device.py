# SPDX-License-Identifier: Apache-2.0
"""What the step programs share: the CUDA driver through ctypes, and the line that run.py reads.

A step program ends with `done(numbers)`, with `lacks("torch")` if a library is missing, or with `no_gpu()` if it
can do nothing here. Each prints one line of JSON and exits.
"""

import ctypes
import json
import os
import sys

KIND = os.environ.get("GPU_KIND", "none")  # what run.py found: gpu, stand-in or none
COMPUTES = KIND == "gpu"  # the stand-in launches kernels, but does not compute
HANDLE = ctypes.c_void_p


def tell(**fields):
    """Prints the line that run.py reads, and ends the program."""
    print(json.dumps(fields), flush=True)
    sys.exit(0)


def done(numbers, **more):
    """Ends a step that ran. `numbers` must be the same plain, cold and warm, within `tolerance` if that is given.
    Further fields: `wrong` says that the numbers are not those wanted; `note`; `on`, if it is not the GPU;
    `no_hits`, if a warm run needs none."""
    tell(numbers=numbers, **more)


def lacks(what):
    tell(lacks=what)


def no_gpu(why=""):
    tell(no_gpu=True, note=why)


def wanted(module):
    """Imports a module. Ends the program with a word about it if it is not there."""
    try:
        return __import__(module, fromlist=["*"])
    except ImportError as e:
        lacks(module if getattr(e, "name", None) in (module, module.split(".")[0]) else f"{module}: {e}")


class Fault(Exception):
    """An error of the driver. `code` is its number."""

    def __init__(self, function, code, name):
        super().__init__(f"{function}: error {code} ({name})")
        self.code = code


class Driver:
    """The driver with device 0 current, as `driver("cuMemAlloc_v2", …)`. Every function is found by
    dlsym on the library's handle, as most programs do."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context = ctypes.c_int(), HANDLE()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def has(self, function):
        return hasattr(self.library, function)

    def __call__(self, function, *arguments):
        code = getattr(self.library, function)(*arguments)
        if code:
            name = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(name))
            raise Fault(function, code, (name.value or b"").decode())

    def number(self, function, *arguments):
        """Calls a function that writes an int first, and returns that."""
        value = ctypes.c_int()
        self(function, ctypes.byref(value), *arguments)
        return value.value

    def arch(self):
        major, minor = (self.number("cuDeviceGetAttribute", a, 0) for a in (75, 76))
        return f"sm_{major}{minor}"

    def alloc(self, data):
        """Returns the address of a copy of `data` on the device."""
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
        self("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        return address.value

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return data.raw

    def function(self, module, name):
        found = HANDLE()
        self("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def launch(self, function, threads, *arguments):
        """Launches one block. Arguments are values of ctypes."""
        pointers = (HANDLE * len(arguments))(*(ctypes.cast(ctypes.byref(a), HANDLE) for a in arguments))
        self("cuLaunchKernel", function, 1, 1, 1, threads, 1, 1, 0, None, pointers, None)
        self("cuCtxSynchronize")


def open_driver():
    """Returns the Driver, or ends the program if there is none."""
    try:
        return Driver()
    except OSError as e:
        no_gpu(str(e))
    except Fault as e:
        no_gpu(str(e))
