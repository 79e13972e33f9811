# SPDX-License-Identifier: Apache-2.0
"""torch.compile of a training step with Adam, on the GPU if torch has one, else on the CPU. The model is two
transformer blocks, or one on the CPU; for max-autotune, which tries many kernels for each product, it is two layers.

    python torch_step.py [MODE]     default, max-autotune or reduce-overhead (CUDA graphs)
"""

import sys
import time

import device

torch = device.wanted("torch")
import torch.nn.functional as F

MODE = sys.argv[1] if len(sys.argv) > 1 else "default"
ON = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, LENGTH, BATCH, STEPS, REPEATED = (512, 256, 8, 6, 30) if ON == "cuda" else (64, 32, 4, 4, 4)


class Block(torch.nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, -1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block(WIDTH) for _ in range(2 if ON == "cuda" else 1)))
    if MODE == "max-autotune":
        model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH))
    model = model.to(ON)
    x = torch.randn(BATCH, LENGTH, WIDTH).to(ON)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    forward = torch.compile(model, mode=None if MODE == "default" else MODE)

    def step():
        optimizer.zero_grad()
        loss = forward(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    began = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - began
    losses += [step() for _ in range(STEPS - 1)]
    began = time.perf_counter()
    for _ in range(REPEATED):
        step()
    each = (time.perf_counter() - began) / REPEATED
    from torch._dynamo.utils import counters

    if not losses[-1] < losses[0]:
        device.done(losses, wrong="the loss does not fall")
    # Autotuning may choose other kernels each time, which round in another way.
    device.done(losses, tolerance=1e-2 if MODE == "max-autotune" else 1e-4, on=ON.upper().replace("CUDA", "GPU"),
                first_s=round(first, 3), each_ms=round(1000 * each, 3),
                fx_hits=counters["inductor"]["fxgraph_cache_hit"],
                note=f"first step {first:.1f} s, then {1000 * each:.1f} ms")


main()
