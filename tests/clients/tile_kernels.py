# SPDX-License-Identifier: Apache-2.0
"""cuTile's compiler, the program tileiras, which cuTile starts: cubins for sm_100, without a GPU."""

import os
import unittest

import kit

PROGRAM = r'''
import hashlib, io, os
import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, CallingConvention, ConstantConstraint, KernelSignature, export_kernel

@ct.kernel
def add(a, b, c, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(c, index=(i,), tile=ct.load(a, index=(i,), shape=(T,)) FACTOR ct.load(b, index=(i,), shape=(T,)))

array = ArrayConstraint(ct.float32, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[],
                        may_alias_internally=False, stride_constant=[1], base_addr_divisible_by=16)
signature = KernelSignature(parameters=[array] * 3 + [ConstantConstraint(1024)],
                            calling_convention=CallingConvention.cutile_python_v1())
out = io.BytesIO()
export_kernel(add, [signature], out, gpu_code=os.environ.get("CHIP", "sm_100"), output_format="cubin")
print(hashlib.sha256(out.getvalue()).hexdigest())
'''


class Kernels(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)
        self.homes = 0

    def test_every_option_of_help_has_a_row(self):
        tileiras = os.path.join(os.path.dirname(kit.NVCC), "tileiras")
        self.assertEqual(kit.options_without_a_row(self.daemon, tileiras), [])

    def run_in_a_new_home(self, folder="program", operator="+", warm=True, **settings):
        """Returns the digest of the cubin, and how many hits and misses of objects it had."""
        self.homes += 1
        places = {name: os.path.join(self.daemon.folder, f"{name}{self.homes}") for name in ("home", "tmp")}
        where = os.path.join(self.daemon.folder, folder)
        for place in (*places.values(), where):
            os.makedirs(place, exist_ok=True)
        path = os.path.join(where, "kernels.py")
        with open(path, "w") as f:
            f.write(PROGRAM.replace("FACTOR", operator))
        before = self.counts()
        ran = self.daemon.run([kit.sys.executable, path], warm=warm, HOME=places["home"], TMPDIR=places["tmp"],
                              XDG_CACHE_HOME=None, **settings)
        after = self.counts()
        return ran.stdout.strip(), after[0] - before[0], after[1] - before[1]

    def counts(self):
        kind = self.daemon.stats("kinds").get("object", {"hits": 0, "puts": 0})
        return kind["hits"], kind["puts"]

    def test_a_kernel_of_the_same_file_is_warm_in_another_home_with_the_same_bits(self):
        plain, *_ = self.run_in_a_new_home(warm=False)
        self.assertEqual(self.run_in_a_new_home(), (plain, 0, 1))
        self.assertEqual(self.run_in_a_new_home(), (plain, 1, 0))

    def test_a_file_elsewhere_gets_a_cubin_with_its_own_line_table(self):
        self.run_in_a_new_home()
        plain, *_ = self.run_in_a_new_home("elsewhere", warm=False)
        self.assertEqual(self.run_in_a_new_home("elsewhere"), (plain, 0, 1))

    def test_another_kernel_and_another_target_have_other_cubins(self):
        first, *_ = self.run_in_a_new_home()
        for settings in ({"operator": "*"}, {"CHIP": "sm_120"}):
            plain, *_ = self.run_in_a_new_home(warm=False, **settings)
            self.assertEqual(self.run_in_a_new_home(**settings), (plain, 0, 1))
            self.assertEqual(self.run_in_a_new_home(), (first, 1, 0))


if __name__ == "__main__":
    unittest.main()
