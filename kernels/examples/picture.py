# SPDX-License-Identifier: Apache-2.0
"""A picture of a loss for the terminal."""
import math


def picture(losses, rows=8):
    """Returns the losses, on a logarithmic scale, as lines of text."""
    low, high = math.log(min(losses)), math.log(max(losses))
    heights = [round((math.log(v) - low) / (high - low or 1) * (rows - 1)) for v in losses[:: len(losses) // 50]]
    lines = ["".join("*" if h == row else " " for h in heights) for row in range(rows - 1, -1, -1)]
    labels = {0: losses[0], rows - 1: losses[-1]}
    return "\n".join(f"{labels.get(i, 0):8.3g} |{line}" if i in labels else f"         |{line}" for i, line in enumerate(lines))
