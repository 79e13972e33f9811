# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs with an older PyTorch. They start warm, too, and a change of what a compile calls is seen there.
torch_training.py and torch_tables.py test the rest, with a newer PyTorch."""

import json
import os
import sys
import unittest

import kit
import torch_tables
import torch_training

# Keys of graphs with kernels of Triton, for which no GPU is asked.
KEYS = """
import json, os
import torch, triton, triton.language as tl
import torch._guards, torch._inductor.compile_fx
from torch._inductor.codecache import FxGraphCache
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from warm.torch import _refused

def tuned(order=1, ignored=None, **more):
    @triton.autotune(configs=[triton.Config({"B": size}) for size in (64, 128)][::order], key=[], **more)
    @triton.jit(do_not_specialize=ignored)
    def doubled(x, y, n, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(y + i, tl.load(x + i) * 2, mask=i < n)
    return doubled

def key(kernel=None, **settings):
    def called(x):
        y = torch.zeros_like(x)
        if kernel is not None:
            torch.library.wrap_triton(kernel)[(1,)](x, y, 64)
        return y + x
    os.environ.update(settings)
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with torch._guards.tracing(torch._guards.TracingContext(mode)):
        graph = make_fx(called, tracing_mode="fake")(torch.ones(64))
        found, _ = FxGraphCache.prepare_key(graph, [mode.from_tensor(torch.ones(64))], {}, [], False)
    for name in settings:
        del os.environ[name]
    return "refused" if found[0] in _refused else found[0]

print(json.dumps({
    "nothing": key(), "nothing again": key(), "nothing for code": key(TRITON_PRINT_AUTOTUNING="1"),
    "precision": key(TRITON_F32_DEFAULT="ieee"), "fusion": key(TRITON_DEFAULT_FP_FUSION="0"),
    "ptxas's options": key(PTXAS_OPTIONS="-O0"), "kernels edited by hand": key(TRITON_KERNEL_OVERRIDE="1"),
    "a dump": key(TRITON_KERNEL_DUMP="1"), "another libdevice": key(TRITON_LIBDEVICE_PATH=__file__),
    "torch's own ptxas": key(TRITON_PTXAS_PATH=torch.__file__),
    "kernel": key(tuned()), "kernel again": key(tuned()), "order": key(tuned(-1)), "restored": key(tuned(restore_value=["y"])),
    "zeroed": key(tuned(reset_to_zero=["y"])), "not specialized": key(tuned(ignored=["n"])),
}))
"""


class Training(torch_training.Training):
    pass


class Changes(torch_tables.Changes):
    missing = 2  # of the table user_lowerings, which is newer


class Kernels(kit.TestCase):
    def test_settings_of_triton_and_arguments_of_autotuners_count(self):
        """torch puts into its graphs what Triton made of their kernels, and none of these is in torch's keys."""
        with kit.Daemon() as daemon, kit.Folder() as folder:
            path = os.path.join(folder, "keys.py")  # Triton reads a kernel's file
            with open(path, "w") as f:
                f.write(KEYS)
            ran = daemon.run([sys.executable, path], TORCHINDUCTOR_CACHE_DIR=folder)
        keys = json.loads(ran.stdout.splitlines()[-1])
        of_nothing = keys.pop("nothing")
        for name in ("nothing again", "nothing for code", "torch's own ptxas"):
            self.assertEqual(keys.pop(name), of_nothing, name)
        self.assertEqual(keys.pop("kernel again"), keys["kernel"])
        self.assertEqual([keys.pop("kernels edited by hand"), keys.pop("a dump")], ["refused"] * 2)
        self.assertEqual(len({of_nothing, *keys.values()}), 1 + len(keys), keys)
        self.assertNotIn("refused", keys.values())


if __name__ == "__main__":
    unittest.main()
