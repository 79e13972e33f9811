# SPDX-License-Identifier: Apache-2.0
"""What runs inside `import triton`: Triton loads every entry point of the group "triton.backends".

It is a backend for no hardware, so that Triton never chooses it: loading it is what it is for.
"""

from warm import _autoload

_autoload.triton()
