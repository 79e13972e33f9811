# SPDX-License-Identifier: Apache-2.0
"""A backend of Triton for no hardware. Triton loads every entry point of the group "triton.backends" when it
is imported, and so runs our code. It never chooses this backend.
"""

from warm import _autoload

_autoload.triton()
