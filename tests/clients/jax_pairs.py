# SPDX-License-Identifier: Apache-2.0
"""A sample of the proof of the keys by their compiler: of one program in two spellings XLA makes one
executable. `make proof` runs many more."""

import kit


class Pairs(kit.TestCase):
    def test_spellings_of_one_program_make_one_executable(self):
        kit.prove(self, "xla", 40)


if __name__ == "__main__":
    kit.main()
