# SPDX-License-Identifier: Apache-2.0
"""Executables that another thread loads while JAX lowers: taken where the guess was right, and only
there."""

import json
import unittest

import kit
from jax_cache import PROGRAM, JaxCase, outcome

# A deep network, so that it is worth a thread; its factor is no part of what a guess goes by.
DEEP = PROGRAM + '''
import warm.jax
from warm.jax import _ahead
taken = []
take = _ahead.Guess.take
def counted(self, name):
    result = take(self, name)
    taken.append(result is not None)
    return result
_ahead.Guess.take = counted
rng = np.random.default_rng(0)
weights = [(rng.standard_normal((16, 16)) * .2).astype("f") for _ in range(24)]
start = rng.standard_normal((4, 16)).astype("f")

def deep(ps, x):
    for p in ps:
        x = jax.nn.relu(jnp.sin(x @ p) + x)
    return jnp.mean(x * x) * float(sys.argv[2])

gradient = {"jit": lambda: jax.jit(jax.value_and_grad(deep)),
            "warm": lambda: warm.jax.jit(warm.jax.value_and_grad(deep))}[sys.argv[1]]()
report(gradient(weights, start))
print(json.dumps(taken))
'''
RENAMED = "# elsewhere\n" + DEEP.replace("deep", "tall").replace("weights", "blocks")


def split(process):
    """What report() said, and which guesses were right."""
    *_, said, taken = process.stdout.splitlines()
    return json.loads(said), json.loads(taken)


class Ahead(JaxCase):
    def go(self, daemon, form, factor, program=DEEP, **settings):
        return split(daemon.run(program, form, factor, **settings))

    def test_a_hit_is_loaded_ahead_with_the_same_bits(self):
        with kit.Daemon() as daemon:
            for form in ("jit", "warm"):
                with self.subTest(form):
                    cold, taken = self.go(daemon, form, "2")
                    self.assertNotIn(True, taken)
                    for program in (RENAMED, DEEP):
                        warm, taken = self.go(daemon, form, "2", program)
                        self.assertEqual(taken, [True])
                        self.assertEqual(warm["digest"], cold["digest"])
                        self.assertEqual(warm["misses"], 0)

    def test_a_wrong_guess_is_dropped(self):
        """Functions of one outline with other numbers: each gets its own executable."""
        with kit.Daemon() as daemon:
            for form in ("jit", "warm"):
                cold = {f: self.go(daemon, form, f)[0]["digest"] for f in ("2", "3")}
                self.assertEqual(len(set(cold.values())), 2)
                right = []
                for factor in ("3", "2", "2", "3"):
                    warm, taken = self.go(daemon, form, factor)
                    self.assertEqual(warm["digest"], cold[factor], form)
                    self.assertEqual(warm["misses"], 0)
                    right += taken
                self.assertEqual(right, [True, False, True, False])

    def test_a_damaged_entry_that_was_guessed_heals(self):
        damage = '''
import sys, warm
value = warm.get(sys.argv[1])
assert warm.put(sys.argv[1], value[:-9] + bytes([value[-9] ^ 1]) + value[-8:], kind=sys.argv[2])
'''
        with kit.Daemon() as daemon:
            for form, kind in (("jit", "executable"), ("warm", "backward")):
                cold, _ = self.go(daemon, form, "2")
                rows = json.loads(daemon.warm("ls", "--json", "--kind", kind))
                (name,) = [r["name"] for r in rows if r["bytes"] > 16384]
                daemon.run(damage, name, kind)
                found, taken = self.go(daemon, form, "2")
                self.assertEqual((found["digest"], taken), (cold["digest"], [False]))
                warm, taken = self.go(daemon, form, "2")
                self.assertEqual((warm["digest"], taken), (cold["digest"], [True]))

    def test_hints_are_neither_hits_nor_misses_and_obey_the_switches(self):
        with kit.Daemon() as daemon:
            self.go(daemon, "jit", "2", WARM_READONLY=1)
            self.assertEqual(self.hints(daemon), 0)
            self.go(daemon, "jit", "2")
            _, taken = self.go(daemon, "jit", "2")
            self.assertEqual(self.hints(daemon), 1)
            before = daemon.stats()
            _, taken = self.go(daemon, "jit", "2")
            after = daemon.stats()
            self.assertEqual(taken, [True])
            self.assertEqual(after["misses"], before["misses"])
            _, taken = self.go(daemon, "jit", "2", WARM_RECACHE=1)
            self.assertNotIn(True, taken)

    def hints(self, daemon):
        rows = json.loads(daemon.warm("ls", "--json", "--kind", "other"))
        return sum(r["name"].startswith("jax:ahead:") for r in rows)

    def test_a_fork_does_not_wait_for_what_its_parent_guessed(self):
        program = '''
import json, os, sys, time
from warm.jax import _ahead
import warm
assert warm.put(_ahead.HINT + "o", json.dumps({"name": "n"}).encode())
guess = _ahead.Guess("o", lambda hint: time.sleep(2) or "loaded")
assert guess.is_of("n") and not guess.is_of("m")
child = os.fork()
if child == 0:
    os._exit(3 if guess.take("n") is None else 4)
assert os.waitpid(child, 0)[1] >> 8 == 3
assert guess.take("m") is None and guess.take("n") == "loaded" and guess.take("n") is None
def broken(hint):
    raise ValueError("it does not load")
assert _ahead.Guess("o", broken).take("n") is None
assert _ahead.Guess("nothing", broken).take("n") is None
print("same")
'''
        with kit.Daemon() as daemon:
            self.assertIn("same", daemon.run(program).stdout)

    def test_the_collector_works_again_after_imports_and_calls(self):
        program = '''
import gc, sys, weakref
if sys.argv[1] == "late":
    import jax
import warm.jax
frozen = gc.get_freeze_count()
import jax, numpy as np
f = warm.jax.jit(warm.jax.grad(lambda x: (x * x).sum()))
assert (np.asarray(f(np.ones(4, "f"))) == 2).all() and gc.isenabled()
class Cycle:
    pass
c = Cycle()
c.me, seen = c, weakref.ref(c)
del c
gc.collect()
assert seen() is None
print(frozen > 0)
'''
        with kit.Daemon() as daemon:
            self.assertIn("True", daemon.run(program, "early").stdout)
            self.assertIn("False", daemon.run(program, "late").stdout)


if __name__ == "__main__":
    unittest.main()
