# SPDX-License-Identifier: Apache-2.0
"""A proof that no graph of torch is kept under a key that another compile has, too.

    mutations.py --python FOLDER [--cases N] [--seed N]

FOLDER has the package `warm`. Each case is a small model and one change of what a compile reads: an entry of a table
(replaced, removed, wrapped, with another closure or other defaults), a function, method, class or constant of torch's
modules, of sympy's or of Python's own, also in place; a setting, the memory that arguments share, a function inside of a
higher-order operator. Tables and settings are found by walking torch's modules. The model is traced in two forks of one
process, with the change and without it. If a key is equal and its graph would be kept,
both are compiled: the results must be equal bit for bit. The exit status is 0 if all of this holds."""

import argparse
import collections
import functools
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import types

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--python", required=True)
parser.add_argument("--cases", type=int, default=20)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
sys.path.append(options.python)
os.environ.update(TORCH_DEVICE_BACKEND_AUTOLOAD="0", OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1",
                  TORCHINDUCTOR_VEC_ISA_OK="1", WARM_DISABLE="1")

from warm import _autoload, _catalogue, _catalogue_maker, _functions, _in_place, _sources, _tables  # noqa: E402

sys.meta_path.insert(0, _catalogue_maker._Watcher())
import torch  # noqa: E402
import torch._functorch._aot_autograd.autograd_cache as autograd_cache  # noqa: E402
import torch._inductor.compile_fx  # noqa: E402
from torch._inductor import codecache  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

_in_place.watch()
SECONDS = 120  # for one fork
MAKE = "import sys; sys.path += {!r}; from warm import _catalogue_maker as m; sys.stdout.buffer.write(m.make())"
aten = torch.ops.aten


# ---- models ----


def inputs(share="apart", offset=0):
    base = torch.linspace(-1, 1, 96)
    x = base[offset:offset + 64].view(8, 8)
    y = base[offset + 8:offset + 72].view(8, 8) if share == "shared" else torch.linspace(-1, 1, 64).view(8, 8)
    return x, y


def writes(x, y):
    x.mul_(2)
    return x + y


MODELS = {
    "pointwise": lambda x, y: torch.nn.functional.silu(x) * torch.erf(y) + torch.exp(x).tanh(),
    "softmax": lambda x, y: (x @ y).softmax(-1),
    "norm": lambda x, y: torch.nn.functional.layer_norm(x, (8,)) + y.sum(0),
    "gelu": lambda x, y: torch.nn.functional.gelu(x) - torch.nn.functional.softplus(y),
    "index": lambda x, y: torch.where(x > 0, x, y)[:, 2:6].cumsum(0),
    "view": lambda x, y: torch.as_strided(x, (4, 4), (8, 1)) + y[:4, :4],
    "attention": lambda x, y: torch.nn.functional.scaled_dot_product_attention(*(z[None, None] for z in (x, y, x))),
    "write": writes,
}


# ---- changes ----


def entry(draw):
    """Returns a change of an entry of a table, and its name."""
    path = draw.choice(sorted(TABLES))
    table = TABLES[path]
    keys = list(table) if isinstance(table, dict) else list(range(len(table)))
    if draw.random() < 0.7 and isinstance(table, dict):  # operators that the models use, more often than others
        keys = [k for k in keys if any(f".{name}" in str(k) for name in USED)] or keys
    key, other, how = draw.choice(keys), draw.choice(keys), draw.choice(("swap", "remove", "wrap", "closure", "code"))

    def change():
        if not isinstance(table, dict):
            values = list(table)
            table.clear()
            values.pop(key) if how != "swap" else None
            for value in values + ([draw.choice(values)] if how == "swap" and values else []):
                getattr(table, "append", getattr(table, "add", None))(value)
        elif how == "remove":
            table.pop(key)
        elif how == "swap":
            table[key] = table[other]
        elif how == "wrap":
            table[key] = wrapped(table[key])
        else:
            altered(table[key], how)
    return change, f"{how} {key} of {path}"


def wrapped(value):
    if isinstance(value, list):
        return value[1:]

    @functools.wraps(value)
    def other(*arguments, **more):
        return value(*arguments, **more)
    return other


def altered(value, how):
    """Changes a function in place: its code, or what it encloses."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    value = getattr(value, "handler", value)
    if how == "code" and isinstance(value, types.FunctionType) and not value.__closure__:
        value.__code__ = (lambda *arguments, **more: arguments[0]).__code__
    elif how == "defaults" and isinstance(value, types.FunctionType) and value.__defaults__:
        value.__defaults__ = tuple(one + 1 if isinstance(one, int) else one for one in value.__defaults__)
    elif how == "closure" and isinstance(value, types.FunctionType) and value.__closure__:
        for cell in value.__closure__:
            if callable(cell.cell_contents):
                cell.cell_contents = wrapped(cell.cell_contents)
                return
    raise Unchanged


def replaced(draw):
    """Returns a change of what a module or class of torch has by name, and its name."""
    space = draw.choice(SPACES)
    names = [name for name in space.entries if name in space.held]
    name = draw.choice(names)
    others = [other for other in names if type(space.held[other]) is type(space.held[name])]
    other, how = draw.choice(others), draw.choice(("swap", "wrap", "code", "defaults", "bases"))

    def change():
        value = space.held[name]
        if how == "bases" and isinstance(space.owner, type):
            first, *rest = space.owner.__bases__
            space.owner.__bases__ = (type(first.__name__, (first,), {}), *rest)
            return
        if space.entries[name].startswith(b"="):
            new = value + 1 if isinstance(value, int) else not value
        elif how == "wrap" and callable(value):
            new = wrapped(value)
        elif how == "swap":
            new = space.held[other]
        else:
            altered(getattr(value, "__func__", value), how)
            return
        if new is value:
            raise Unchanged
        setattr(space.owner, name, staticmethod(new) if isinstance(value, staticmethod) else new)
    return change, f"{how} {name} of {space.path}"


class Unchanged(Exception):
    """Raised if there is nothing to change."""


def setting(draw):
    """Returns a change of a field of a config module, or of a switch."""
    path = draw.choice(_sources.CONFIGS)
    module = sys.modules.get(path) or __import__(path, fromlist=["x"])
    name = draw.choice(list(module._config))
    kind = draw.random()

    def change():
        value = getattr(module, name)
        if kind < 0.2 and value is None or callable(value):
            new = lambda *arguments, **more: arguments[0]  # noqa: E731
        elif isinstance(value, bool):
            new = not value
        elif isinstance(value, (int, float)):
            new = value + 1
        elif isinstance(value, (list, tuple)) and value:
            new = value[1:]
        elif value is None:
            new = 1
        else:
            raise Unchanged
        setattr(module, name, new)
    return change, f"{path}.{name}"


def switch(draw):
    changes = {
        "mkldnn": lambda: torch.backends.mkldnn.set_flags(False),
        "precision": lambda: torch.set_float32_matmul_precision("medium"),
        "deterministic": lambda: torch.use_deterministic_algorithms(True),
        "math attention": lambda: (torch.backends.cuda.enable_flash_sdp(False),
                                   torch.backends.cuda.enable_mem_efficient_sdp(False)),
        "default type": lambda: torch.set_default_dtype(torch.float64),
        "threads": lambda: torch.set_num_threads(2),
    }
    name = draw.choice(sorted(changes))
    return changes[name], name


# ---- runs ----


class Enough(BaseException):
    """Ends a compile when the key of its first graph for Inductor is known."""


def keys_of(model, arguments):
    """Returns the keys under which a model's graphs would be kept: AOTAutograd's and Inductor's, or None."""
    FOUND.clear()
    try:
        torch.compile(model)(*arguments)
    except Enough:
        pass
    return dict(FOUND)


def note_keys():
    """Hooks the functions that make keys, before the reference of what torch has is read."""
    real_key, real_prepare = autograd_cache.autograd_cache_key, codecache.FxGraphCache.prepare_key

    def key(*values, **more):
        made = real_key(*values, **more)
        FOUND["autograd"] = made[0]
        return made

    def prepare(*values, **more):
        made = real_prepare(*values, **more)
        FOUND["graph"] = made[0][0] if made[0] is not None else None
        raise Enough

    autograd_cache.autograd_cache_key, codecache.FxGraphCache.prepare_key = key, staticmethod(prepare)
    hooks = {id(key.__code__), id(prepare.__code__)}
    is_hook = _functions._is_hook
    _functions._is_hook = lambda value: is_hook(value) or id(_functions._code_of(value)) in hooks


def results_of(model, arguments):
    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    made = torch.compile(model)(*arguments)
    return made.detach().contiguous().numpy().tobytes(), [a.detach().contiguous().numpy().tobytes() for a in arguments]


def forked(what, change, model, arguments):
    """Runs `what` in a fork, after a change. Returns its result, or an exception's text."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            with tempfile.TemporaryDirectory() as folder:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                change()
                said = what(model, arguments())
        except Unchanged:
            said = "unchanged"
        except BaseException as e:  # the change broke torch: then nothing is kept
            said = f"fails: {e!r}"[:200]
        with os.fdopen(writable, "wb") as out:
            pickle.dump(said, out)
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as given:
        data = given.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else "fails: it ended"


def check(name, change, model, before, after):
    """Returns what became of a case: `before` and `after` make the arguments."""
    nothing = lambda: None  # noqa: E731
    keys = BASES.setdefault((model, before), forked(keys_of, nothing, MODELS[model], before))
    others = forked(keys_of, change, MODELS[model], after)
    if isinstance(others, str):
        return others.partition(":")[0]
    if not any(keys.get(k) is not None and keys[k] == others.get(k) for k in ("autograd", "graph")):
        return "not kept" if not any(others.values()) else "another key"
    results = forked(results_of, nothing, MODELS[model], before), forked(results_of, change, MODELS[model], after)
    if any(isinstance(r, str) for r in results):
        return "fails"
    # Arguments with other values give other results; then the change itself, on the same values, decides.
    if results[0] != results[1]:
        print(f"WRONG: {model}, {name}: equal keys, and other results", flush=True)
        return "wrong"
    return "equal"


def opaque(draw):
    """Returns two models that call functions of the program inside of a higher-order operator."""
    def pair(function):
        called = torch._dynamo.allow_in_graph(function)
        if draw_kind == "checkpoint":
            return lambda x, y: checkpoint(lambda x: called(x + 1) * y, x, use_reentrant=False)
        return lambda x, y: torch.cond(x.sum() > 100, lambda x: x + 1, lambda x: called(x) * 2, (x,))

    draw_kind = draw.choice(("checkpoint", "cond"))

    def inner(x):
        return torch.sin(x)

    def other(x):
        return torch.cos(x)
    other.__name__, other.__qualname__ = inner.__name__, inner.__qualname__
    return draw_kind, pair(inner), pair(other)


def opaque_case(draw):
    kind, one, two = opaque(draw)
    keys, others = (forked(keys_of, lambda: None, model, inputs) for model in (one, two))
    if isinstance(keys, str) or isinstance(others, str):
        return "fails"
    if keys.get("autograd") is not None and keys["autograd"] == others.get("autograd"):
        print(f"WRONG: two functions inside of {kind} have one key", flush=True)
        return "wrong"
    return "another key" if others.get("autograd") else "not kept"


def one_case(draw):
    model, kind = draw.choice(sorted(MODELS)), draw.random()
    if kind < 0.1:
        share, offset = draw.choice((("shared", 0), ("apart", 3)))
        after = SHARED[share, offset]
        return check(f"arguments {share}, offset {offset}", lambda: None, "write" if share == "shared" else "view",
                     inputs, after)
    if kind < 0.15:
        return opaque_case(draw)
    change, name = (entry if kind < 0.4 else replaced if kind < 0.7 else setting if kind < 0.93 else switch)(draw)
    return check(name, change, model, inputs, inputs)


def main():
    folders = _catalogue_maker._folders()
    made = subprocess.run([sys.executable, "-I", "-S", "-c", MAKE.format(folders)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True, env={**os.environ, "WARM_DISABLE": "1"})
    _catalogue._state.catalogue, _catalogue._state.name = _catalogue.Catalogue(made.stdout), "made"
    _autoload._patch_codecache(codecache)
    _autoload._patch_autograd(autograd_cache)
    note_keys()
    keys_of(MODELS["pointwise"], inputs())  # loads what a compile loads
    torch._dynamo.reset()
    TABLES.update((p, t) for p, t in _tables.Watched(list(_catalogue._state.catalogue.tables))._find(()).items() if t)
    SPACES[:] = [s for s in _functions.read(_catalogue.root()) if len(s.entries) > 1 and s.path.startswith(CHANGED)]
    counts = collections.Counter(one_case(random.Random(f"{options.seed} {i}")) for i in range(options.cases))
    print(f"{options.cases} cases: {', '.join(f'{n} {what}' for what, n in sorted(counts.items()))}")
    return 1 if counts["wrong"] or not counts["not kept"] else 0


TABLES, SPACES, BASES, FOUND = {}, [], {}, {}
CHANGED = tuple(f"torch.{name}" for name in ("_inductor", "_functorch", "_decomp", "_refs", "_prims", "_subclasses", "fx"))
CHANGED += ("sympy.core", "sympy.functions", "sympy.printing", "math:", "functools:", "operator:", "textwrap:")
USED = ("silu", "erf", "exp", "tanh", "mm", "softmax", "layer_norm", "gelu", "softplus", "where", "slice", "cumsum", "add",
        "mul", "as_strided", "scaled_dot", "sum", "sub", "div", "sigmoid", "view", "permute")  # fmt: skip
SHARED = {(share, offset): functools.partial(inputs, share, offset) for share, offset in (("shared", 0), ("apart", 3))}

if __name__ == "__main__":
    sys.exit(main())
