# SPDX-License-Identifier: Apache-2.0
"""warm.graph with real JAX. It compiles what lower() returns to cubins, with gradients, and caches them. If it
does not know an operation, its error names it. value_and_grad is that of JAX, and trains."""

import os

import kit

PROGRAM = '''
import json, sys
import jax, jax.numpy as jnp
import warm.graph

def loss(w, b, x):
    for i in range(DEPTH):
        x = jnp.tanh(x @ w[i] + b[i])
    return jnp.mean(x ** 2)

f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
lowered = jax.jit(loss).lower([f32(8, 8)] * DEPTH, [f32(8)] * DEPTH, f32(4, 8))
bundle = warm.graph.compile(lowered, arch="sm_90", vjp=True, arguments=list(range(2 * DEPTH)))
text = warm.graph.compile(lowered.as_text(), arch="sm_90", vjp=True, arguments=list(range(2 * DEPTH)))
assert text.hits == text.kernels == bundle.kernels  # the bundle has the module as it was given
open(sys.argv[1] if len(sys.argv) > 1 else "x.bundle", "wb").write(bundle.data)
step = warm.graph.compile(lowered, arch="sm_90", vjp=True, arguments=list(range(2 * DEPTH)), optimizer="adam,lr=0.03")
assert (step.arguments, step.results) == (5, 5)  # parameters, count, two moments, x; the loss in place of x
try:
    warm.graph.compile(jax.jit(jnp.fft.rfft).lower(f32(8)), arch="sm_90")
    refused = None
except warm.graph.GraphError as e:
    refused = [e.code, str(e)]
print(json.dumps(dict(kernels=bundle.kernels, hits=bundle.hits, launches=bundle.launches,
                      arguments=bundle.arguments, results=bundle.results, refused=refused)))
'''

# On the CPU: with arrays of NumPy, JAX and lists; several arguments and trees; bf16; then it trains.
GRADIENTS = '''
import json
import jax, jax.export, jax.numpy as jnp, numpy as np
import warm.graph

def loss(p, x, y):
    for w, b in p[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = p[-1]
    return jnp.mean((x @ w + b - y) ** 2)

rng = np.random.default_rng(0)
f = lambda *s: rng.standard_normal(s).astype(np.float32)
p, x, y = [(f(1, 8), f(8)), (f(8, 1), f(1))], f(16, 1), f(16, 1)
step = warm.graph.value_and_grad(loss, device="cpu")
want = jax.value_and_grad(loss)(p, x, y)
leaves = jax.tree_util.tree_leaves
for kind in (np.asarray, jnp.asarray):
    got = step(*jax.tree_util.tree_map(kind, (p, x, y)))
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
    assert all(isinstance(a, type(kind(0.0))) for a in leaves(got)), got
    for a, b in zip(leaves(got), leaves(want)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
both = warm.graph.value_and_grad(loss, argnums=(2, -2), device="cpu")(p, x, y)[1]
for a, b in zip(both, jax.grad(loss, argnums=(2, -2))(p, x, y)):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
half = jax.tree_util.tree_map(lambda a: jnp.asarray(a, jnp.bfloat16), (p, x, y))
value, gradient = step(*half)
assert gradient[0][0].dtype == jnp.bfloat16 and abs(float(value) - float(want[0])) < 0.05
try:
    step(p, x[::2], y[::2].T)
    raise AssertionError("strides")
except ValueError as e:
    assert "do not follow one another" in str(e), e
def unknown(x):
    y = jnp.abs(jnp.fft.rfft(x))  # this line
    return jnp.sum(y)

try:
    warm.graph.value_and_grad(unknown, device="cpu")(f(8))
    raise AssertionError("fft")
except warm.graph.GraphError as e:
    place = str(e)
exported = jax.export.export(jax.jit(loss))(*jax.tree_util.tree_map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (p, x, y)))
again = warm.graph.load(warm.graph.compile(exported.mlir_module_serialized, arch="sm_90"), device="cpu")
assert abs(float(again(*leaves((p, x, y)))) - float(want[0])) < 1e-5
@jax.custom_vjp
def bent(x):
    return 2 * x

bent.defvjp(lambda x: (bent(x), None), lambda _, g: (7 * g,))
def ruled(p, n, x):  # StableHLO has no trace of the rules
    h = jax.jit(lambda a: jax.lax.stop_gradient(a) * a)(p["a"]) * x
    return jnp.sum(bent(h)) + jnp.sum(p["b"] ** 2) + jnp.sum(x)

for numbers in (0, (2, 0), (-1,)):
    of = dict(a=np.float32([1, 2, 3]), b=np.float32([4, 5])), np.int32(3), np.float32([1, -1, 2])
    got, wanted = (each(ruled, numbers, **more)(*of) for each, more in (
        (warm.graph.value_and_grad, dict(device="cpu")), (jax.value_and_grad, {})))
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(wanted), got
    for a, b in zip(leaves(got), leaves(wanted)):
        np.testing.assert_allclose(a, b, rtol=1e-5)
losses = []
for _ in range(30):
    value, gradient = step(p, x, y)
    losses.append(float(value))
    p = jax.tree_util.tree_map(lambda a, g: a - 0.1 * g, p, gradient)
try:
    warm.graph.value_and_grad(lambda x: jnp.sum(x) * 1.0, device="cpu")(np.arange(3))
    whole = None
except TypeError as e:
    whole = str(e)
print(json.dumps(dict(losses=losses, whole=whole, place=place)))
'''


class Graphs(kit.TestCase):
    def test_value_and_grad_is_that_of_jax_and_trains(self):
        with kit.Daemon("--nvrtc", os.path.join(kit.TOOLCHAIN, "13.5.37/lib")) as daemon:
            out = kit.result(daemon.run(GRADIENTS, WARM_TIMEOUT_MS=5000))
            self.assertLess(out["losses"][-1], out["losses"][0] / 2)
            self.assertIn("argument 0 has no gradient", out["whole"])
            line = GRADIENTS[: GRADIENTS.index("# this line")].count("\n") + 1
            self.assertRegex(out["place"], f":{line}:\\d+: ")

    def run_depth(self, daemon, depth):
        return kit.result(daemon.run(PROGRAM.replace("DEPTH", str(depth)), WARM_TIMEOUT_MS=5000))

    def test_layers_share_kernels_and_what_is_unknown_is_refused_by_name(self):
        with kit.Daemon("--nvrtc", os.path.join(kit.TOOLCHAIN, "13.5.37/lib")) as daemon:
            first = self.run_depth(daemon, 3)
            self.assertEqual(first["hits"], 0)
            self.assertEqual(first["arguments"], 3 + 3 + 1 + 1)  # weights, biases, x, a cotangent
            self.assertEqual(first["results"], 1 + 6)
            self.assertEqual(first["refused"][0], "UNSUPPORTED")
            self.assertRegex(first["refused"][1], "fft|complex")
            again = self.run_depth(daemon, 3)
            self.assertEqual(again["hits"], again["kernels"])
            deeper = self.run_depth(daemon, 6)
            self.assertEqual(deeper["hits"], deeper["kernels"])
            self.assertGreater(deeper["launches"], first["launches"])


if __name__ == "__main__":
    kit.main()
