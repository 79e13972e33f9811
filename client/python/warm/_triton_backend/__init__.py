# SPDX-License-Identifier: Apache-2.0
"""Code that runs inside `import triton`: Triton loads every entry point of the group "triton.backends".

This is a backend for no hardware, which Triton never chooses: it only has to be loaded.
"""

from warm import _autoload

_autoload.triton()
