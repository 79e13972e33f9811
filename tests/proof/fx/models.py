# SPDX-License-Identifier: Apache-2.0
"""Random networks of torch.nn's modules, as Dynamo gives them."""

import torch
from torch import nn

import program
from program import Unfit

SIZES = ((2, 4, 8), (3, 7, 16), (2, 33, 64))
ACTIVATIONS = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Softplus, nn.Hardswish, nn.ELU, nn.Mish)


class Attention(nn.Module):
    """As people write it, in one of the ways that Inductor knows."""

    def __init__(self, n, random):
        super().__init__()
        self.all, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.how = random.choice(("plain", "masked", "called", "causal"))

    def forward(self, x):
        q, k, v = (y.view(*x.shape[:2], 2, -1).transpose(1, 2) for y in self.all(x).chunk(3, dim=-1))
        if self.how in ("called", "causal"):
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.how == "causal")
        else:
            scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            if self.how == "masked":
                seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
                scores = scores.masked_fill(~seen, float("-inf"))
            y = torch.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Gated(nn.Module):
    def __init__(self, n, act):
        super().__init__()
        self.a, self.b, self.c, self.act = nn.Linear(n, 2 * n), nn.Linear(n, 2 * n), nn.Linear(2 * n, n), act

    def forward(self, x):
        return self.c(self.act(self.a(x)) * self.b(x))


class Turned(nn.Module):
    """A module for (batch, channels, length)."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


class Residual(nn.Module):
    def __init__(self, inner, first):
        super().__init__()
        self.inner, self.first = inner, first

    def forward(self, x):
        return x + self.inner(x) if self.first else self.inner(x) + x


def block(n, random):
    act = random.choice(ACTIVATIONS)()
    make = random.choice((
        lambda: nn.Sequential(nn.Linear(n, 4 * n), act, nn.Linear(4 * n, n)),
        lambda: nn.Sequential(nn.Linear(n, n, bias=False), act),
        lambda: Gated(n, act), lambda: Attention(n, random), lambda: Attention(n, random),
        lambda: Turned(nn.Conv1d(n, n, 3, padding=1, groups=random.choice((1, 2)))),
        lambda: Turned(nn.BatchNorm1d(n, track_running_stats=False)),
        lambda: Turned(nn.GroupNorm(2, n)), lambda: Turned(nn.AvgPool1d(3, 1, 1)),
        lambda: Turned(nn.MaxPool1d(3, 1, 1)), lambda: nn.LayerNorm(n), lambda: nn.RMSNorm(n),
        lambda: nn.Dropout(0.1), lambda: nn.Softmax(-1), lambda: nn.LogSoftmax(-1),
        lambda: nn.TransformerEncoderLayer(n, 2, 2 * n, 0.0, batch_first=True)))
    made = make()
    return Residual(made, random.random() < 0.5) if random.random() < 0.5 else made


class Network(nn.Module):
    def __init__(self, n, random):
        super().__init__()
        self.blocks = nn.Sequential(*(block(n, random) for _ in range(random.choice((1, 2, 4, 6)))))
        self.loss = random.choice((None, None, nn.functional.mse_loss, nn.functional.smooth_l1_loss,
                                   nn.functional.cross_entropy))

    def forward(self, x, wanted):
        y = self.blocks(x)
        return y if self.loss is None else self.loss(y, torch.softmax(wanted, dim=-1))


def generate(random):
    batch, length, n = random.choice(SIZES)
    network, graphs = Network(n, random).to(random.choice((torch.float32, torch.float32,
                                                           torch.bfloat16, torch.float64))), []
    kind = next(iter(network.parameters()), torch.empty(0)).dtype

    def capture(module, _):
        graphs.append(module)
        return module.forward
    torch._dynamo.reset()
    torch.compile(network, backend=capture, fullgraph=True)(
        *(torch.randn(batch, length, n, dtype=kind) for _ in range(2)))
    if len(graphs) != 1:
        raise Unfit
    return program.read(graphs[0])
