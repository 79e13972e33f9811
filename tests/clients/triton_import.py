# SPDX-License-Identifier: Apache-2.0
"""Import and export of Triton's cache folder, which Triton itself writes and reads."""

import glob
import os
import subprocess
import sys

import kit

PROGRAM = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "six_kernels.py")]
FEW = ("add", "softmax")


class Folders(kit.TestCase):
    def compile_in(self, daemon, folder, warm):
        return kit.result(daemon.run(PROGRAM, "90", *FEW, warm=warm, TRITON_CACHE_DIR=folder))

    def test_a_folder_that_triton_wrote_is_warm_in_an_empty_one(self):
        with kit.Daemon() as daemon, kit.Folder() as root:
            old, new = os.path.join(root, "old"), os.path.join(root, "new")
            plain = self.compile_in(daemon, old, warm=False)
            self.assertIn(f"imported {len(FEW)} entries", daemon.warm("import", "--from", "triton", old))
            warm = self.compile_in(daemon, new, warm=True)
            self.assertEqual((warm["hits"], warm["misses"]), (len(FEW), 0))
            self.assertEqual(warm["cubins"], plain["cubins"])

    def test_a_folder_that_was_exported_is_warm_without_warm(self):
        with kit.Daemon() as daemon, kit.Folder() as root:
            cold = self.compile_in(daemon, os.path.join(root, "cold"), warm=True)
            out, archive = os.path.join(root, "out"), os.path.join(root, "archive")
            daemon.warm("export", "--to", out)
            daemon.warm("export", archive)
            with kit.Daemon() as other:  # as on another machine
                other.warm("import", archive)
                other.warm("export", "--to", out + "2", "--as", "triton")
            daemon.stop()
            for folder in (os.path.join(out, "triton"), out + "2"):
                plain = self.compile_in(daemon, folder, warm=False)
                self.assertEqual((plain["hits"], plain["misses"]), (len(FEW), 0))
                self.assertEqual(plain["cubins"], cold["cubins"])

    def test_of_a_damaged_folder_the_good_comes_in_and_the_rest_is_named(self):
        with kit.Daemon() as daemon, kit.Folder() as old, kit.Folder() as new:
            self.compile_in(daemon, old, warm=False)
            lost = glob.glob(os.path.join(old, "*", "softmax.cubin"))[0]
            os.unlink(lost)
            said = subprocess.run([kit.program("warm"), "import", "--from", "triton", old],
                                  env=daemon.environment(), capture_output=True, text=True)
            self.assertEqual(said.returncode, 1)
            self.assertIn("imported 1 entry", said.stdout)
            self.assertIn(os.path.dirname(lost), said.stderr)
            warm = self.compile_in(daemon, new, warm=True)
            self.assertEqual((warm["hits"], warm["misses"]), (1, 1))


if __name__ == "__main__":
    kit.main()
