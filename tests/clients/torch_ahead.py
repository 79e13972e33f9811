# SPDX-License-Identifier: Apache-2.0
"""AOTInductor: models that are compiled ahead of time."""

import os
import unittest

import kit

# Ends as soon as the kernels' file is written: the compiles behind that take minutes.
PROGRAM = r'''
import os, sys
import torch
import torch._inductor.codecache as codecache
real = codecache.write
def write(content, extension, *arguments, **options):
    made = real(content, extension, *arguments, **options)
    if extension == "kernel.cpp":
        print(os.path.basename(made[1]), flush=True)
        os._exit(0)
    return made
codecache.write = write
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x * 2) + x.sum()
batch = torch.export.Dim("batch", min=1, max=64)
program = torch.export.export(Model().eval(), (torch.randn(8, 16),), dynamic_shapes=({0: batch},))
torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(os.getcwd(), "model.pt2"))
'''


class Ahead(kit.TestCase):
    def test_a_models_kernels_have_the_same_name_in_every_folder(self):
        """A name is a hash of the content, and compilers are asked by name."""
        told = []
        with kit.Daemon() as daemon:
            for folder in ("here", "deeper/there"):
                where = os.path.join(daemon.folder, folder)
                os.makedirs(where)
                ran = daemon.run(PROGRAM, cwd=where, TORCHINDUCTOR_CACHE_DIR=os.path.join(where, "cache"))
                told.append(ran.stdout.splitlines()[-1])
        self.assertEqual(told[0], told[1])


if __name__ == "__main__":
    unittest.main()
