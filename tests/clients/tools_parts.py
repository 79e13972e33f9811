# SPDX-License-Identifier: Apache-2.0
"""The parts of a CUDA toolkit, each run alone, as nvcc and other programs run them: cicc, ptxas, fatbinary,
nvlink. Files, output, messages and exit status are those of the tool without warm.
"""

import os
import shlex
import shutil
import subprocess
import sys
import unittest

import kit
import tools_compilers

FILES = ("k.cpp1.ii", "k.module_id", "k.ptx", "k.sm_90.cubin", "k.o")


@unittest.skipUnless(kit.NVCC, "no nvcc here")
class Parts(kit.TestCase):
    """Tests of one step of a compile, in folders with the files of the steps before it."""

    @classmethod
    def setUpClass(cls):
        cls.made = kit.Folder()
        folder = cls.made.__enter__()
        cls.addClassCleanup(cls.made.__exit__)
        with open(os.path.join(folder, "k.cu"), "w") as f:
            f.write("__device__ float helper(float x) { return x * 3; }\n"
                    "__global__ void k(float *p) { p[threadIdx.x] = helper(p[0]); }\n")
        compiling = ["-rdc=true", "-c", "-arch=sm_90", "--keep", "k.cu", "-o", "k.o"]
        linking = ["-dlink", "-arch=sm_90", "--keep", "k.o", "-o", "link.o"]
        subprocess.run([kit.NVCC, *compiling], cwd=folder, check=True)
        cls.steps = cls.steps_of(folder, compiling)
        cls.steps.update(nvlink=cls.steps_of(folder, linking)["nvlink"])

    @classmethod
    def steps_of(cls, folder, arguments):
        """Returns the command of each tool, as --dryrun prints it."""
        told = subprocess.run([kit.NVCC, "--dryrun", *arguments], cwd=folder, check=True,
                              capture_output=True, text=True).stderr
        settings = {}
        steps = {}
        for line in told.splitlines():
            words = shlex.split(line.removeprefix("#$ "))
            name, equals, value = line.removeprefix("#$ ").partition("=")
            if equals and name.isidentifier():
                settings[name] = value
                continue
            words = [w.replace("$CICC_PATH", settings.get("CICC_PATH", "")) for w in words]
            tool = os.path.basename(words[0])
            if tool in ("cicc", "ptxas", "fatbinary", "nvlink"):
                words[0] = shutil.which(words[0], path=settings["PATH"])
                steps[tool] = words
        return steps

    def setUp(self):
        self.daemon = kit.Daemon().__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.told = tools_compilers.Told(self.daemon.folder)
        self.n = 0

    def project(self):
        """Makes a folder with the files that exist before the step."""
        self.n += 1
        folder = os.path.join(self.daemon.folder, f"p{self.n}")
        os.mkdir(folder)
        for name in FILES:
            shutil.copy(os.path.join(self.made.path, name), folder)
        return folder

    def step(self, tool, folder, warm=True, more=(), **settings):
        """Runs a tool as a child of another program. Returns its exit status, output, messages and files."""
        self.told.begin()
        registration = os.path.join(folder, "link.reg.c")
        if os.path.exists(registration):  # as nvcc does: nvlink keeps one that exists
            os.unlink(registration)
        ran = self.daemon.run(["sh", "-c", '"$@"', "sh", *self.steps[tool], *more], cwd=folder,
                              warm=warm, check=False, WARM_TOOL_DEBUG=self.told.path, **settings)
        return ran.returncode, ran.stdout, ran.stderr, tools_compilers.read_files(folder)

    def expect(self, tool, hits, misses):
        self.assertEqual((self.told.count(f"hit: {tool}"), self.told.count(f"miss: {tool}")),
                         (hits, misses), self.told.text())

    def changed(self, tool):
        """Makes a folder in which one input of the tool is changed."""
        folder = self.project()
        name, old, new = {"cicc": ("k.cpp1.ii", b"x * 3", b"x * 5"),
                          "ptxas": ("k.ptx", b"0f40400000", b"0f40A00000"),
                          "fatbinary": ("k.ptx", b"0f40400000", b"0f40A00000"),
                          "nvlink": ("k.o", b"_Z6helperf", b"_Z6helpirf")}[tool]
        with open(os.path.join(folder, name), "rb") as f:
            text = f.read()
        self.assertIn(old, text)
        with open(os.path.join(folder, name), "wb") as f:
            f.write(text.replace(old, new))
        return folder

    def check(self, tool):
        folder = self.project()
        plain = self.step(tool, self.project(), warm=False)
        self.assertEqual(plain[0], 0, plain[2])
        self.assertEqual(self.step(tool, folder), plain)
        self.expect(tool, 0, 1)
        self.assertEqual(self.step(tool, folder), plain)  # overwrites the files of the run before
        self.expect(tool, 1, 0)
        elsewhere = self.project()
        self.assertEqual(self.step(tool, elsewhere), plain)
        if tool == "cicc":  # its output has names of folders
            self.expect(tool, 0, 1)
            self.assertEqual(self.step(tool, elsewhere), plain)
        self.expect(tool, 1, 0)
        changed = self.changed(tool)
        other = self.step(tool, changed, warm=False)
        self.assertNotEqual(other, plain)
        for misses in (1, 0):
            self.assertEqual(self.step(tool, changed), other)
            self.expect(tool, 1 - misses, misses)

    def check_strange(self, tool):
        """Checks that the tool itself answers an unknown option, and an option that only prints."""
        for more in (("--no-such-option",), ("--version",)):
            plain = self.step(tool, self.project(), warm=False, more=more)
            for _ in range(2):
                self.assertEqual(self.step(tool, self.project(), more=more), plain, more)

    def check_disabled(self, tool):
        plain = self.step(tool, self.project(), warm=False)
        self.assertEqual(self.step(tool, self.project(), WARM_DISABLE="1"), plain)
        self.expect(tool, 0, 0)
        self.daemon.suspend()
        status, out, _, files = self.step(tool, self.project())
        self.daemon.resume()
        self.assertEqual((status, out, files), (plain[0], plain[1], plain[3]))

    def check_all(self, tool):
        with self.subTest("cold, warm, another folder, another input"):
            self.check(tool)
        with self.subTest("options that are unknown, or that print"):
            self.check_strange(tool)
        with self.subTest("disabled, and with a daemon that hangs"):
            self.check_disabled(tool)

    def test_messages_of_ptxas_are_those_of_the_file(self):
        with open(os.path.join(self.made.path, "k.ptx")) as f:
            good = f.read()
        bad = good.replace("ret;", "rett;")
        odd = good.replace("ret;", '.pragma "no_such_pragma";\nret;')
        for text in (bad, odd):
            for comments in ("", "// one\n// two\n", ""):
                folder = self.project()
                with open(os.path.join(folder, "k.ptx"), "w") as f:
                    f.write(comments + text)
                elsewhere = self.project()
                shutil.copy(os.path.join(folder, "k.ptx"), elsewhere)
                plain = self.step("ptxas", elsewhere, warm=False)
                self.assertEqual(self.step("ptxas", folder)[:3], plain[:3])

    def test_cicc(self):
        self.check_all("cicc")

    def test_ptxas(self):
        self.check_all("ptxas")

    def test_fatbinary(self):
        self.check_all("fatbinary")

    def test_nvlink(self):
        self.check_all("nvlink")


if __name__ == "__main__":
    kit.main()
