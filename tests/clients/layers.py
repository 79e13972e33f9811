# SPDX-License-Identifier: Apache-2.0
"""A training run of equal layers, or of a small transformer, through torch.compile.

    python layers.py [--model layers|transformer|small] [--layers N] [--regional] [--forward] [--steps N]
                     [--backend inductor|eager]

The layers are linear-relu-sigmoid-linear-relu behind one linear. --regional compiles one layer instead of
the whole model. The backend "eager" compiles nothing: only dynamo's tracing and its guards are left. The
program prints one line of JSON. It has the seconds of import and of the first step, CPU seconds, and torch's
own counters of its caches. It also has the calls of kernels in the graphs, and the loss of each step, bit by bit.

For tests:
  --model small      has two C++ kernels
  --renamed          the same model with other names
  --without-redis    hides that package
  --build NAME       claims to be another build of torch
  --pause FOLDER     stops between the first forward and its backward until FOLDER/go exists
  --twice            compiles a second, wider model at the end
  --distributed      for torchrun: all ranks take each step together
"""

import argparse
import glob
import json
import os
import re
import resource
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="layers", choices=["layers", "transformer", "small"])
parser.add_argument("--layers", type=int, default=1)
parser.add_argument("--regional", action="store_true")
parser.add_argument("--forward", action="store_true")
parser.add_argument("--backend", default="inductor")
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--renamed", action="store_true")
parser.add_argument("--without-redis", action="store_true")
parser.add_argument("--build")
parser.add_argument("--pause")
parser.add_argument("--twice", action="store_true")
parser.add_argument("--distributed", action="store_true")
options = parser.parse_args()
if options.without_redis:
    sys.modules["redis"] = None

started = time.perf_counter()
import torch
import torch._dynamo
import torch._inductor.compile_fx

if options.build:
    torch.__version__ += f"+{options.build}"
imported, import_cpu = time.perf_counter(), time.process_time()


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.second(torch.sigmoid(torch.relu(self.first(x)))))


class Small(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.sigmoid(self.gate(x))


class Renamed(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = torch.nn.Linear(width, width)

    def forward(self, value):
        hidden = self.fc(value)
        return torch.sigmoid(hidden)


class Block(torch.nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, c))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
    def __init__(self, width, layer):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.layers = torch.nn.ModuleList(layer(width) for _ in range(options.layers))

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x


def build(width):
    if options.model == "transformer":
        return Model(64, Block), (4, 32, 64)
    layer = Layer if options.model == "layers" else Renamed if options.renamed else Small
    return Model(width, layer), (10, width)


def pause():
    open(os.path.join(options.pause, "paused"), "w").close()
    deadline = time.monotonic() + 300
    while not os.path.exists(os.path.join(options.pause, "go")):
        if time.monotonic() > deadline:
            sys.exit("nobody said go")
        time.sleep(0.02)


def together(tensors):
    """Replaces each tensor by its mean over all ranks."""
    for tensor in tensors if options.distributed else ():
        torch.distributed.all_reduce(tensor)
        tensor /= torch.distributed.get_world_size()


def train(width, steps):
    torch.manual_seed(0)
    model, shape = build(width)
    x = torch.randn(shape)
    for part in model.layers if options.regional else [model]:
        part.compile(backend=options.backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, first = [], None
    torch.set_grad_enabled(not options.forward)
    began = time.perf_counter()
    for step in range(steps):
        loss = model(x).square().mean()
        together([loss.detach().clone()])  # between forward and backward no rank may be waiting
        if options.pause and step == 0 and width == 10:
            pause()
        if not options.forward:
            optimizer.zero_grad()
            loss.backward()
            together(parameter.grad for parameter in model.parameters())
            optimizer.step()
        losses.append(loss.item().hex())
        first = first or time.perf_counter() - began
    return losses, first


def count_calls():
    """Returns how often the compiled graphs call a C++ kernel, and how many kernels there are. The cache
    folder has the code of the graphs, wherever it came from."""
    folder = torch._inductor.runtime.cache_dir_utils.cache_dir()
    calls = []
    for path in glob.glob(os.path.join(folder, "??", "*.py")):
        with open(path) as f:
            calls += re.findall(r"^ +(cpp_fused\w*)\(", f.read(), re.MULTILINE)
    return len(calls), len(glob.glob(os.path.join(folder, "??", "*.main.cpp")))


def main():
    threads = os.environ.get("LAYERS_THREADS")
    if threads:
        torch.set_num_threads(int(threads))
    if options.distributed:
        torch.distributed.init_process_group("gloo")
    cpu = time.process_time()
    losses, first = train(10, options.steps)
    cpu = time.process_time() - cpu
    if options.twice:
        losses += train(14, 1)[0]
    from torch._dynamo.utils import counters

    calls, kernels = count_calls()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.dumps({
        "import_s": imported - started, "first_s": first, "import_cpu_s": import_cpu, "cpu_s": cpu,
        "children_s": children.ru_utime + children.ru_stime,
        "fx_hits": counters["inductor"]["fxgraph_cache_hit"],
        "fx_misses": counters["inductor"]["fxgraph_cache_miss"],
        "aot_hits": counters["aot_autograd"]["autograd_cache_hit"],
        "aot_misses": counters["aot_autograd"]["autograd_cache_miss"],
        "calls": calls, "kernels": kernels,
        "redis": getattr(sys.modules.get("redis"), "__version__", None),
        "losses": losses,
    })  # fmt: skip
    sys.stdout.write(said + "\n")  # in one piece: the ranks of a job share a pipe
    sys.stdout.flush()
    if options.distributed:
        torch.distributed.destroy_process_group()


main()
