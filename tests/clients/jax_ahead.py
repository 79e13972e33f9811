# SPDX-License-Identifier: Apache-2.0
"""Executables that another thread loads while JAX traces and lowers. JAX takes one if the guess was
right, and only then."""

import json
import unittest

import kit
from jax_cache import PROGRAM, JaxCase, outcome

# A network that is deep enough to be worth a thread. Guesses do not depend on its factor.
DEEP = PROGRAM + '''
import warm.jax
from warm.jax import _ahead
jax.devices()  # JAX calls plugins when it starts its backend: before that nothing is foreseen
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
# Two networks with the same arguments and results, but other operations.
TWO = DEEP.replace("jnp.sin(x @ p)", "(jnp.sin if sys.argv[3] == 'sin' else jnp.cos)(x @ p)")
# Notes which guesses are made, and which of them load something.
WATCHED = """
import json
from warm.jax import _ahead, _foresight
made, loaded = [], []
class Guess(_ahead.Guess):
    def __init__(self, outline, load):
        made.append(self)
        super().__init__(outline, lambda hint: loaded.append(made.index(self)) or load(hint))
outline = _foresight._Guesser._outline
def noted(self, backend, when):
    whens.append(when)
    return outline(self, backend, when)
whens = []
_ahead.Guess, _foresight._Guesser._outline = Guess, noted
"""
RENAMED = "# elsewhere\n" + DEEP.replace("deep", "tall").replace("weights", "blocks")


def split(process):
    """Returns what report() printed, and which guesses were right."""
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
        """Two functions have one outline and other numbers. Each gets its own executable."""
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

    def watched(self, daemon, factor, kind):
        """Runs a program. Returns what report() printed, which guesses were right, and a pair: the kinds of
        hints in their order, and the numbers of the guesses that loaded."""
        out = daemon.run(WATCHED + TWO + "print(json.dumps([whens, loaded]))", "jit", factor, kind).stdout
        *_, said, taken, seen = out.splitlines()
        return json.loads(said), json.loads(taken), json.loads(seen)

    def test_it_is_loaded_while_jax_traces_and_only_once(self):
        with kit.Daemon() as daemon:
            cold, taken, (whens, loaded) = self.watched(daemon, "2", "sin")
            self.assertEqual((whens, loaded), (["trace", "lower"], []))
            warm, taken, (whens, loaded) = self.watched(daemon, "2", "sin")
            self.assertEqual((taken, loaded), ([True], [0]))
            self.assertEqual((warm["digest"], warm["misses"]), (cold["digest"], 0))

    def test_a_guess_by_the_arguments_gives_way_to_one_by_the_jaxpr(self):
        """Two programs run in turns. The guess by the arguments is wrong until it is no longer followed. The
        guess by the jaxpr is right."""
        with kit.Daemon() as daemon:
            cold = {kind: self.watched(daemon, "2", kind)[0] for kind in ("sin", "cos")}
            seen = []
            for kind in ("sin", "cos") * 2:
                warm, taken, (_, loaded) = self.watched(daemon, "2", kind)
                self.assertEqual((warm["digest"], warm["misses"]), (cold[kind]["digest"], 0))
                self.assertEqual(taken, [True])
                seen.append(loaded)
            self.assertEqual(seen, [[0, 1], [1], [1], [1]])
            for _ in range(3):  # from here on only one of the programs
                _, taken, (_, loaded) = self.watched(daemon, "2", "cos")
                self.assertEqual(taken, [True])
                seen.append(loaded)
            self.assertEqual(seen[4:], [[1], [1], [0]])

    def test_few_functions_are_guessed_at_by_their_arguments_each_once(self):
        program = WATCHED + '''
import jax, jax.numpy as jnp, numpy as np
jax.devices()
many = [np.ones(4, "f")] * 16
def total(vs):
    return sum(vs)
assert jax.eval_shape(total, many).shape == jax.eval_shape(total, many).shape == (4,)
assert whens.count("trace") == 1  # each function once
jax.vmap(jax.jit(lambda vs: sum(vs)))(many)  # within another transformation
jax.jit(lambda vs: sum(vs))(many[1:])  # few arguments
assert whens.count("trace") == 1
for _ in range(70):
    jax.jit(lambda vs: sum(vs)).trace(many)
print(whens.count("trace"))
'''
        with kit.Daemon() as daemon:
            self.assertEqual(daemon.run(program).stdout, "64\n")

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
            self.assertEqual(self.hints(daemon), 2)  # one by the arguments, one by the jaxpr
            before = daemon.stats()
            _, taken = self.go(daemon, "jit", "2")
            after = daemon.stats()
            self.assertEqual(taken, [True])
            self.assertEqual(after["misses"], before["misses"])
            _, taken = self.go(daemon, "jit", "2", WARM_RECACHE=1)
            self.assertNotIn(True, taken)

    def hints(self, daemon):
        rows = json.loads(daemon.warm("ls", "--json", "--all"))
        return sum(r["name"].startswith("jax:ahead:") for r in rows)

    def test_a_fork_does_not_wait_for_what_its_parent_guessed(self):
        program = '''
import json, os, sys, time
from warm.jax import _ahead
import warm
assert warm.put(_ahead.HINT + "o", json.dumps({"name": "n", "doubt": 0}).encode())
assert warm.put(_ahead.HINT + "doubted", json.dumps({"name": "n", "doubt": 2}).encode())
guess = _ahead.Guess("o", lambda hint: time.sleep(2) or "loaded")
assert guess.says("name", "n") and not guess.says("name", "m")
child = os.fork()
if child == 0:
    os._exit(3 if guess.take("n") is None else 4)
assert os.waitpid(child, 0)[1] >> 8 == 3
assert guess.take("m") is None and guess.take("n") == "loaded" and guess.take("n") is None
def broken(hint):
    raise ValueError("it does not load")
assert _ahead.Guess("o", broken).take("n") is None
assert _ahead.Guess("nothing", broken).take("n") is None
doubted = _ahead.Guess("doubted", lambda hint: "loaded")
assert doubted.take("n") is None and doubted.says("name", "n")
doubted.learn({"name": "n"})
assert _ahead.Guess("doubted", lambda hint: "loaded").take("n") == "loaded"
for damaged in (b"", b"{", b"[]", b'"n"', b'{"name": "n"}', b'{"name": "n", "doubt": "much"}'):
    assert warm.put(_ahead.HINT + "damaged", damaged)
    assert _ahead.Guess("damaged", lambda hint: "loaded").take("n") is None
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
