# SPDX-License-Identifier: Apache-2.0
"""warm.jax.jit where a program changes what JAX makes of a function: rules for JAX's own primitives, settings with which
jax.jit looks at results, and dumps. Each pair of programs runs in both orders, in fresh processes.
"""

import json
import os
import unittest

import kit

HEAD = """if True:
    import json, sys
    import jax, jax.numpy as jnp
    from jax import lax
    from jax._src.lax import lax as L
    from jax._src.interpreters import ad, batching, mlir
    from jax._src.lib.mlir.dialects import hlo
    is_b = sys.argv[1] == "B"
    try:
        import warm.jax as w
        jit, grad = w.jit, w.grad
    except ImportError:
        jit, grad = jax.jit, jax.grad
    x = jnp.linspace(-1, 1, 8)
    def show(name, value): print(json.dumps([name, jnp.asarray(value).tolist()]))
"""
# Each has one effect in A and another one in B.
RULES = {
    "a lowering": """
    rule = hlo.cosine if is_b else hlo.sine
    mlir.register_lowering(L.sinh_p, lambda ctx, v, **k: [rule(v)])
    show("lowering", jit(lambda y: jnp.sinh(y))(x))
""",
    "a lowering that is JAX's own, of another primitive": """
    if is_b: mlir._lowerings[L.sinh_p] = mlir._lowerings[L.cosh_p]
    show("swap", jit(lambda y: jnp.sinh(y))(x))
""",
    "a derivative": """
    ad.defjvp(L.tan_p, lambda g, v, **k: g * (3. if is_b else 2.))
    show("derivative", jit(grad(lambda y: lax.tan(y).sum()))(x))
""",
    "a derivative that is JAX's own, of another primitive": """
    ad.primitive_jvps[L.sinh_p] = ad.primitive_jvps[L.cosh_p if is_b else L.asinh_p]
    show("swap", jit(grad(lambda y: lax.sinh(y).sum()))(x))
""",
    "a transposition": """
    ad.primitive_transposes[L.neg_p] = lambda t, v: [t * (3. if is_b else 2.)]
    show("transposition", jit(grad(lambda y: (-y).sum()))(x))
""",
    "a function that a rule calls": """
    real = L.cosh
    L.cosh = lambda v: real(v) * (3. if is_b else 1.)
    show("called", jit(grad(lambda y: jnp.sinh(y).sum()))(x))
""",
    "a function of JAX in the place of another that a rule calls": """
    if is_b: L.mul = L.add
    show("called", jit(grad(lambda y: lax.exp(y).sum()))(x))
""",
    "a method of JAX's": """
    real = ad.LinearizeTrace.process_primitive
    def process(self, primitive, *a, **k):
        return real(self, L.cos_p if primitive is L.sin_p and is_b else primitive, *a, **k)
    ad.LinearizeTrace.process_primitive = process
    show("method", jit(grad(lambda y: lax.sin(y).sum()))(x))
""",
    "the code of a function of JAX, exchanged in place after a compile": """
    jit(grad(lambda y: lax.exp(y).sum()))(x)
    if is_b: L.mul.__code__ = L.add.__code__
    show("code", jit(grad(lambda y: lax.exp(y).sum()))(x[:4]))
""",
    "a default of a function of JAX, changed in place": """
    from jax._src.lax import linalg
    linalg.triangular_solve.__kwdefaults__["unit_diagonal"] = is_b
    show("default", jit(grad(lambda y: lax.linalg.cholesky(jnp.diag(y) + 2 * jnp.eye(8)).sum()))(x))
""",
    "defaults of a function of JAX, exchanged after a compile": """
    from jax._src.lax import linalg
    solve = linalg.triangular_solve
    gradient = lambda scale: grad(lambda y: lax.linalg.cholesky(jnp.diag(y) + scale * jnp.eye(8)).sum())
    jit(gradient(2))(x)
    solve.__kwdefaults__ = {**solve.__kwdefaults__, "unit_diagonal": is_b}
    show("defaults", jit(gradient(3))(x))
""",
    "a function of jaxlib": """
    from jax._src.lib import lapack
    def absent(*of): raise NotImplementedError("absent")
    if is_b: lapack.build_lapack_fn_target = absent
    try: show("function", jit(lambda y: lax.linalg.cholesky(jnp.diag(y) + 2 * jnp.eye(8)))(x))
    except NotImplementedError as e: print(e)
""",
    "how random keys of the program give bits": """
    import jax.extend.random
    factor = 3 if is_b else 2
    def seed(n): return jnp.array([n, 1], jnp.uint32)
    def split(k, shape): return jnp.broadcast_to(k, (*shape, 2))
    def bits(k, width, shape): return jnp.full(shape, k[0] * factor)
    def fold(k, n): return k
    kind = jax.extend.random.define_prng_impl(
        key_shape=(2,), seed=seed, split=split, random_bits=bits, fold_in=fold, name="own", tag="own")
    key = jax.random.wrap_key_data(jnp.array([5, 1], jnp.uint32), impl=kind)
    show("keys", jit(lambda k: jax.random.bits(k, (2,)))(key))
""",
    "a builder of MLIR in the place of another": """
    if is_b: hlo.sine = hlo.cosine
    show("builder", jit(lambda y: lax.sin(y))(x))
""",
}
PLAIN = """
    show("plain", jit(lambda y: jnp.sinh(y) * 2)(x))
    show("gradient", jit(grad(lambda y: (jnp.sin(y) * y).sum()))(x))
"""


class Rules(kit.TestCase):
    def run_one(self, daemon, text, side, warm=True, **settings):
        return daemon.run(HEAD + text, side, warm=warm, JAX_PLATFORMS="cpu", **settings).stdout  # no GPU is looked for

    def test_a_rule_for_a_primitive_of_jax_counts(self):
        with kit.Daemon() as daemon:
            for name, text in RULES.items():
                with self.subTest(name):
                    plain = {side: self.run_one(daemon, text, side, warm=False) for side in "AB"}
                    self.assertNotEqual(plain["A"], plain["B"])
                    for order in ("AB", "BA"):
                        daemon.warm("clear", "--yes")
                        for side in order:
                            self.assertEqual(self.run_one(daemon, text, side), plain[side], order)

    def test_with_jaxs_own_rules_the_second_process_hits(self):
        with kit.Daemon() as daemon:
            first = self.run_one(daemon, PLAIN, "A")
            self.assertEqual(self.run_one(daemon, PLAIN, "A", PYTHONHASHSEED="7", WARM_SESSION="second"), first)
            self.assertIn("3 hits, 0 coalesced, 0 misses", daemon.warm("why", "--session", "second"))

    def test_a_rule_for_the_programs_own_primitive_costs_no_hit(self):
        own = """
    from jax._src import core
    mine = core.Primitive("mine")
    mlir.register_lowering(mine, lambda ctx, v: [v])
    ad.defjvp(mine, lambda g, v: g)
"""
        with kit.Daemon() as daemon:
            first = self.run_one(daemon, own + PLAIN, "A")
            self.assertEqual(self.run_one(daemon, own + PLAIN, "A", WARM_SESSION="second"), first)
            self.assertIn("3 hits, 0 coalesced, 0 misses", daemon.warm("why", "--session", "second"))

    NANS = """
    log = jit(lambda y: jnp.log(y))
    before = log(x)
    for setting in ("jax_debug_nans", "jax_debug_infs"):
        jax.config.update(setting, True)
        for call in (log, jit(lambda y: jnp.log(y) * 2), jit(lambda y: 1 / (y * 0))):
            try: call(x); print("no error")
            except FloatingPointError as e: print(type(e).__name__, str(e).split(chr(10))[0])
        jax.config.update(setting, False)
    show("after", jnp.nan_to_num(log(x)))
"""

    def test_debug_nans_raises_what_jax_jit_raises(self):
        with kit.Daemon() as daemon:
            plain = self.run_one(daemon, self.NANS, "A", warm=False)
            self.assertIn("FloatingPointError", plain)
            for _ in range(2):
                self.assertEqual(self.run_one(daemon, self.NANS, "A"), plain)


class Dumps(kit.TestCase):
    def dumped(self, daemon, text, warm, setting):
        with kit.Folder() as folder:
            daemon.run(HEAD + text, "A", warm=warm, JAX_PLATFORMS="cpu", **{setting[0]: setting[1].format(folder)})
            return sum(len(files) for _, _, files in os.walk(folder))

    def test_a_dump_is_whole_and_nothing_is_kept(self):
        for setting in (("XLA_FLAGS", "--xla_dump_to={}"), ("JAX_DUMP_IR_TO", "{}")):
            with self.subTest(setting[0]), kit.Daemon() as daemon:
                plain = self.dumped(daemon, PLAIN, False, setting)
                self.assertGreater(plain, 2)
                self.assertEqual(self.dumped(daemon, PLAIN, True, setting), plain)
                rows = json.loads(daemon.warm("ls", "--json"))
                self.assertEqual([r["name"] for r in rows if (r["name"] or "").startswith(("jax:", "jaxjit:"))], [])
                daemon.run(HEAD + PLAIN, "A", JAX_PLATFORMS="cpu")
                self.assertEqual(self.dumped(daemon, PLAIN, True, setting), plain)

    def test_what_xla_logs_of_a_compile_is_there_each_time(self):
        logs = {"TF_CPP_VMODULE": "cpu_compiler=1", "TF_CPP_MIN_LOG_LEVEL": "0", "JAX_PLATFORMS": "cpu"}
        with kit.Daemon() as daemon:
            for _ in range(2):
                self.assertIn("Compiling", daemon.run(HEAD + PLAIN, "A", **logs).stderr)

    def test_how_constants_would_be_dumped_costs_no_hit(self):
        with kit.Daemon() as daemon:
            daemon.run(HEAD + PLAIN, "A", JAX_PLATFORMS="cpu")
            hits = daemon.stats("hits")
            daemon.run(HEAD + PLAIN, "A", JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_dump_large_constants=true")
            self.assertGreater(daemon.stats("hits"), hits)


if __name__ == "__main__":
    unittest.main()
