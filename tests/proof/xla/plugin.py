# SPDX-License-Identifier: Apache-2.0
"""XLA's plugin for GPUs by PJRT's C interface, for what JAX has no way to ask of it: to compile HLO as it is,
not by way of StableHLO. Positions and fields are those of the interface's version 0 (client/preload/pjrt_api.h)."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_void_p, pointer, sizeof

import jax_plugins.xla_cuda12
from jax._src.lib import xla_client
from jaxlib import _hlo

TABLE = 40  # bytes before the functions
ERROR_DESTROY, ERROR_MESSAGE, EXECUTABLE_DESTROY, OPTIMIZED_PROGRAM, TOPOLOGY_CREATE, COMPILE = (
    0, 1, 40, 48, 82, 89)


def arguments(**fields):
    """A type of arguments."""
    class Arguments(ctypes.Structure):
        _fields_ = [("struct_size", c_size_t), ("extensions", c_void_p), *fields.items()]

        def __init__(self, *values):
            super().__init__(sizeof(type(self)), None, *values)
    return Arguments


Error = arguments(error=c_void_p, message=c_void_p, size=c_size_t)
Executable = arguments(executable=c_void_p)
Program = arguments(code=c_void_p, size=c_size_t, format=c_char_p, format_size=c_size_t)
Optimized = arguments(executable=c_void_p, program=POINTER(Program))
Option = arguments(name=c_char_p, name_size=c_size_t, type=c_int, value=c_char_p, size=c_size_t)
Topology = arguments(name=c_char_p, name_size=c_size_t, options=POINTER(Option), n=c_size_t, made=c_void_p)
Compile = arguments(topology=c_void_p, program=POINTER(Program), options=c_char_p, options_size=c_size_t,
                    client=c_void_p, executable=c_void_p)


def sized(text):
    return text, len(text)


class Plugin:
    """JAX has loaded it before."""

    def __init__(self):
        where = os.path.dirname(jax_plugins.xla_cuda12.__file__)
        library = ctypes.CDLL(os.path.join(where, "xla_cuda_plugin.so"))
        library.GetPjrtApi.restype = c_void_p
        self.functions = ctypes.cast(library.GetPjrtApi() + TABLE, POINTER(c_void_p))

    def function(self, position, given, returns=None):
        return ctypes.CFUNCTYPE(returns, c_void_p)(self.functions[position])(ctypes.addressof(given))

    def call(self, position, given):
        error = self.function(position, given, c_void_p)
        if error:
            said = Error(error)
            self.function(ERROR_MESSAGE, said)
            text = ctypes.string_at(said.message, said.size).decode()
            self.function(ERROR_DESTROY, Executable(error))
            raise xla_client.XlaRuntimeError(text)

    def topology(self, n, target):
        """So many GPUs of a GpuTargetConfigProto, as text."""
        options = (Option * 2)(*(Option(*sized(name), 0, *sized(value)) for name, value in (
            (b"topology", b"1x1x%d" % n), (b"target_config", target.encode()))))
        topology = Topology(*sized(b"cuda"), options, len(options))
        self.call(TOPOLOGY_CREATE, topology)
        return topology.made

    def optimized(self, topology, text, options):
        """The module that comes out of one of HLO text."""
        code = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        program = Program(ctypes.cast(code, c_void_p), len(code), *sized(b"hlo"))
        compiled = Compile(topology, pointer(program), *sized(options.SerializeAsString()))
        self.call(COMPILE, compiled)
        made = Program()
        optimized = Optimized(compiled.executable, pointer(made))
        self.call(OPTIMIZED_PROGRAM, optimized)
        buffer = ctypes.create_string_buffer(made.size)
        made.code = ctypes.addressof(buffer)
        self.call(OPTIMIZED_PROGRAM, optimized)
        self.call(EXECUTABLE_DESTROY, Executable(compiled.executable))
        return xla_client.XlaComputation(first_message(buffer.raw)).get_hlo_module()


def first_message(data):
    """Of a serialized protocol buffer whose first field is a message, that: of a module with its
    configuration the module."""
    if data[0] != 1 << 3 | 2:
        raise ValueError("the first field is another one")
    size, at, shift = 0, 1, 0
    while True:
        size |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return data[at:at + size]
