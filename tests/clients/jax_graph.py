# SPDX-License-Identifier: Apache-2.0
"""warm.graph with real JAX. It compiles what lower() returns to cubins, with gradients, and caches them. If it
does not know an operation, its error names it."""

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
assert text.data == bundle.data and text.hits == text.kernels
open(sys.argv[1] if len(sys.argv) > 1 else "x.bundle", "wb").write(bundle.data)
step = warm.graph.compile(lowered, arch="sm_90", vjp=True, arguments=list(range(2 * DEPTH)), optimizer="adam,lr=0.03")
assert (step.arguments, step.results) == (5, 5)  # parameters, count, two moments, x; the loss in place of x
try:
    warm.graph.compile(jax.jit(jnp.sort).lower(f32(8)), arch="sm_90")
    refused = None
except warm.graph.GraphError as e:
    refused = [e.code, str(e)]
print(json.dumps(dict(kernels=bundle.kernels, hits=bundle.hits, launches=bundle.launches,
                      arguments=bundle.arguments, results=bundle.results, refused=refused)))
'''


class Graphs(kit.TestCase):
    def run_depth(self, daemon, depth):
        return kit.result(daemon.run(PROGRAM.replace("DEPTH", str(depth)), WARM_TIMEOUT_MS=5000))

    def test_layers_share_kernels_and_what_is_unknown_is_refused_by_name(self):
        with kit.Daemon("--nvrtc", os.path.join(kit.TOOLCHAIN, "13.5.37/lib")) as daemon:
            first = self.run_depth(daemon, 3)
            self.assertEqual(first["hits"], 0)
            self.assertEqual(first["arguments"], 3 + 3 + 1 + 1)  # weights, biases, x, a cotangent
            self.assertEqual(first["results"], 1 + 6)
            self.assertEqual(first["refused"][0], "UNSUPPORTED")
            self.assertIn("stablehlo.sort", first["refused"][1])
            again = self.run_depth(daemon, 3)
            self.assertEqual(again["hits"], again["kernels"])
            deeper = self.run_depth(daemon, 6)
            self.assertEqual(deeper["hits"], deeper["kernels"])
            self.assertGreater(deeper["launches"], first["launches"])


if __name__ == "__main__":
    kit.main()
