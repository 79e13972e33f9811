# SPDX-License-Identifier: Apache-2.0
"""CuTe DSL's compiler on the daemon, without a GPU: kernels for sm_90a, and host functions, which run here."""

import glob
import os
import shutil
import unittest

import cutlass
import kit

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(cutlass.__file__)))  # nvidia_cutlass_dsl

# Prints digests of the modules that its compiles gave, or the error.
PROGRAM = r'''
import hashlib, json, os, sys
sys.path[:0] = filter(None, [os.environ.get("PACKAGES")])
import cutlass, cutlass.cute as cute
from cutlass._mlir.dialects import llvm
OPTIONS = os.environ.get("OPTIONS", "--gpu-arch sm_90a")
FACTOR = int(os.environ.get("FACTOR", "2"))

@cute.kernel
def scale(a: cute.Tensor, b: cute.Tensor, alpha: cutlass.Float32):
    i = cute.arch.block_idx()[0] * cute.arch.block_dim()[0] + cute.arch.thread_idx()[0]
    if cutlass.const_expr(FACTOR == 0):
        llvm.inline_asm(None, [], "no such instruction;", "", has_side_effects=True)
    b[i] = a[i] * alpha * FACTOR

@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor, alpha: cutlass.Float32):
    scale(a, b, alpha).launch(grid=(128, 1, 1), block=(256, 1, 1))

@cute.jit
def add(x: cutlass.Int32, y: cutlass.Int32):
    cute.printf("sum %d", x * FACTOR + y)

def fake(n):
    return cute.runtime.make_fake_compact_tensor(cutlass.Float32, (n,), assumed_align=16)

def digest(compiled):
    text = compiled.ir_module.operation.get_asm(enable_debug_info=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

exec(os.environ.get("BEFORE", ""))
if os.environ.get("HOST"):
    add(cutlass.Int32(3), cutlass.Int32(4))
    raise SystemExit
try:
    seen = [digest(cute.compile(launch, fake(n), fake(n), cutlass.Float32(2.0), options=OPTIONS)) for n in (1024, 2048)]
except Exception as e:
    seen = [str(e)]
print(json.dumps(seen))
'''


def kept(daemon):
    return daemon.stats("kinds").get("executable", {"hits": 0, "puts": 0})


def spawn(daemon, *, folder, **settings):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "kernels.py")
    with open(path, "w") as f:
        f.write(PROGRAM)
    return daemon.spawn([kit.sys.executable, path], cwd=folder, CUTE_DSL_ARCH="sm_90a", **settings)


def run(daemon, folder, **settings):
    """Returns what the program prints, and how many hits and new entries it had."""
    before = kept(daemon)
    process = spawn(daemon, folder=os.path.join(daemon.folder, folder), **settings)
    out, error = process.communicate(timeout=kit.RUN_S)
    if process.returncode:
        raise RuntimeError(error[-4000:])
    after = kept(daemon)
    return out.splitlines()[-1], after["hits"] - before["hits"], after["puts"] - before["puts"]


class Kernels(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)

    def test_a_process_in_another_folder_hits_with_the_module_of_a_compile(self):
        plain, *_ = run(self.daemon, "plain", warm=False)
        self.assertEqual(run(self.daemon, "here"), (plain, 0, 2))
        self.assertEqual(run(self.daemon, "deeper/there"), (plain, 2, 0))

    def test_of_processes_at_once_one_compiles(self):
        running = [spawn(self.daemon, folder=os.path.join(self.daemon.folder, str(i))) for i in range(4)]
        self.assertEqual(len({p.communicate(timeout=kit.RUN_S)[0] for p in running}), 1)
        self.assertEqual(kept(self.daemon)["puts"], 2)

    def test_a_host_function_from_the_cache_runs(self):
        for folder in ("cold", "warm"):
            out, hits, puts = run(self.daemon, folder, HOST="1", CUTE_DSL_DISABLE_FILE_CACHING="1")
            self.assertEqual((out, hits + puts), ("sum 10", 1))
        self.assertEqual(hits, 1)

    def test_whatever_the_passes_read_is_in_the_key(self):
        """A, B, B, A: each gets what it gets alone, and B nothing of A's."""
        replaced = ("from cutlass.cutlass_dsl import CuTeDSL as D; get = D._get_pipeline; "
                    "D._get_pipeline = lambda s, p: get(s, p).replace('opt-level=3', 'opt-level=0')")
        usual, *_ = run(self.daemon, "usual")
        for name, settings in {
            "kernel": {"FACTOR": "3"},
            "target": {"OPTIONS": "--gpu-arch sm_80"},
            "level": {"OPTIONS": "--gpu-arch sm_90a --opt-level 1"},
            "ptxas": {"OPTIONS": "--gpu-arch sm_90a --ptxas-options '-O1'"},
            "pipeline": {"BEFORE": replaced},
            "environment": {"LLVM_OVERRIDE_PRODUCER": "other"},
        }.items():
            with self.subTest(name):
                alone, *_ = run(self.daemon, "alone", warm=False, **settings)
                self.assertEqual(run(self.daemon, name, **settings), (alone, 0, 2))
                self.assertEqual(run(self.daemon, name + "/again", **settings), (alone, 2, 0))
                self.assertEqual(run(self.daemon, name + "/back"), (usual, 2, 0))

    def test_a_position_counts_where_it_is_compiled_in(self):
        lines = {"OPTIONS": "--gpu-arch sm_90a --generate-line-info", "BEFORE": "os.utime(__file__, (1e9, 1e9))"}
        self.assertEqual(run(self.daemon, "here", **lines)[1:], (0, 2))
        self.assertEqual(run(self.daemon, "there", **lines)[1:], (0, 2))
        self.assertEqual(run(self.daemon, "there", **lines)[1:], (2, 0))
        lines["BEFORE"] = "os.utime(__file__, (2e9, 2e9))"  # the line table has the time
        self.assertEqual(run(self.daemon, "there", **lines)[1:], (0, 2))
        bare = ("from cutlass.cutlass_dsl import CuTeDSL as D; get = D._get_pipeline; "
                "D._get_pipeline = lambda s, p: get(s, p).replace('enable-assertions=false', 'enable-assertions')")
        self.assertEqual(run(self.daemon, "here", BEFORE=bare)[1:], (0, 2))
        self.assertEqual(run(self.daemon, "there", BEFORE=bare)[1:], (0, 2))

    def test_another_build_of_the_library_has_other_entries(self):
        run(self.daemon, "here")
        copy = os.path.join(self.daemon.folder, "packages")
        shutil.copytree(PACKAGES, copy, copy_function=os.link)
        (library,) = glob.glob(os.path.join(copy, "*", "cutlass", "_mlir", "_mlir_libs", "_cutlass_ir.cu12*.so"))
        os.unlink(library)
        shutil.copy(glob.glob(library.replace(copy, PACKAGES))[0], library)
        with open(library, "ab") as f:
            f.write(b"another build")
        self.assertEqual(run(self.daemon, "other", PACKAGES=os.path.join(copy, "dsl_packages"))[1:], (0, 2))

    def test_a_compile_that_writes_a_file_writes_it_each_time(self):
        options = "--gpu-arch sm_90a --keep-ptx --dump-dir "
        for name in ("first", "second"):
            folder = os.path.join(self.daemon.folder, name)
            _, hits, puts = run(self.daemon, name, OPTIONS=options + folder)
            self.assertEqual((hits, puts), (0, 0))
            self.assertTrue(glob.glob(os.path.join(folder, "*.ptx")))
        self.assertIn("dump-ptx-path", self.daemon.warm("why", "--last"))

    def test_a_compile_that_writes_remarks_writes_them_each_time(self):
        run(self.daemon, "none")
        for name in ("first", "second"):
            file = os.path.join(self.daemon.folder, name, "remarks.yaml")
            _, hits, puts = run(self.daemon, name, OPTIONS=f"--gpu-arch sm_90a --remark-output={file}")
            self.assertEqual((hits, puts), (0, 0))
            self.assertTrue(os.path.exists(file))
        self.assertIn("remarks", self.daemon.warm("why", "--last"))

    def test_a_pass_manager_that_the_program_uses_itself_keeps_nothing(self):
        before = ("from cutlass.base_dsl import compiler as c; run = c.Compiler.compile\n"
                  "def compile(self, module, pipeline, *a, **k):\n"
                  "    manager = self.passmanager.PassManager.parse(pipeline); manager.enable_timing(); "
                  "manager.run(module.operation); return module\n"
                  "c.Compiler.compile = compile")
        self.assertEqual(run(self.daemon, "here", BEFORE=before)[1:], (0, 0))

    def test_a_failed_compile_gives_the_programs_own_error(self):
        plain, *_ = run(self.daemon, "here", warm=False, FACTOR="0")
        self.assertIn("ptxas", plain)
        self.assertEqual(run(self.daemon, "here", FACTOR="0"), (plain, 0, 0))


if __name__ == "__main__":
    unittest.main()
