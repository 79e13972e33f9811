# SPDX-License-Identifier: Apache-2.0
"""A sample of the proof of the keys of FX graphs by their compiler: of graphs with equal keys Inductor
makes code that gives the same bits. `make proof` runs many more."""

import kit

CASES = 20


class Pairs(kit.TestCase):
    def test_equal_keys_give_equal_bits(self):
        proof = kit.proof("fx", CASES)
        self.assertEqual(proof.returncode, 0, proof.stdout)
        self.assertIn(f"{CASES} cases", proof.stdout)


if __name__ == "__main__":
    kit.main()
