# SPDX-License-Identifier: Apache-2.0
"""The hardware of an entry, in words for people and filters: the target, and behind it the device's name, because
XLA and Inductor choose code by the device: "sm_90 NVIDIA H100 80GB HBM3". `warm ls --arch sm_90` finds it.

The keys have the devices themselves; this text decides nothing. Any thread.
"""

from __future__ import annotations

import sys
from typing import Any

_MAX = 120  # characters


def _text(target: str, name: str) -> str:
    return " ".join(f"{target} {name}".split())[:_MAX]


def _target(capability: str) -> str:
    """Returns sm_90 for "9.0"; another text, such as gfx90a, as it is."""
    digits = capability.replace(".", "")
    return f"sm_{digits}" if digits.isdigit() else capability


def of_jax(devices: Any, platform: str) -> str:
    """Returns the hardware of JAX's devices, an array of one kind; the platform if they do not tell."""
    first = next(iter(devices.flat))
    capability = str(getattr(first, "compute_capability", "") or "")
    return _text(_target(capability), str(first.device_kind)) if capability else platform


def of_torch() -> str:
    """Returns the hardware of torch's current device. It is in the keys of graphs of a process with CUDA. "" if
    torch has not begun to use a device."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return ""
    device = cuda.get_device_properties(cuda.current_device())
    amd = getattr(device, "gcnArchName", "") if getattr(sys.modules["torch"].version, "hip", None) else ""
    return _text(amd or f"sm_{device.major}{device.minor}", device.name)
