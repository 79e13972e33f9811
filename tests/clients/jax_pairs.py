# SPDX-License-Identifier: Apache-2.0
"""A sample of the proof of keys by the compiler: XLA makes one executable of two spellings of a program.
`make proof` runs many more."""

import kit


class Pairs(kit.TestCase):
    def test_spellings_of_one_program_make_one_executable(self):
        kit.prove(self, "xla", 40)


if __name__ == "__main__":
    kit.main()
