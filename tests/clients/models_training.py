# SPDX-License-Identifier: Apache-2.0
"""Models of Flax, Equinox, Haiku and plain JAX (zoo.py) through warm.graph: loss, gradients and a step of Adam are those of
JAX. They run by the interpreter. Their kernels are compiled for a GPU, and run on the CPU by the suite graph_bundle."""

import os
import subprocess
import sys
import tempfile

import kit

# The step has an epsilon that is not small: else a gradient that should be 0 moves its parameter as far as any other.
PROGRAM = """
import json, sys
import jax, jax.numpy as jnp, numpy as np, optax
import warm.graph

sys.path.insert(0, HERE)
import zoo

def distance(got, want):
    got, want = (np.asarray(jnp.asarray(a, jnp.float32), np.float64) for a in (got, want))
    assert got.shape == want.shape, (got.shape, want.shape)
    return float(np.max(np.abs(got - want) / (1 + np.max(np.abs(want), initial=0)), initial=0))

def compared(got, want):
    got, want = jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want)
    assert len(got) == len(want), (len(got), len(want))
    return max(distance(a, b) for a, b in zip(got, want))

loss, p, rest = zoo.MODELS[NAME]()
want = jax.value_and_grad(loss)(p, *rest)
both = warm.graph.value_and_grad(loss, device="cpu")(p, *rest)
plain = jax.jit(loss, keep_unused=True).lower(p, *rest)
leaves = jax.tree_util.tree_leaves(p)
floats = [i for i, a in enumerate(leaves) if jnp.issubdtype(a.dtype, jnp.floating)]
bundle = warm.graph.compile(plain, arch="sm_90", vjp=True, arguments=floats)
derived = warm.graph.load(bundle, device="cpu")(*leaves, *jax.tree_util.tree_leaves(rest), 1.0)
optimizer = optax.adam(1e-2, eps=1e-3)
def step(p, state, *rest):
    value, g = jax.value_and_grad(loss)(p, *rest)
    updates, state = optimizer.update(g, state, p)
    return optax.apply_updates(p, updates), state, value
state = optimizer.init(p)
lowered = jax.jit(step, keep_unused=True).lower(p, state, *rest)
bundle = warm.graph.compile(lowered, arch="sm_90")
trained = warm.graph.load(bundle, device="cpu")(*jax.tree_util.tree_leaves((p, state, rest)))
print(json.dumps(dict(gradients=compared(both, want), derived=compared(derived, want),
                      step=compared(trained, lowered.compile()(p, state, *rest)))))
"""

# Writes the models in the form of tests/data/jax_graphs.txt.
GRAPHS = """
import sys
import jax, jax.numpy as jnp, numpy as np

sys.path.insert(0, HERE)
import zoo

def put(word, x):
    x = np.asarray(x)
    if x.dtype.name not in ("float32", "bfloat16"):
        return print(word, *(int(v) for v in x.ravel()))
    print(word, *(f"{v:.9g}" for v in x.astype(np.float32).ravel()))

loss, p, rest = zoo.MODELS[NAME]()
leaves, tree = jax.tree_util.tree_flatten(p)
rest_leaves, rest_tree = jax.tree_util.tree_flatten(rest)
args = leaves + rest_leaves
back = jax.tree_util.tree_unflatten
g = lambda *a: (loss(back(tree, a[:len(leaves)]), *back(rest_tree, a[len(leaves):])),)
print("graph", NAME)
print(jax.jit(g, keep_unused=True).lower(*args).as_text(), end="")
for a in args:
    put("arg", a)
put("result", jax.jit(g)(*args)[0])
floats = tuple(i for i, a in enumerate(args) if jnp.issubdtype(jnp.asarray(a).dtype, jnp.floating))
for a in jax.jit(jax.grad(lambda *a: g(*a)[0], argnums=floats))(*args):
    put("gradient", a)
print("end")
"""

LIBRARIES = {
    "flax": ["gpt2_block", "gpt2_4", "bert", "resnet", "vit"],
    "equinox": ["llama", "llama_bf16", "vae", "experts", "unet"],
    "haiku": ["lstm", "diffusion", "ppo", "transformer"],
    "plain": ["dropped", "contrastive", "recurrence", "graph_network", "quantized"],
}
RULES = ["quantized"]  # StableHLO has no trace of its stop_gradient: only value_and_grad is right


def text(program, name):
    return program.replace("NAME", repr(name)).replace("HERE", repr(os.path.dirname(os.path.abspath(__file__))))


class Models(kit.TestCase):
    def agree(self, names):
        with kit.Daemon("--nvrtc", os.path.join(kit.TOOLCHAIN, "13.5.37/lib")) as daemon:
            for name in names:
                out = kit.result(daemon.run(text(PROGRAM, name), WARM_TIMEOUT_MS=20000))
                most = 0.02 if "bf16" in name else 2e-5
                self.assertLess(out["gradients"], most, name)
                self.assertTrue(out["derived"] < most or name in RULES, name)
                self.assertLess(out["step"], most, name)

    def test_flax(self):
        self.agree(LIBRARIES["flax"])

    def test_equinox(self):
        self.agree(LIBRARIES["equinox"])

    def test_haiku(self):
        self.agree(LIBRARIES["haiku"])

    def test_plain_jax(self):
        self.agree(LIBRARIES["plain"])

    def test_kernels_on_the_cpu(self):
        suite = os.path.join(kit.BUILD, "tests", "all")
        if not os.access(suite, os.X_OK):
            self.skipTest("the suites are not built")
        with tempfile.NamedTemporaryFile("w") as graphs:
            for name in "llama", "experts", "dropped":
                env = dict(os.environ, JAX_PLATFORMS="cpu")
                subprocess.run([sys.executable, "-c", text(GRAPHS, name)], stdout=graphs, env=env, check=True, timeout=kit.RUN_S)
            ran = subprocess.run([suite, "--filter", "graph_bundle/the_plan_gives*"], cwd=kit.ROOT, capture_output=True, text=True,
                                 env=dict(os.environ, WARM_JAX_GRAPHS=graphs.name), timeout=kit.RUN_S)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("Tested: 1 | Passing: 1", ran.stdout + ran.stderr)

    def test_a_loss_of_two_towers(self):
        self.agree(["contrastive"])


if __name__ == "__main__":
    kit.main()
