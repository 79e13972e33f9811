# SPDX-License-Identifier: Apache-2.0
"""The programs of nvrtc_programs.py, on the packages for CUDA 12."""

import kit
from nvrtc_programs import Programs

__all__ = ["Programs"]

if __name__ == "__main__":
    kit.main()
