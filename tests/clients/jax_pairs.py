# SPDX-License-Identifier: Apache-2.0
"""A sample of the proof of the keys by their compiler: of programs with equal keys XLA makes code that
gives the same bits. `make proof` runs many more."""

import kit


class Pairs(kit.TestCase):
    def test_equal_keys_give_equal_bits(self):
        kit.prove(self, "xla", 40)


if __name__ == "__main__":
    kit.main()
