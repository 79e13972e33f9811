# SPDX-License-Identifier: Apache-2.0
"""jitcmp.py of `make test-gpu` tells machine code apart: on cubins of ptxas, compiled whole, and compiled for
linking and linked by nvlink."""

import os
import shutil
import subprocess
import sys

import kit

BIN = os.path.dirname(kit.NVCC) if kit.NVCC else ""
PROGRAM = os.path.join(kit.ROOT, "tests", "gpu", "jitcmp.py")
# Both call a function: whole, ptxas inlines it, or passes arguments as it likes.
PTX = """.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 out) square(.param .b32 in) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [in]; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret;
}
.visible .entry squares(.param .u64 p) {
  .reg .b32 %r<4>; .reg .b64 %d<5>;
  ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1;
  mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d2, %d3;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), square, (a); ld.param.b32 %r2, [b]; }
  add.u32 %r3, %r2, NUMBER; st.global.u32 [%d4], %r3; ret;
}
"""


@kit.unittest.skipUnless(kit.NVCC and shutil.which("ptxas", path=BIN) and shutil.which("nvlink", path=BIN),
                         "no ptxas and nvlink here")
class Compares(kit.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = kit.Folder()
        folder = cls.folder.__enter__()
        cls.addClassCleanup(cls.folder.__exit__)
        for name, number in (("one", "1"), ("two", "2")):
            with open(os.path.join(folder, name + ".ptx"), "w") as f:
                f.write(PTX.replace("NUMBER", number))
            cls.tool("ptxas", "-arch=sm_90", name + ".ptx", "-o", name + ".cubin")
            cls.tool("ptxas", "-arch=sm_90", "-c", name + ".ptx", "-o", name + ".o")
            cls.tool("nvlink", "-arch=sm_90", name + ".o", "-o", name + ".linked")

    @classmethod
    def tool(cls, name, *arguments):
        subprocess.run([os.path.join(BIN, name), *arguments], cwd=cls.folder.path, check=True)

    def compare(self, a, b):
        return subprocess.run([sys.executable, PROGRAM, "--files", a, b], cwd=self.folder.path, check=True,
                              capture_output=True, text=True, timeout=60).stdout.split(" ", 1)

    def test_a_cubin_equals_itself_and_no_other(self):
        self.assertEqual(self.compare("one.cubin", "one.cubin")[0], "same")
        self.assertEqual(self.compare("one.cubin", "two.cubin"), ["differ", "['squares']\n"])

    def test_a_cubin_is_found_in_a_file_of_a_cache(self):
        with open(os.path.join(self.folder.path, "one.cubin"), "rb") as f:
            cubin = f.read()
        with open(os.path.join(self.folder.path, "kept"), "wb") as f:
            f.write(b"\x7fELF\x02" + b"a header of the driver" * 9 + cubin + b"\0tail" * 99)
        self.assertEqual(self.compare("kept", "one.cubin")[0], "same")
        self.assertEqual(self.compare("kept", "two.cubin")[0], "differ")

    def test_a_linked_cubin_with_other_code_differs(self):
        self.assertEqual(self.compare("one.cubin", "one.linked")[0], "differ")


if __name__ == "__main__":
    kit.main()
