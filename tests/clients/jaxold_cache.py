# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs with the oldest supported JAX. They start warm, too, and hit exactly if the program
is the same. Versions of JAX differ only in how they are hooked. jax_cache.py tests the rest, with a newer
JAX."""

import unittest

import jax_cache
import kit


def only(case, *names):
    """Returns a test case with the named tests of `case`."""
    return type(case.__name__, (jax_cache.JaxCase,),
                {n: f for n, f in vars(case).items() if not n.startswith("test_") or n in names})


Keys = only(
    jax_cache.Keys,
    "test_another_process_with_other_names_in_another_folder_hits_with_the_same_bits",
    "test_variants_hit_exactly_where_the_program_is_the_same",
)
Faults = only(
    jax_cache.Faults,
    "test_a_program_with_callbacks_is_loaded_with_those_of_its_own_process",
    "test_custom_partitioning_is_never_stored_and_why_says_so",
    "test_custom_calls_that_are_not_there_are_no_crash",
    "test_without_a_daemon_the_program_runs_as_ever",
)
Together = jax_cache.Together

INSIDE = """
import os
os.environ["WARM_GRAPH_FFI"] = "1"
import jax
import warm.graph

jax.jit(warm.graph.value_and_grad(lambda x: x * x, device="cpu"))(2.0)
"""


class Graphs(kit.TestCase):
    def test_inside_of_jit_needs_a_newer_jax_and_says_so(self):
        with kit.Daemon() as daemon:
            out = daemon.run(INSIDE, check=False)
        self.assertEqual(out.returncode, 1)
        self.assertIn("GraphError: jax 0.4.34 has no jax.ffi: a graph inside of jax.jit needs it", out.stderr)


if __name__ == "__main__":
    unittest.main()
