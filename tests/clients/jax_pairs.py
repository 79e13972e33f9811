# SPDX-License-Identifier: Apache-2.0
"""A sample of the proof of the keys by their compiler: of programs with equal keys XLA makes code that
gives the same bits. `make proof` runs many more."""

import kit

CASES = 40


class Pairs(kit.TestCase):
    def test_equal_keys_give_equal_bits(self):
        proof = kit.proof("xla", CASES)
        self.assertEqual(proof.returncode, 0, proof.stdout)
        self.assertIn(f"{CASES} cases", proof.stdout)


if __name__ == "__main__":
    kit.main()
