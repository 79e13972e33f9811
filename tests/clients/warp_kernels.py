# SPDX-License-Identifier: Apache-2.0
"""NVIDIA Warp's compilers on the daemon: kernels for the CPU, which run here, and for sm_90, which are compiled."""

import json
import os
import shutil
import unittest

import kit
import warp

PACKAGE = os.path.dirname(warp.__file__)

PROGRAM = r'''
import hashlib, json, os, sys
sys.path[:0] = filter(None, [os.environ.get("PACKAGES")])
import numpy as np, warp as wp
wp.config.quiet = True
for name, value in json.loads(os.environ.get("CONFIG", "{}")).items():
    setattr(wp.config, name, value)
wp.init()
wp.set_module_options(json.loads(os.environ.get("MODULE", "{}")))

SNIPPET = os.environ.get("SNIPPET", "return x * 3.0f;")
@wp.func_native(SNIPPET)
def by_hand(x: float) -> float: ...

@wp.kernel
def step(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = wp.sin(x[i]) * float(FACTOR) + by_hand(x[i])

FACTOR = wp.constant(int(os.environ.get("FACTOR", "2")))
if os.environ.get("ARCH"):
    folder = os.path.join(os.getcwd(), "aot")
    wp.compile_aot_module(sys.modules[__name__], device=None, arch=int(os.environ["ARCH"]), module_dir=folder)
else:
    x = wp.array(np.arange(64, dtype=np.float32), dtype=float, device="cpu")
    wp.launch(step, 64, inputs=[x], device="cpu")
    print(hashlib.sha256(x.numpy().tobytes()).hexdigest()[:12], end=" ")
    folder = wp.config.kernel_cache_dir
made = {}
for where, _, names in os.walk(folder):
    for name in names:
        if name.endswith((".o", ".cubin", ".ptx")):
            with open(os.path.join(where, name), "rb") as f:
                made[name.rsplit(".", 1)[1]] = hashlib.sha256(f.read()).hexdigest()[:12]
print(json.dumps(made))
'''


def kept(daemon):
    kinds = daemon.stats("kinds")
    return [sum(kinds.get(kind, {}).get(name, 0) for kind in ("object", "executable")) for name in ("hits", "puts")]


def run(daemon, folder, **settings):
    """Returns what the program prints, and how many hits and new entries it had. It has a cache of its own."""
    before = kept(daemon)
    where = os.path.join(daemon.folder, folder)
    os.makedirs(where, exist_ok=True)
    path = os.path.join(where, "kernels.py")
    with open(path, "w") as f:
        f.write(PROGRAM)
    cache = os.path.join(where, f"cache{len(os.listdir(where))}")
    os.mkdir(cache)
    ran = daemon.run([kit.sys.executable, path], cwd=where, WARP_CACHE_PATH=cache, **settings)
    after = kept(daemon)
    return ran.stdout.splitlines()[-1], after[0] - before[0], after[1] - before[1]


class Kernels(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)

    def test_a_kernel_for_the_cpu_hits_in_another_folder_and_runs(self):
        plain, *_ = run(self.daemon, "plain", warm=False)
        self.assertEqual(run(self.daemon, "here"), (plain, 0, 1))
        self.assertEqual(run(self.daemon, "deeper/there"), (plain, 1, 0))

    def test_a_cubin_hits_in_another_folder_with_the_bytes_of_a_compile(self):
        plain, *_ = run(self.daemon, "plain", warm=False, ARCH="90")
        self.assertEqual(run(self.daemon, "here", ARCH="90"), (plain, 0, 1))
        self.assertEqual(run(self.daemon, "deeper/there", ARCH="90"), (plain, 1, 0))

    def test_whatever_a_compile_reads_is_in_the_key(self):
        """A, B, B, A: each gets what it gets alone, and B nothing of A's."""
        usual, *_ = run(self.daemon, "usual", ARCH="90")
        for name, settings in {
            "kernel": {"FACTOR": "3"},
            "snippet": {"SNIPPET": "return x * 4.0f;"},
            "target": {"ARCH": "80"},
            "module": {"MODULE": json.dumps({"fast_math": True})},
            "environment": {"LLVM_OVERRIDE_PRODUCER": "other"},
        }.items():
            with self.subTest(name):
                settings = {"ARCH": "90", **settings}
                alone, *_ = run(self.daemon, "alone" + name, warm=False, **settings)
                self.assertEqual(run(self.daemon, name, **settings), (alone, 0, 1))
                self.assertEqual(run(self.daemon, name + "/again", **settings), (alone, 1, 0))
                self.assertEqual(run(self.daemon, name + "/back", ARCH="90"), (usual, 1, 0))

    def test_a_compile_that_may_read_more_is_warps_own(self):
        with open(os.path.join(self.daemon.folder, "mine.h"), "w") as f:
            f.write("#define MINE 5.0f\n")
        include = f'#include "{self.daemon.folder}/mine.h"\nreturn x * MINE;'
        for name, settings in {
            "an include": {"SNIPPET": include},
            "a spliced include": {"SNIPPET": include.replace("include", "incl\\\nude", 1)},
            "an include behind a splice with a blank": {"SNIPPET": include.replace("include", "incl\\ \nude", 1)},
            "its place": {"SNIPPET": "return x * sizeof(__FILE__);"},
            "its place, pasted": {"SNIPPET": "\n#define A(a, b) a%:%:b\n#define B(a, b) A(a, b)\nreturn x * sizeof(B(__FI, LE__));"},
            "a warning": {"SNIPPET": "int i = 3.7f;\nreturn x * i;"},
            "an option that prints": {"MODULE": json.dumps({"cpu_compiler_flags": "-mllvm -opt-bisect-limit=3"})},
            "a dump": {"ARCH": "90", "WARP_DEBUG": "1"},
            "debug": {"CONFIG": json.dumps({"mode": "debug"})},
            "checks that print paths": {"CONFIG": json.dumps({"verify_fp": True})},
        }.items():
            with self.subTest(name):
                self.assertEqual(run(self.daemon, name.replace(" ", "-"), **settings)[1:], (0, 0))
                self.assertIn("uncacheable", self.daemon.warm("why", "--last"))

    def test_a_header_in_the_working_folder_comes_first(self):
        usual, *_ = run(self.daemon, "usual", ARCH="90")
        for warm in (False, True):
            folder = os.path.join(self.daemon.folder, f"warm {warm}")
            os.mkdir(folder)
            with open(os.path.join(folder, "builtin.h"), "w") as f:
                f.write(f'#include "{PACKAGE}/native/builtin.h"\nextern "C" __device__ int in_the_way = 3;\n')
            made, hits, puts = run(self.daemon, f"warm {warm}", warm=warm, ARCH="90")
            self.assertNotEqual(made, usual)
            self.assertEqual((hits, puts), (0, 0))

    def test_other_headers_of_warp_have_other_entries(self):
        copy = os.path.join(self.daemon.folder, "packages")
        moved = os.path.join(copy, "warp")
        shutil.copytree(PACKAGE, moved, copy_function=os.link, ignore=shutil.ignore_patterns("tests", "examples"))
        one, *_ = run(self.daemon, "one", PACKAGES=copy)
        header = os.path.join(moved, "native", "builtin.h")
        with open(header) as f:
            text = f.read()
        os.unlink(header)
        with open(header, "w") as f:
            f.write(text + "\n#define sin(x) cos(x)\n")
        self.assertEqual(run(self.daemon, "two", PACKAGES=copy)[1:], (0, 1))

    def test_a_failed_compile_fails_as_without(self):
        for warm in (False, True):
            with self.assertRaisesRegex(RuntimeError, "kernel build failed"):
                run(self.daemon, "here", warm=warm, SNIPPET="return no_such_thing;")


if __name__ == "__main__":
    unittest.main()
