# SPDX-License-Identifier: Apache-2.0
"""Backward passes as artifacts: Enzyme-JAX's pass pipeline, and gradients under warm.jax.jit."""

import json
import os
import unittest

import kit
from jax_cache import PROGRAM, JaxCase, outcome

ENZYME = '''
from enzyme_ad.jax import enzyme_jax_ir
import enzyme_ad.jax.primitives as primitives
''' + PROGRAM + '''
@enzyme_jax_ir(argv=())
def enzyme_loss(w, x, y):
    h = jax.nn.relu(x @ w["w0"] + 1)
    return jnp.mean((h @ w["w1"] - y) ** 2)
report(jax.jit(jax.grad(enzyme_loss))(params, x, y))
'''
LATE = PROGRAM + "jax.jit(lambda x: x + 2)(x)\n" + ENZYME  # JAX starts before Enzyme is imported

JIT = PROGRAM + '''
import warm.jax
step = warm.jax.jit(warm.jax.value_and_grad(loss))
report(step(params, x, y))
'''
PLAIN_JIT = PROGRAM + "report(jax.jit(jax.value_and_grad(loss))(params, x, y))\n"


def rename(text):
    return "# moved\n" + (text.replace("loss", "objective").replace('"w0"', '"a0"')
                          .replace('"w1"', '"b1"'))


class BackwardCase(JaxCase):
    def backward(self, daemon):
        return {r["key"]: r["hits"] for r in
                json.loads(daemon.warm("ls", "--json", "--kind", "backward"))}


class Enzyme(BackwardCase):
    def test_the_backward_pass_is_made_once_whatever_names_and_places(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(ENZYME, warm=False)
            self.missed(daemon.run(ENZYME), plain)
            made = self.backward(daemon)
            self.assertEqual(len(made), 1)
            for program in (ENZYME, rename(ENZYME), LATE):
                found = daemon.run(program)
                self.assertEqual(outcome(found)["digest"], outcome(plain)["digest"])
            self.assertEqual(set(self.backward(daemon)), set(made))
            self.assertGreaterEqual(sum(self.backward(daemon).values()), 3)

    def test_what_the_passes_give_is_the_same_in_one_piece_and_split_before_lower_jit(self):
        program = ENZYME + '''
from warm.jax import _enzyme
source = """module @m { func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)
 -> tensor<4xf32> { %0 = stablehlo.multiply %arg0, %arg1 : tensor<4xf32>
 %1 = stablehlo.add %0, %arg0 : tensor<4xf32> return %1 : tensor<4xf32> } }"""
passes = ("canonicalize,cse,enzyme-wrap{infn=main outfn= retTys=enzyme_active "
          "argTys=enzyme_active,enzyme_active mode=ReverseModeCombined},enzyme,canonicalize")
memo = primitives.enzyme_call.run_pass_pipeline
assert isinstance(memo, _enzyme.Memo)
for rest in ("", ",lower-jit", ",lower-jit{jit=true},canonicalize,cse"):
    whole = memo.real(["main"], source, passes + rest)
    for _ in range(2):  # made, then found
        assert memo(["main"], source, passes + rest)[0] == whole[0]
        found = memo(["main"], source, passes + rest)[1]
        assert _enzyme.without_locations(found) == _enzyme.without_locations(whole[1]), found
print("same")
'''
        with kit.Daemon() as daemon:
            self.assertIn("same", daemon.run(program).stdout)

    def test_names_pipeline_and_source_are_in_the_key_and_addresses_are_refused(self):
        program = '''
from warm.jax import _enzyme as e
def name(names=("main",), source="module @m { %0 = a }", pipeline="cse", library="x"):
    return e.name_of(names, source, pipeline, library)
assert name() == name(source='module @n { %0 = a loc("b"(#loc1)) }') == name(names=["main", "main"])
others = [name(names=("main", "f")), name(source="module @m { %0 = b }"), name(pipeline="cse,cse"),
          name(library="y")]
assert len({name(), *others}) == 5
def named(result="r", note="n"):
    head = f'  func.func @f() -> (i32 {{jax.result_info = "{result}"}}) attributes {{jax.result_info = "{note}"}} {{'
    return name(source=head)
def called(note):
    return name(source=f'  func.func @f() {{\\n    custom_call @t() {{jax.result_info = "{note}"}}\\n  }}')
assert named() == named(result="s") != named(note="m") and called("x") != called("y")
assert e.split_pipeline("a{x=lower-jit},b,lower-jit{y=1},c") == ("a{x=lower-jit},b",
                                                                 "lower-jit{y=1},c")
assert e.split_pipeline('a{p="x,lower-jit"},b') == ('a{p="x,lower-jit"},b', "")
assert not e.may_keep("custom_call @enzymexla_compile_cpu_with_error")
assert not e.may_keep("cse{cuResultHandlerPtr=140}")
assert not e.may_keep("@xla_ffi_python_cpu_callback") and e.may_keep("stablehlo.add")
for elided in ("dense_resource<__elided__>", "dense<...>", 'opaque<"elided_large_const", "0xDEAD">'):
    assert not e.may_keep("source", elided)
calls = []
def real(names, source, pipeline):
    calls.append(pipeline)
    return "main_1", "custom_call @enzymexla_compile_gpu" if "bad" in source else source
memo = e.Memo(real, "library")
for _ in range(2):
    memo(["main"], "bad", "cse")
    memo(["main"], "good", "cse")
assert calls == ["cse"] * 3, calls
print("same")
'''
        with kit.Daemon() as daemon:
            self.assertIn("same", daemon.run(program).stdout)

    def test_a_process_that_the_passes_abort_leaves_nobody_waiting(self):
        program = '''
import os, sys, time
from warm.jax import _enzyme as e
def real(names, source, pipeline):
    if sys.argv[1] == "abort":
        print("holds the lease", flush=True)
        time.sleep(3)  # by then the other process waits for the lease, or it asks after the end
        os.abort()
    return "main_1", source
print(e.Memo(real, "library")(["main"], "source", "cse"))
'''
        with kit.Daemon() as daemon:
            dying = daemon.spawn(program, "abort")
            self.assertIn("holds the lease", dying.stdout.readline())
            living = daemon.run(program, "live")
            dying.communicate(timeout=kit.RUN_S)
            self.assertNotEqual(dying.returncode, 0)
            self.assertIn("main_1", living.stdout)

    def test_damaged_results_are_made_anew(self):
        damage = '''
import json, subprocess, sys, warm
assert warm.put(sys.argv[1], warm.get(sys.argv[1])[:-7] if sys.argv[2] == "cut" else b"noise",
                kind="backward")
'''
        with kit.Daemon() as daemon:
            plain = daemon.run(ENZYME)
            rows = json.loads(daemon.warm("ls", "--json", "--kind", "backward"))
            (name,) = [r["name"] for r in rows]
            for how in ("cut", "noise"):
                daemon.run(damage, name, how)
                self.assertEqual(outcome(daemon.run(ENZYME))["digest"], outcome(plain)["digest"])
                whole = "import sys, warm\nprint(warm.get(sys.argv[1]).startswith(b'warm-enzyme'))"
                self.assertIn("True", daemon.run(whole, name).stdout)


class Jit(BackwardCase):
    def test_a_gradient_is_neither_traced_nor_compiled_again(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(PLAIN_JIT, warm=False)
            daemon.run(JIT)
            self.assertEqual(len(self.backward(daemon)), 1)
            for program in (JIT, rename(JIT)):
                again = daemon.run(program)
                self.assertEqual(outcome(again)["digest"], outcome(plain)["digest"])
                self.assertEqual(outcome(again)["misses"], 0)
            ((_, hits),) = self.backward(daemon).items()
            self.assertEqual(hits, 2)

    def test_what_changes_a_gradient_changes_its_key_and_what_cannot_be_known_is_jax_jits(self):
        program = PROGRAM + '''
import warm.jax
from warm.jax import _jit
def name(f, *arguments, **options):
    return warm.jax.jit(f, **options)._trace(arguments, {}).name
v = np.ones(4, "f")
def relu(x): return jax.nn.relu(x).sum()
def maximum(x): return jnp.maximum(x, 0).sum()          # the same forward, another gradient at 0
def stopped(x): return jax.nn.relu(jax.lax.stop_gradient(x)).sum()
def scaled(x): return (jax.nn.relu(x) * 2).sum()
def consts(n): return lambda x: (x * np.arange(n, n + 4, dtype="f")).sum()
grad, both = warm.jax.grad, warm.jax.value_and_grad
names = [name(grad(relu), v), name(both(relu), v), name(grad(maximum), v), name(grad(stopped), v),
         name(grad(scaled), v), name(grad(consts(0)), v), name(grad(consts(1)), v), name(relu, v),
         name(grad(relu), np.ones(5, "f")), name(grad(relu), v, donate_argnums=0),
         name(grad(lambda x, y: relu(x) + relu(y), argnums=0), v, v),
         name(grad(lambda x, y: relu(x) + relu(y), argnums=1), v, v)]
assert len(set(names)) == len(names), names
with jax.default_matmul_precision("highest"):
    assert name(grad(relu), v) not in names
assert name(grad(lambda other: jax.nn.relu(other).sum()), v) == names[0]

@jax.custom_jvp
def mine(x): return x
mine.defjvps(lambda t, result, x: 3 * t)
f = warm.jax.jit(warm.jax.grad(lambda x: mine(x).sum()))
assert (np.asarray(f(v)) == 3).all() and f._is_plain     # a rule of the program's own
g = warm.jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(a) * 2, v, x))
assert (np.asarray(g(v)) == 2).all() and g._is_plain
assert (np.asarray(jax.vmap(warm.jax.jit(lambda x: x * 2))(np.ones((3, 4)))) == 2).all()
h = warm.jax.jit(warm.jax.value_and_grad(lambda p, x: (p["a"] * x).sum()))
for n in (3, 4, 3, 5):                                    # other shapes, other executables
    value, gradient = h({"a": np.full(n, 2, "f")}, np.ones(n, "f"))
    assert value == 2 * n and gradient["a"].shape == (n,)
assert len(h._compiled) == 3
(a, aux), gradient = warm.jax.jit(warm.jax.value_and_grad(lambda x: (x.sum(), {"x": x}),
                                                          has_aux=True))(v)
assert aux["x"].shape == (4,) and gradient.shape == (4,)
print("done")
'''
        with kit.Daemon() as daemon:
            for _ in range(2):  # made, then found
                self.assertIn("done", daemon.run(program).stdout)

    def agrees(self, daemon, program, **settings):
        """Checks that a program prints the same as with jax.jit, after a miss and after a hit."""
        plain = (program.replace("import warm.jax", "").replace("warm.jax.jit", "jax.jit")
                 .replace("warm.jax.grad", "jax.grad"))
        wanted = daemon.run(PROGRAM + plain, warm=False, **settings).stdout
        for _ in range(2):
            self.assertEqual(daemon.run(PROGRAM + program, **settings).stdout, wanted)

    def test_programs_with_one_jaxpr_are_told_apart_by_what_it_does_not_show(self):
        donated = '''
import warm.jax
a, b = jnp.arange(8.) + 0, jnp.ones(8) * 2
jax.block_until_ready(warm.jax.jit(lambda %s: %s * 2 + %s, donate_argnames="x")(a, b))
print(a.is_deleted(), b.is_deleted())
'''
        own = '''
import warm.jax
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir
p = Primitive("sin")                # whatever its name is, it does what this program says
p.def_abstract_eval(lambda x: x)
p.def_impl(lambda x: x)
mlir.register_lowering(p, mlir.lower_fun(lambda x: x * %d, multiple_results=False))
ad.defjvp(p, lambda g, x: g * %d)
print(np.asarray(warm.jax.jit(lambda x: p.bind(x) + 1)(jnp.arange(4.))))
print(np.asarray(warm.jax.jit(warm.jax.grad(lambda x: p.bind(x).sum()))(jnp.arange(4.))))
'''
        wrapped = '''
import functools
import warm.jax
@jax.custom_jvp
def f(x): return x * 2
@f.defjvp
@functools.wraps(jax.nn.silu)       # this gives the rule the name of JAX's module
def rule(p, t): return f(*p), t[0] * %d
print(np.asarray(warm.jax.jit(warm.jax.grad(lambda x: f(x).sum()))(jnp.ones(3))))
'''
        with kit.Daemon() as daemon:
            for names in (("x, y", "x", "y"), ("y, x", "y", "x")):
                self.agrees(daemon, donated % names)
            for factor in (2, 3):
                self.agrees(daemon, own % (factor, factor + 2))
                self.agrees(daemon, wrapped % factor)

    def test_an_executable_runs_only_under_the_settings_and_for_the_types_it_was_made_for(self):
        program = '''
import warm.jax
f = warm.jax.jit(lambda x: x + jnp.ones(2, jnp.float16))
for x in (np.float32(1), 1.0, np.float32(1)):   # 1.0 of Python takes the other's type
    print(f(x).dtype)
g = warm.jax.jit(lambda x: x * np.float64(1.1))
x = jnp.ones(3)
for on in (False, True, False):
    with jax.enable_x64(on):
        print(np.asarray(g(x)), g(x).dtype)
with jax.default_device(jax.devices()[1]):
    print(g(np.ones(3)).devices())
print(g(np.ones(3)).devices())
'''
        with kit.Daemon() as daemon:
            self.agrees(daemon, program, XLA_FLAGS="--xla_force_host_platform_device_count=2")

    def test_what_jax_jit_traces_again_is_traced_again(self):
        program = '''
import functools
import warm.jax
scale = 1
def scaled(x): return x * scale
def loss(x): return (x * x * scale).sum()
x = jnp.arange(3.)
f, g = warm.jax.jit(scaled), warm.jax.jit(warm.jax.grad(loss))
print(f(x), g(x))
for clear in (f.clear_cache, g.clear_cache, jax.clear_caches):
    scale += 1
    print(warm.jax.jit(warm.jax.grad(loss))(x))     # another gradient of the same function
    clear()
    print(f(x), g(x))
class Model:
    def __init__(self, scale): self.scale = scale
    @functools.partial(warm.jax.jit, static_argnums=0)
    def scaled(self, x): return x * self.scale
print(Model(2).scaled(x), Model(3).scaled(x))
'''
        with kit.Daemon() as daemon:
            self.agrees(daemon, program)

    def test_the_code_of_a_gradient_runs_as_often_as_under_jax_jit(self):
        program = '''
import warm.jax
np.random.seed(3)
def loss(x):
    print("traced")
    return (x * x * np.random.rand()).sum()
@jax.custom_jvp
def own(x): return x * 2
own.defjvps(lambda t, result, x: 3 * t)
for f in (loss, lambda x: loss(own(x))):            # the second is not kept
    step = warm.jax.jit(warm.jax.grad(f))
    print(step(jnp.arange(3.)), step(jnp.arange(3.) + 1), np.random.rand())
'''
        with kit.Daemon() as daemon:
            self.agrees(daemon, program)

    def test_custom_calls_are_ready_before_a_loaded_executable_runs(self):
        """Lowering initializes LAPACK. A program that loads its executable does not lower, and would crash."""
        program = PROGRAM + '''
import warm.jax
report(warm.jax.jit(lambda a: jnp.linalg.eigh(a))(np.eye(4, dtype="f") + 1))
'''
        with kit.Daemon() as daemon:
            plain = daemon.run(program)
            self.assertEqual(outcome(daemon.run(program))["digest"], outcome(plain)["digest"])

    def test_off_it_is_jax_jit(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(PLAIN_JIT, warm=False)
            path = os.path.join(kit.BUILD, "share", "warm", "python")
            found = daemon.run(JIT, warm=False, PYTHONPATH=path, WARM_DISABLE=1)
            self.assertEqual(outcome(found)["digest"], outcome(plain)["digest"])
            self.assertEqual(daemon.stats("entries"), 0)


if __name__ == "__main__":
    unittest.main()
