# SPDX-License-Identifier: Apache-2.0
"""The hardware of an entry, in words for people and filters: the target, and behind it the device's name, because
XLA and Inductor choose code by the device: "sm_90 NVIDIA H100 80GB HBM3". `warm ls --arch sm_90` finds it.

The keys have the devices themselves; this text decides nothing, so nothing here raises. Any thread.
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
    first: Any = next(iter(devices.flat), None)
    capability = str(getattr(first, "compute_capability", "") or "")
    return _text(_target(capability), str(getattr(first, "device_kind", ""))) if capability else platform


def of_torch() -> str:
    """Returns the hardware of torch's current device. It is in the keys of graphs of a process with CUDA. "" if
    torch has not begun to use a device."""
    torch: Any = sys.modules.get("torch")
    try:
        if not torch.cuda.is_initialized():
            return ""
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        amd = device.gcnArchName if torch.version.hip else ""
        return _text(amd or f"sm_{device.major}{device.minor}", device.name)
    except Exception:  # another torch, or a device that has failed
        return ""
