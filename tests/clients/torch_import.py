# SPDX-License-Identifier: Apache-2.0
"""Import and export of Inductor's cache folder, which PyTorch itself writes and reads.

PyTorch's key of an AOTAutograd entry depends on whether there is a remote cache. That of an FX graph does
not. So of a folder that was filled without `warm` only the graphs hit under it. Our adapter does not take them: nobody
checked what made them."""

import glob
import os
import shutil
import subprocess

import kit

UNCHECKED = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # without our adapter
PROGRAM = '''
import json, torch
from torch._dynamo.utils import counters
torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(16, 16, requires_grad=True)
y = torch.compile(lambda x, w: torch.nn.functional.gelu(x @ w).softmax(-1).sum())(x, w)
y.backward()
print(json.dumps(dict(y=y.item(), gradient=w.grad.tolist(), **counters["inductor"])))
'''


class Folders(kit.TestCase):
    @classmethod
    def setUpClass(cls):
        """Makes, once for all tests, a folder that Inductor wrote, and its precompiled header."""
        at = kit.Folder()
        cls.headers = at.__enter__()
        cls.addClassCleanup(at.__exit__, None, None, None)
        cls.written = os.path.join(cls.headers, "written")
        with kit.Daemon() as daemon:
            cls.plain = cls.run_in(daemon, cls.written, warm=False)

    @classmethod
    def run_in(cls, daemon, folder, warm=True, **settings):
        return kit.result(daemon.run(PROGRAM, warm=warm, TORCHINDUCTOR_CACHE_DIR=folder, TMPDIR=cls.headers,
                                     TORCHINDUCTOR_VEC_ISA_OK="1", **settings))

    def check_hits(self, found, expected):
        self.assertEqual(found.get("fxgraph_cache_hit", 0), expected["fxgraph_cache_miss"])
        self.assertNotIn("fxgraph_cache_miss", found)
        self.assertEqual((found["y"], found["gradient"]), (expected["y"], expected["gradient"]))

    def test_a_folder_that_inductor_wrote_is_warm_in_an_empty_one_and_when_it_is_written_back(self):
        with kit.Daemon() as daemon, kit.Folder() as root:
            old, plain = self.written, self.plain
            daemon.warm("import", "--from", "inductor", old)
            self.check_hits(self.run_in(daemon, os.path.join(root, "new"), **UNCHECKED), plain)
            back = os.path.join(root, "back")
            daemon.warm("export", "--as", "inductor", "--to", back)
            objects = glob.glob(os.path.join(back, "??", "*.so"))
            self.assertEqual(len(objects), len(glob.glob(os.path.join(old, "??", "*.so"))))
            daemon.stop()
            self.check_hits(self.run_in(daemon, back, warm=False), plain)
            self.assertEqual(len(glob.glob(os.path.join(back, "??", "*.so"))), len(objects))

    def test_what_was_made_under_warm_is_warm_without_it_and_not_the_other_way_round(self):
        with kit.Daemon() as daemon, kit.Folder() as root:
            daemon.warm("import", "--from", "inductor", self.written)
            made = self.run_in(daemon, os.path.join(root, "new"))
            self.assertEqual(made["fxgraph_cache_miss"], self.plain["fxgraph_cache_miss"])
        with kit.Daemon() as daemon, kit.Folder() as root:
            self.run_in(daemon, os.path.join(root, "new"))
            back = os.path.join(root, "back")
            daemon.warm("export", "--as", "inductor", "--to", back)
            daemon.stop()
            self.check_hits(self.run_in(daemon, back, warm=False), self.plain)

    def test_of_a_damaged_folder_the_good_comes_in_and_the_rest_is_named(self):
        with kit.Daemon() as daemon, kit.Folder() as root:
            old, plain = os.path.join(root, "old"), self.plain
            shutil.copytree(self.written, old)
            entry = glob.glob(os.path.join(old, "fxgraph", "*", "*", "*"))[0]
            with open(entry, "r+b") as f:
                f.truncate(os.path.getsize(entry) // 2)
            said = subprocess.run([kit.program("warm"), "import", "--from", "inductor", old],
                                  env=daemon.environment(), capture_output=True, text=True)
            self.assertEqual(said.returncode, 1)
            self.assertIn(os.path.basename(entry), said.stderr)
            warm = self.run_in(daemon, os.path.join(root, "new"), **UNCHECKED)
            self.assertEqual(warm["fxgraph_cache_miss"], 1)
            self.assertEqual(warm["fxgraph_cache_hit"], plain["fxgraph_cache_miss"] - 1)
            self.assertEqual(warm["gradient"], plain["gradient"])


if __name__ == "__main__":
    kit.main()
