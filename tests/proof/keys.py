# SPDX-License-Identifier: Apache-2.0
"""Keys by libwarm, for the proofs by compilers."""

import ctypes
import os


class Keys:
    def __init__(self, path):
        self.call = ctypes.CDLL(os.path.abspath(path)).warm_graph_key
        self.call.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]

    def of(self, kind, data):
        """Returns the key of a text or of bytecode; None if it has none."""
        out = ctypes.create_string_buffer(33)
        code = self.call(kind, data, len(data), out)
        return None if code else out.value

    def of_text(self, kind, text):
        """Returns the key of a text that must have one."""
        key = self.of(kind, text.encode())
        if not key:
            raise RuntimeError("no canonical key of\n" + text)
        return key
