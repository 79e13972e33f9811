# SPDX-License-Identifier: Apache-2.0
"""A sample of the proof of the keys of FX graphs by their compiler: of graphs with equal keys Inductor
makes code that gives the same bits. `make proof` runs many more."""

import kit


class Pairs(kit.TestCase):
    def test_equal_keys_give_equal_bits(self):
        kit.prove(self, "fx", 20)


if __name__ == "__main__":
    kit.main()
