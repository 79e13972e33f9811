# SPDX-License-Identifier: Apache-2.0
"""Compilers that programs start: the ptxas that Triton brings along, and nvcc.

What each run did is counted in the file that WARM_TOOL_DEBUG names.
"""

import json
import os
import shutil
import sys
import time
import unittest

import kit

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "six_kernels.py")
FEW = ("add", "softmax")
# Triton's own files, not ours: so that each run comes to ptxas.
PLAIN_CACHE = "triton.runtime.cache:FileCacheManager"


class Told:
    """Counts lines of WARM_TOOL_DEBUG since the last look."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "debug")
        self.begin()

    def begin(self):
        open(self.path, "w").close()

    def text(self):
        with open(self.path) as f:
            return f.read()

    def count(self, what):
        return sum(line.startswith(what) for line in self.text().splitlines())


class Ptxas(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.told = Told(self.daemon.folder)
        self.n = 0

    def spawn(self, *names, program=KERNELS, warm=True, **settings):
        self.n += 1
        folder = os.path.join(self.daemon.folder, f"triton{self.n}")
        return self.daemon.spawn(
            [sys.executable, program, "90", *names], warm=warm, TRITON_CACHE_DIR=folder,
            TRITON_CACHE_MANAGER=PLAIN_CACHE, WARM_TOOL_DEBUG=self.told.path, **settings)

    def finish(self, process):
        out, error = process.communicate(timeout=kit.RUN_S)
        self.assertEqual(process.returncode, 0, error[-4000:])
        return json.loads(out.splitlines()[-1])["cubins"]

    def compile(self, *names, **settings):
        self.told.begin()
        return self.finish(self.spawn(*names, **settings))

    def expect(self, hits, misses):
        self.assertEqual((self.told.count("hit: ptxas tmp"), self.told.count("miss: ptxas tmp")),
                         (hits, misses))

    def test_six_kernels_cold_and_warm_are_as_without(self):
        plain = self.compile(warm=False)
        cold = self.compile()
        self.expect(0, 6)
        warm = self.compile()
        self.expect(6, 0)
        self.assertEqual(cold, plain)
        self.assertEqual(warm, plain)

    def test_a_moved_file_and_blank_lines_above_a_kernel_are_hits(self):
        moved = os.path.join(self.daemon.folder, "moved.py")
        with open(KERNELS) as f:
            text = f.read()
        with open(moved, "w") as f:
            f.write(text.replace("@triton.jit\n", "\n\n\n@triton.jit\n"))
        self.compile(*FEW)
        self.compile(*FEW, program=moved)
        self.expect(2, 0)
        # Without line information they are the same to the last byte.
        plain = self.compile(*FEW, program=moved, warm=False, TRITON_DISABLE_LINE_INFO="1")
        self.compile(*FEW, TRITON_DISABLE_LINE_INFO="1")
        self.assertEqual(self.compile(*FEW, program=moved, TRITON_DISABLE_LINE_INFO="1"), plain)
        self.expect(2, 0)

    def test_where_lines_are_to_be_exact_they_are(self):
        moved = os.path.join(self.daemon.folder, "moved.py")
        shutil.copy(KERNELS, moved)
        plain = self.compile(*FEW, program=moved, warm=False)
        self.compile(*FEW, WARM_TOOL_EXACT="1")
        self.assertEqual(self.compile(*FEW, program=moved, WARM_TOOL_EXACT="1"), plain)
        self.expect(0, 2)

    def test_a_changed_kernel_is_a_miss(self):
        changed = os.path.join(self.daemon.folder, "changed.py")
        with open(KERNELS) as f:
            text = f.read()
        with open(changed, "w") as f:
            f.write(text.replace("+ tl.load(y + at, mask), mask)", "- tl.load(y + at, mask), mask)"))
        self.compile("add")
        plain = self.compile("add", program=changed, warm=False)
        self.assertEqual(self.compile("add", program=changed), plain)
        self.expect(0, 1)

    def test_eight_ranks_at_once_assemble_once(self):
        self.told.begin()
        ranks = [self.spawn(*FEW, RANK=i) for i in range(8)]
        results = [self.finish(rank) for rank in ranks]
        self.assertTrue(all(r == results[0] for r in results))
        self.expect(14, 2)

    def test_disabled_or_without_a_daemon_ptxas_runs(self):
        plain = self.compile(*FEW, warm=False)
        self.assertEqual(self.compile(*FEW, WARM_DISABLE="1"), plain)
        self.expect(0, 0)
        process = self.spawn(*FEW)
        while process.poll() is None and not self.told.count("miss"):
            time.sleep(0.02)
        self.daemon.kill()
        self.assertEqual(self.finish(process), plain)
        self.daemon.start()
        self.compile(*FEW)
        self.assertEqual(self.compile(*FEW), plain)
        self.expect(2, 0)


@unittest.skipUnless(kit.NVCC, "no nvcc here")
class Nvcc(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.told = Told(self.daemon.folder)
        self.folder = self.project("a")

    def project(self, name):
        folder = os.path.join(self.daemon.folder, name)
        os.mkdir(folder)
        with open(os.path.join(folder, "k.cu"), "w") as f:
            f.write('#include "v.h"\n__global__ void k(float *p) { p[threadIdx.x] = VALUE; }\n')
        with open(os.path.join(folder, "v.h"), "w") as f:
            f.write("#define VALUE 1\n")
        return folder

    def compile(self, mode, *options, folder=None, **settings):
        self.told.begin()
        folder = folder or self.folder
        self.daemon.run([kit.NVCC, mode, "-arch=sm_90", "k.cu", "-o", "out", *options], cwd=folder,
                        WARM_TOOL_DEBUG=self.told.path, **settings)
        with open(os.path.join(folder, "out"), "rb") as f:
            result = f.read()
        os.unlink(os.path.join(folder, "out"))
        return result

    def expect(self, hits, misses):
        self.assertEqual((self.told.count("hit: nvcc"), self.told.count("miss: nvcc")), (hits, misses))

    def test_cold_and_warm_are_as_without(self):
        for mode in ("-cubin", "-ptx", "-fatbin", "-c"):
            with self.subTest(mode=mode):
                cold = self.compile(mode)
                self.expect(0, 1)
                warm = self.compile(mode)
                self.expect(1, 0)
                self.assertEqual(warm, cold)
                if mode != "-c":  # whose host code names a temporary file, another each time
                    self.assertEqual(warm, self.compile(mode, warm=False))
                    self.assertEqual(warm, self.compile(mode, WARM_DISABLE="1"))
                    self.expect(0, 0)

    def test_another_folder_is_a_hit(self):
        cold = self.compile("-cubin")
        other = self.project("b")
        self.assertEqual(self.compile("-cubin", folder=other), cold)
        self.expect(1, 0)

    def test_a_changed_header_is_a_miss_and_a_touched_one_a_hit(self):
        self.compile("-cubin")
        header = os.path.join(self.folder, "v.h")
        os.utime(header, (1, 1))
        self.compile("-cubin")
        self.expect(1, 0)
        with open(header, "w") as f:
            f.write("#define VALUE 2\n")
        plain = self.compile("-cubin", warm=False)
        self.assertEqual(self.compile("-cubin"), plain)
        self.expect(0, 1)

    def test_with_line_information_a_touched_source_is_another(self):
        self.compile("-cubin", "-lineinfo")
        os.utime(os.path.join(self.folder, "k.cu"), (1, 1))
        plain = self.compile("-cubin", "-lineinfo", warm=False)
        self.assertEqual(self.compile("-cubin", "-lineinfo"), plain)

    def test_options_of_the_environment_count(self):
        self.compile("-cubin")
        for name, value in (("NVCC_APPEND_FLAGS", "-DX"), ("PTXAS_FLAGS", "-O0")):
            plain = self.compile("-cubin", warm=False, **{name: value})
            self.assertEqual(self.compile("-cubin", **{name: value}), plain)
            self.expect(0, 1)

    def test_messages_and_status_are_nvccs(self):
        with open(os.path.join(self.folder, "k.cu"), "a") as f:
            f.write("error here\n")
        results = [self.daemon.run([kit.NVCC, "-cubin", "-arch=sm_90", "k.cu"], cwd=self.folder,
                                   warm=warm, check=False) for warm in (False, True, True)]
        for result in results[1:]:
            self.assertEqual((result.returncode, result.stdout, result.stderr),
                             (results[0].returncode, results[0].stdout, results[0].stderr))

    def test_version_and_what_links_pass_through(self):
        plain, ours = self.daemon.run_both([kit.NVCC, "--version"])
        self.assertEqual(plain.stdout, ours.stdout)

    def test_the_daemon_killed_in_the_middle(self):
        plain = self.compile("-cubin", warm=False)
        self.told.begin()
        process = self.daemon.spawn([kit.NVCC, "-cubin", "-arch=sm_90", "k.cu", "-o", "out"],
                                    cwd=self.folder, WARM_TOOL_DEBUG=self.told.path)
        while process.poll() is None and not self.told.count("miss"):
            time.sleep(0.01)
        self.daemon.kill()
        _, error = process.communicate(timeout=kit.RUN_S)
        self.assertEqual(process.returncode, 0, error)
        with open(os.path.join(self.folder, "out"), "rb") as f:
            self.assertEqual(f.read(), plain)


if __name__ == "__main__":
    kit.main()
