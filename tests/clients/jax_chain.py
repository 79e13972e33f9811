# SPDX-License-Identifier: Apache-2.0
"""A chain of 16 equal modules with its training step, in four forms. The chain is unrolled or scanned; the
optimizer has a state for each tensor, or packs them by dtype. All four start warm, and agree."""

import re
import unittest

import kit
from jax_cache import PROGRAM, JaxCase, outcome

# Each module has a normalization, two products and a residual. The program trains for 3 steps.
MODEL = PROGRAM + '''
import sys
import warm.jax
N, D = 16, 24
rng = np.random.default_rng(0)
def module():
    f = lambda *s: (rng.standard_normal(s) * .2).astype("f")
    return {"scale": np.ones(D, "f"), "in": f(D, D), "bias": np.zeros(D, "f"), "out": f(D, D)}
weights = [module() for _ in range(N)]
batch = rng.standard_normal((8, D)).astype("f")
wanted = np.tanh(batch)

def apply(p, x):
    h = x * p["scale"] / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return x + jnp.tanh(h @ p["in"] + p["bias"]) @ p["out"]

def unrolled(ps, x):
    for p in ps:
        x = apply(p, x)
    return x

def scanned(ps, x):
    return warm.jax.chain([(apply, p) for p in ps], x)

def error(forward):
    return lambda ps, x, y: jnp.mean((forward(ps, x) - y) ** 2)

def adam(p, g, m, v, t):
    m, v = .9 * m + .1 * g, .999 * v + .001 * g * g
    return p - .03 * (m / (1 - .9 ** t)) / (jnp.sqrt(v / (1 - .999 ** t)) + 1e-8), m, v

def train(loss, ps, x, y):
    zeros = jax.tree_util.tree_map(jnp.zeros_like, ps)
    def body(carry):
        ps, m, v, t = carry
        grads = jax.grad(loss)(ps, x, y)
        flat, tree = jax.tree_util.tree_flatten(ps)
        each = zip(flat, *map(jax.tree_util.tree_leaves, (grads, m, v)))
        made = [adam(*a, t + 1) for a in each]
        return (*(jax.tree_util.tree_unflatten(tree, part) for part in zip(*made)), t + 1)
    return jax.lax.while_loop(lambda c: c[3] < 3., body, (ps, zeros, zeros, jnp.float32(0)))[0]

def by_tensor(forward):
    return lambda ps, x, y: train(error(forward), ps, x, y)

def packed(forward):
    def step(ps, x, y):
        loss = lambda p, x, y: error(forward)(p.unpack(), x, y)
        return train(loss, warm.jax.Packed.of(ps), x, y).unpack()
    return step

STACK = warm.jax.Stack.of([(apply, p) for p in weights])
FORMS = {"unrolled": (by_tensor(unrolled), weights), "unrolled packed": (packed(unrolled), weights),
         "scanned": (by_tensor(warm.jax.chain), STACK),
         "scanned packed": (packed(warm.jax.chain), STACK)}
'''
RUN = MODEL + "step, params = FORMS[sys.argv[1]]\nreport(jax.jit(step)(params, batch, wanted))\n"
RENAMED = "# elsewhere\n" + re.sub(r"\b(weights|train|adam|error|apply)\b", r"my_\1", RUN)

# Compares the results of the short forms with those of the loop, in one process.
SAME = MODEL + '''
def near(a, b, what, exactly=False, within=1e-5):
    for left, right in zip(jax.tree_util.tree_leaves(a), jax.tree_util.tree_leaves(b), strict=True):
        left, right = np.asarray(left), np.asarray(right)
        assert left.shape == right.shape and left.dtype == right.dtype, what
        if exactly:
            assert left.tobytes() == right.tobytes(), what
        else:
            worst = np.abs(left - right).max(initial=0) / max(np.abs(right).max(initial=0), 1e-30)
            assert worst <= within, (what, worst)

def scans(f, *a):
    return str(jax.make_jaxpr(f)(*a)).count(" scan[")

# The forward pass, its gradient; three steps of Adam, which divides by small gradients.
near(jax.jit(scanned)(weights, batch), jax.jit(unrolled)(weights, batch), "forward")
near(jax.jit(jax.grad(error(scanned)))(weights, batch, wanted),
     jax.jit(jax.grad(error(unrolled)))(weights, batch, wanted), "gradient")
made = {n: jax.jit(f)(p, batch, wanted) for n, (f, p) in FORMS.items()}
near(made["unrolled packed"], made["unrolled"], "packing", exactly=True)
near(made["scanned packed"], made["scanned"], "packing of a scan", exactly=True)
near(made["scanned"], warm.jax.Stack.of([(apply, p) for p in made["unrolled"]]), "scan", within=1e-3)
near([p for _, p in STACK.unstack()], weights, "stack", exactly=True)
assert len(jax.tree_util.tree_leaves(STACK)) == 4
assert scans(scanned, weights, batch) == 1 and scans(unrolled, weights, batch) == 0

# A module of another kind, and of another shape, in between: two scans, and the loop's numbers.
head = (lambda p, x: x @ p, np.ones((D, D), "f") * .1)
mixed = [(apply, p) for p in weights[:5]] + [head] + [(apply, p) for p in weights[5:9]]
def loop(ms, x):
    for f, p in ms:
        x = f(p, x)
    return x
assert scans(lambda x: warm.jax.chain(mixed, x), batch) == 2
near(warm.jax.chain(mixed, batch), loop(mixed, batch), "mixed")

# Modules that return another type, modules that are no pytrees, one module, none: all as in the loop.
widen = [(lambda p, x: jnp.concatenate([x, x * p], -1), np.float32(2))] * 3
assert scans(lambda x: warm.jax.chain(widen, x), batch) == 0
near(warm.jax.chain(widen, batch), loop(widen, batch), "widen", exactly=True)
looks = [(lambda p, x: x * p if x.sum() > 0 else x - p, np.float32(2))] * 3  # it reads values: no scan can
near(warm.jax.chain(looks, batch), loop(looks, batch), "values", exactly=True)
try:
    warm.jax.chain([(lambda p, x: x @ p, np.ones((D + 1, D), "f"))] * 2, batch)
    raise SystemExit("shapes that do not fit went through")
except (TypeError, ValueError):
    pass
plain = [jnp.sin, jnp.sin, jnp.cos]
near(warm.jax.chain(plain, batch), jnp.cos(jnp.sin(jnp.sin(batch))), "functions", exactly=True)
near(warm.jax.chain(mixed[:1], batch), apply(weights[0], batch), "one", exactly=True)
assert warm.jax.chain([], 5) == 5
grown = [(apply, {**p, "bias": np.zeros((1, D), "f")}) if i == 3 else (apply, p)
         for i, p in enumerate(weights[:6])]
assert scans(lambda x: warm.jax.chain(grown, x), batch) == 2      # 3 alike, 1, 2 alike
half = [(apply, {k: v.astype(np.float16) for k, v in p.items()}) for p in weights[:4]]
assert scans(lambda x: warm.jax.chain(half + mixed[:4], x), batch) >= 1
near(warm.jax.chain(half + mixed[:4], batch), loop(half + mixed[:4], batch), "dtypes")

# Pytrees that can be called, with static parts in their structure.
@jax.tree_util.register_pytree_node_class
class Dense:
    def __init__(self, w, act):
        self.w, self.act = w, act
    def __call__(self, x):
        return self.act(x @ self.w)
    def tree_flatten(self):
        return (self.w,), self.act
    @classmethod
    def tree_unflatten(cls, act, children):
        return cls(*children, act)
layers = [Dense(p["in"], jnp.tanh) for p in weights[:4]] + [Dense(p["in"], jnp.sin) for p in weights[:3]]
assert scans(lambda x: warm.jax.chain(layers, x), batch) == 2
assert warm.jax.Stack.of(layers) == layers and warm.jax.Stack.of([]) == []  # not alike: as they are
assert warm.jax.Stack.of(plain) == plain
four = warm.jax.Stack.of(layers[:4])
assert isinstance(four.unstack()[0], Dense) and scans(warm.jax.chain, four, batch) == 1
near(warm.jax.chain(four, batch), warm.jax.chain(layers[:4], batch), "a stack of callables")
wide = warm.jax.Stack.of([(widen[0][0], np.float32([2]))] * 3)
assert scans(warm.jax.chain, wide, batch) == 0 and warm.jax.chain(wide, batch).shape == (8, 8 * D)
expected = batch
for layer in layers:
    expected = layer(expected)
near(warm.jax.chain(layers, batch), expected, "callable pytrees")

# States come back in their order.
def counted(p, state, x):
    return apply(p, x), {"n": state["n"] + 1, "mean": x.mean()}
states = [{"n": jnp.int32(i), "mean": jnp.float32(0)} for i in range(N)]
x_loop, s_loop = batch, []
for p, s in zip(weights, states):
    x_loop, s = counted(p, s, x_loop)
    s_loop.append(s)
x_chain, s_chain = warm.jax.chain([(counted, p) for p in weights], batch, states=states)
near((x_chain, s_chain), (x_loop, s_loop), "states")
assert [int(s["n"]) for s in s_chain] == list(range(1, N + 1))
stack = warm.jax.Stack.of([(counted, p) for p in weights])
near(warm.jax.chain(stack, batch, states=states), (x_loop, s_loop), "states of a stack")
for wrong in (lambda: warm.jax.chain([3], batch), lambda: warm.jax.chain(plain, batch, states=[])):
    try:
        wrong()
    except (TypeError, ValueError):
        continue
    raise AssertionError("accepted")

# Packed: one array for each dtype, and unpack() restores every leaf.
tree = {"a": np.arange(6, dtype="f").reshape(2, 3), "b": [np.int32(4), np.zeros((0, 2), "f")],
        "c": (np.float16(1.5), None, 7, jax.random.key(1)), "d": jnp.ones(3, jnp.bfloat16),
        "e": np.array([True, False]), "f": np.array([1 + 2j], np.complex64)}
p = warm.jax.Packed.of(tree)
assert sorted(p.arrays) == ["bfloat16", "bool", "complex64", "float16", "float32", "int32"], p
back = p.unpack()
assert jax.tree_util.tree_structure(back) == jax.tree_util.tree_structure(tree)
assert back["c"][2] == 7 and back["c"][3] is tree["c"][3]
del back["c"], tree["c"]
near(back, tree, "packed", exactly=True)
big = warm.jax.Packed.of(weights)
assert len(jax.tree_util.tree_leaves(big)) == 1 and "float32[" in repr(big)
doubled = jax.tree_util.tree_map(lambda v: v * 2, big).unpack()
near(doubled, jax.tree_util.tree_map(lambda v: v * 2, weights), "elementwise", exactly=True)
print("same")
'''


class Chain(JaxCase):
    def test_the_short_forms_give_what_the_long_ones_give(self):
        with kit.Daemon() as daemon:
            self.assertIn("same", daemon.run(SAME).stdout)

    def test_every_form_starts_warm_whatever_its_names_are(self):
        with kit.Daemon() as daemon:
            for form in ("unrolled", "scanned", "unrolled packed", "scanned packed"):
                with self.subTest(form):
                    cold = daemon.run(RUN, form)
                    self.missed(cold)
                    self.hit(daemon.run(RENAMED, form), cold)


if __name__ == "__main__":
    unittest.main()
