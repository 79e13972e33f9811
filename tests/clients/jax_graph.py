# SPDX-License-Identifier: Apache-2.0
"""warm.graph with real JAX. It compiles what lower() returns to cubins, with gradients, and caches them. If it
does not know an operation, its error names it. value_and_grad is that of JAX, and trains; inside of jax.jit, too, with
WARM_GRAPH_FFI=1."""

import os
import subprocess
import sysconfig

import kit

HERE = os.path.dirname(os.path.abspath(__file__))

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

# Inside of jax.jit, on the CPU: the handler of libwarm in real executables.
INSIDE = '''
import gc, json, os, threading
import jax, jax.numpy as jnp, numpy as np
import warm.graph

def loss(p, x):
    w, b = p
    return jnp.mean(jax.nn.relu(jnp.tanh(x @ w) + b) ** 2)

def tanhs(p, x):  # warm's own derivative: there are no rules in it
    return jnp.mean(jnp.tanh(x @ p[0] + p[1]) ** 2)

def ours(fn, *more, **names):
    return warm.graph.value_and_grad(fn, *more, device="cpu", **names)

def close(got, want):
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want), (got, want)
    for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)

def error(call):
    try:
        return ["nothing", str(call())]
    except Exception as e:
        return [type(e).__name__, str(e)]

rng = np.random.default_rng(0)
f = lambda *s: rng.standard_normal(s).astype(np.float32)
p, x, xs = (f(4, 3), f(3)), f(8, 4), f(5, 8, 4)
said = dict(off=error(lambda: jax.jit(ours(loss))(p, x)))
close(ours(loss)(p, x), jax.value_and_grad(loss)(p, x))  # not traced
os.environ["WARM_GRAPH_FFI"] = "1"
step = ours(loss)
for fn in (loss, tanhs):
    for numbers in (0, 1, (1, 0)):
        close(jax.jit(ours(fn, numbers))(p, x), jax.value_and_grad(fn, numbers)(p, x))
close(step(p, x), jax.jit(step)(p, x))  # both ways with one function

def train(grad, p, xs):
    def body(p, x):
        value, d = grad(p, x)
        return jax.tree_util.tree_map(lambda a, g: a - 0.5 * g, p, d), value
    return jax.lax.scan(body, p, xs)

def descend(grad, p):
    return jax.lax.fori_loop(0, 20, lambda i, p: jax.tree_util.tree_map(lambda a, g: a - 0.5 * g, p, grad(p, x)[1]), p)

for whole, more in ((train, (xs,)), (descend, ())):
    close(*(jax.jit(lambda p, *m: whole(grad, p, *m))(p, *more) for grad in (step, jax.value_and_grad(loss))))
said["losses"] = np.asarray(train(step, p, np.stack([x] * 8))[1]).tolist()
close(*(jax.jit(lambda p, x: (one(p, x), two(p, x)))(p, x) for one, two in
        ((step, ours(tanhs)), (jax.value_and_grad(loss), jax.value_and_grad(tanhs)))))
close(jax.jit(jax.vmap(step, (None, 0)))(p, xs), jax.vmap(jax.value_and_grad(loss), (None, 0))(p, xs))
close(jax.jit(lambda p, x: jax.tree_util.tree_map(jnp.subtract, p, step(p, x)[1]), donate_argnums=0)(
    jax.tree_util.tree_map(jnp.asarray, p), x), jax.tree_util.tree_map(np.subtract, p, jax.grad(loss)(p, x)))
other = lambda w, e, i, m: jnp.sum(w[i] * jnp.where(m, 1.0, 2.0)) + jnp.sum(e) + w[0]
of = f(6), np.zeros((0, 3), np.float32), np.array([1, 3, 5], np.uint8), np.array([True, False, True])
close(jax.jit(ours(other, (0, 1)))(*of), jax.value_and_grad(other, (0, 1))(*of))
noisy = lambda w, k: jnp.sum(w * jax.random.normal(k, w.shape))
of = f(6), jax.random.key(7)
for how in (lambda g: g, jax.jit):
    close(how(ours(noisy))(*of), jax.value_and_grad(noisy)(*of))
half = jax.tree_util.tree_map(lambda a: jnp.asarray(a, jnp.bfloat16), p)
assert jax.jit(step)(half, x)[1][0].dtype == jnp.bfloat16

# An executable that outlives all that Python knows, in many threads.
compiled = jax.jit(lambda p, x: ours(tanhs)(p, x)).lower(p, x).compile()
jax.clear_caches()
gc.collect()
results = []
def run():
    for k in range(50):
        results.append(compiled(p, x * k)[0] - tanhs(p, x * k))
threads = [threading.Thread(target=run) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
assert len(results) == 200 and max(map(abs, map(float, results))) < 1e-5

said["derivative"] = error(lambda: jax.jit(jax.grad(lambda p: step(p, x)[0]))(p))
said["closes"] = error(lambda: jax.jit(lambda p, x: ours(lambda p: loss(p, x))(p))(p, x))
said["stream"] = error(lambda: jax.jit(lambda p: step(p, x, stream=1))(p))
def call(name, *arguments):
    types = [jax.ShapeDtypeStruct((), np.float32), *(jax.ShapeDtypeStruct(a.shape, np.float32) for a in p)]
    return error(lambda: jax.jit(lambda *a: jax.ffi.ffi_call("warm_graph", types)(*a, graph=name))(*arguments))
(name,) = {eqn.params["attributes"][0][1] for eqn in jax.make_jaxpr(ours(tanhs))(p, x).eqns[-1].params["call_jaxpr"].eqns}
one = np.float32(1)
said["shape"] = call(name, p[0].T, p[1], x, one)
said["type"] = call(name, p[0].astype(np.int32), p[1], x, one)
said["count"] = call(name, p[0], p[1], x)
said["unknown"] = call("0" * 64 + ":-1", p[0], p[1], x, one)
assert call(name, p[0], p[1], x, one)[0] == "nothing"
print(json.dumps(said))
'''

# Under `warm run`, with JAX's executables from the cache: two graphs whose calls differ in their names alone.
SCALED = '''
import os, sys
os.environ["WARM_GRAPH_FFI"] = "1"
import jax, jax.numpy as jnp, numpy as np
import warm.graph

k = float(sys.argv[1])
step = jax.jit(warm.graph.value_and_grad(lambda w: jnp.sum(w * w) * k, device="cpu"))
value, gradient = step(np.ones(3, np.float32))
assert float(value) == 3 * k and (np.asarray(gradient) == 2 * k).all(), (value, gradient)
'''

# A graph for a GPU, in a program that XLA runs on the CPU.
ELSEWHERE = '''
import os
os.environ["WARM_GRAPH_FFI"] = "1"
import jax, jax.numpy as jnp, numpy as np
import warm.graph

step = jax.jit(warm.graph.value_and_grad(lambda w: jnp.sum(w * w), device=0))
w = np.ones(3, np.float32)
for_cuda = step.trace(w).lower(lowering_platforms=("cuda",)).as_text()
assert "custom_call @warm_graph(" in for_cuda and ':0"}' in for_cuda, for_cuda
step(w)
'''

# Another library has the name of our handlers.
TAKEN = '''
import os
os.environ["WARM_GRAPH_FFI"] = "1"
import jax, jax.numpy as jnp, numpy as np
import warm.graph
from warm import _library

handler = jax.ffi.pycapsule(_library._library().warm_graph_xla_cuda)
jax.ffi.register_ffi_target("warm_graph", handler, platform="cpu")
jax.jit(warm.graph.value_and_grad(lambda w: jnp.sum(w * w), device="cpu"))(np.ones(3, np.float32))
'''


class Graphs(kit.TestCase):
    def test_inside_of_jit_it_is_that_of_jax_with_the_setting(self):
        with kit.Daemon("--nvrtc", os.path.join(kit.TOOLCHAIN, "13.5.37/lib")) as daemon:
            out = kit.result(daemon.run(INSIDE, WARM_TIMEOUT_MS=5000, JAX_TRACEBACK_FILTERING="off"))
        self.assertLess(out["losses"][-1], out["losses"][0] / 2)
        for what, kind, words in (
            ("off", "GraphError", "set WARM_GRAPH_FFI=1"),
            ("derivative", "TypeError", "has no derivative of its own"),
            ("closes", "TypeError", "closes over a value that JAX is tracing"),
            ("stream", "TypeError", "XLA chooses the stream"),
            ("shape", "RuntimeError", "warm: argument 0 is 3x4xf32, not 4x3xf32"),
            ("type", "RuntimeError", "warm: argument 0 is 4x3xi32, not 4x3xf32"),
            ("count", "RuntimeError", "warm: the call has 3 arguments, and the graph has 4"),
            ("unknown", "RuntimeError", "is open in this process: trace the function here"),
        ):
            self.assertRegex(out[what][0], kind + "$", what)
            self.assertIn(words, out[what][1], what)

    def test_an_executable_from_the_cache_calls_its_own_graph(self):
        with kit.Daemon("--nvrtc", os.path.join(kit.TOOLCHAIN, "13.5.37/lib")) as daemon:
            for k in (2, 3, 2, 3):
                daemon.run(SCALED, str(k), WARM_TIMEOUT_MS=5000)
            self.assertEqual(daemon.stats("kinds")["executable"]["hits"], 2)

    def test_a_graph_for_a_gpu_in_a_program_for_the_cpu_is_an_error(self):
        with kit.Daemon("--nvrtc", os.path.join(kit.TOOLCHAIN, "13.5.37/lib")) as daemon:
            kit.stand_in(daemon.folder)
            out = daemon.run(ELSEWHERE, check=False, **kit.driver_settings(daemon.folder))
        self.assertEqual(out.returncode, 1)
        self.assertIn("warm: XLA runs the call on the CPU, and its graph is for a GPU: see `device`", out.stderr)

    def test_a_handler_that_xla_does_not_take_is_an_error(self):
        with kit.Daemon("--nvrtc", os.path.join(kit.TOOLCHAIN, "13.5.37/lib")) as daemon:
            out = daemon.run(TAKEN, check=False, WARM_TIMEOUT_MS=5000)
        self.assertEqual(out.returncode, 1)
        self.assertIn("GraphError: XLA does not take the handler of warm: ", out.stderr)

    def test_our_declarations_are_those_of_xla(self):
        include = os.path.join(sysconfig.get_paths()["purelib"], "jaxlib", "include")
        with kit.Folder() as folder:
            program = os.path.join(folder, "layout")
            subprocess.run(["cc", "-std=c11", "-I", kit.ROOT, "-I", include, "-o", program,
                            os.path.join(HERE, "xla_ffi_layout.c")], check=True)
            subprocess.run([program], check=True)

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
