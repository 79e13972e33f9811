# SPDX-License-Identifier: Apache-2.0
"""Compilers that programs start: Triton's own ptxas, and nvcc.

Each run writes what it did to the file that WARM_TOOL_DEBUG names.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import unittest

import kit

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "six_kernels.py")
FEW = ("add", "softmax")
# Triton's own cache manager instead of ours, so that each run reaches ptxas.
PLAIN_CACHE = "triton.runtime.cache:FileCacheManager"


class Told:
    """The lines of WARM_TOOL_DEBUG since the last begin()."""

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


def read_files(folder):
    """Returns all files of a folder with their bytes."""
    files = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            files[name] = f.read()
    return files


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

    def test_warm_compile_assembles_ptx_and_the_second_time_takes_it(self):
        source = os.path.join(self.daemon.folder, "k.ptx")
        with open(source, "w") as f:
            f.write(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
        for _ in range(2):
            # VIRTUAL_ENV has a real ptxas; one on PATH may be a script, whose results are not kept
            subprocess.run([kit.program("warm"), "compile", source, "--arch", "sm_90", "-o",
                            source + ".cubin"], check=True, timeout=kit.WAIT_S,
                           env=self.daemon.environment(VIRTUAL_ENV=sys.prefix))
            with open(source + ".cubin", "rb") as f:
                self.assertEqual(f.read(4), b"\x7fELF")
        self.assertEqual(self.daemon.stats("kinds")["cubin"]["hits"], 1)

    def test_six_kernels_cold_and_warm_are_as_without(self):
        plain = self.compile(warm=False)
        cold = self.compile()
        self.expect(0, 6)
        warm = self.compile()
        self.expect(6, 0)
        self.assertEqual(cold, plain)
        self.assertEqual(warm, plain)

    def moved(self, old="", new=""):
        """Returns a copy of the kernels in another file."""
        path = os.path.join(self.daemon.folder, "moved.py")
        with open(KERNELS) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(text.replace(old, new) if old else text)
        return path

    def test_ptxas_writes_the_lines_and_the_file_of_each_kernel(self):
        for old, new in (("", ""), ("@triton.jit\n", "\n\n\n@triton.jit\n")):
            moved = self.moved(old, new)
            plain = self.compile(*FEW, program=moved, warm=False)
            self.assertNotEqual(self.compile(*FEW), plain)
            self.assertEqual(self.compile(*FEW, program=moved), plain)
            self.expect(0, 2)
            self.daemon.warm("clear", "--yes")

    def test_without_line_information_a_moved_file_and_blank_lines_are_hits(self):
        moved = self.moved("@triton.jit\n", "\n\n\n@triton.jit\n")
        plain = self.compile(*FEW, program=moved, warm=False, TRITON_DISABLE_LINE_INFO="1")
        self.compile(*FEW, TRITON_DISABLE_LINE_INFO="1")
        self.assertEqual(self.compile(*FEW, program=moved, TRITON_DISABLE_LINE_INFO="1"), plain)
        self.expect(2, 0)

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
        settings = {"WARM_TIMEOUT_MS": 5000, **settings}  # machines under load are slow
        self.daemon.run([kit.NVCC, mode, "-arch=sm_90", "k.cu", "-o", "out", *options], cwd=folder,
                        WARM_TOOL_DEBUG=self.told.path, **settings)
        with open(os.path.join(folder, "out"), "rb") as f:
            result = f.read()
        os.unlink(os.path.join(folder, "out"))
        return result

    def expect(self, hits, misses):
        self.assertEqual((self.told.count("hit: nvcc"), self.told.count("miss: nvcc")), (hits, misses), self.told.text())

    def test_cold_and_warm_are_as_without(self):
        for mode in ("-cubin", "-ptx", "-fatbin", "-c"):
            with self.subTest(mode=mode):
                cold = self.compile(mode)
                self.expect(0, 1)
                warm = self.compile(mode)
                self.expect(1, 0)
                self.assertEqual(warm, cold)
                if mode != "-c":  # its host code names a temporary file, each time another one
                    self.assertEqual(warm, self.compile(mode, warm=False))
                    self.assertEqual(warm, self.compile(mode, WARM_DISABLE="1"))
                    self.expect(0, 0)

    def test_the_locale_counts_only_in_messages(self):
        for locale, hits in (("C", 0), ("C.UTF-8", 1)):
            self.compile("-c", LC_ALL=locale, LANG=locale)
            self.expect(hits, 1 - hits)
        self.write("k.cu", "__global__ void k() { int unused; }\n", self.folder)
        for locale, hits in (("C", 0), ("C.UTF-8", 0), ("C", 1)):
            self.compile("-c", LC_ALL=locale, LANG=locale)
            self.expect(hits, 1 - hits)

    def test_of_a_folder_of_libraries_the_libraries_count(self):
        one, two = (os.path.join(self.daemon.folder, name) for name in ("one", "two"))
        for folder in (one, two):
            os.mkdir(folder)
        plain = self.compile("-cubin", warm=False)
        for folders, hits in ((one, 0), (f"{two}:{one}", 1), (None, 1), (two, 1)):
            self.assertEqual(self.compile("-cubin", LD_LIBRARY_PATH=folders), plain)
            self.expect(hits, 1 - hits)
        libc = subprocess.run(["gcc", "-print-file-name=libc.so.6"], capture_output=True, text=True).stdout.strip()
        shutil.copy(os.path.realpath(libc), os.path.join(two, "libc.so.6"))
        for hits in (0, 1):
            self.assertEqual(self.compile("-cubin", LD_LIBRARY_PATH=two), plain)
            self.expect(hits, 1 - hits)

    def test_another_folder_is_a_hit(self):
        cold = self.compile("-cubin")
        other = self.project("b")
        self.assertEqual(self.compile("-cubin", folder=other), cold)
        self.expect(1, 0)

    def checkouts(self, within=""):
        """Returns two projects with a folder to build in, whose names have other lengths and depths."""
        for name in ("p", "deep/er/checkout"):
            folder = os.path.join(self.daemon.folder, within, name)
            os.makedirs(os.path.join(folder, "build"))
            os.mkdir(os.path.join(folder, "inc"))
            self.write("inc/v.h", "#define VALUE 1\n", folder)
            self.write("k.cu", '#include "v.h"\n__global__ void k(float *p) { p[threadIdx.x] = VALUE; }\n'
                       "void run(float *p) { k<<<1, 1>>>(p); }\n", folder)
            yield folder

    def build(self, folder, *options, **settings):
        """Compiles a project's source by its full name, in its folder to build in. Returns the files that this leaves."""
        here = os.path.join(folder, "build")
        for name in os.listdir(here):
            os.unlink(os.path.join(here, name))
        self.told.begin()
        self.daemon.run([kit.NVCC, "-arch=sm_90", "-I" + os.path.join(folder, "inc"), os.path.join(folder, "k.cu"),
                         *options], cwd=here, WARM_TOOL_DEBUG=self.told.path, **settings)
        return read_files(here)

    @staticmethod
    def masked(files):
        """Returns files without the names of nvcc's temporary files, which differ in each run."""
        return {name: re.sub(rb"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}", b"tmpxft", data) for name, data in files.items()}

    def test_a_project_in_another_folder_is_taken_and_equals_a_fresh_build_there(self):
        one, two = self.checkouts()
        for options in (("-cubin", "-o", "out"), ("-ptx", "-MD", "-MF", "out.d", "-o", "out"), ("-c", "-o", "out"),
                        ("-c", "-MD", "-MT", "HERE/out", "-MF", "out.d", "-o", "HERE/out", "-Xcompiler", "-fPIC")):
            with self.subTest(options):
                here, there = ([option.replace("HERE", os.path.join(folder, "build")) for option in options]
                               for folder in (one, two))
                self.build(one, *here)
                self.expect(0, 1)
                taken = self.build(two, *there)
                self.expect(1, 0)
                self.assertEqual(self.masked(taken), self.masked(self.build(two, *there, warm=False)))

    def test_a_project_in_another_folder_is_made_there_if_its_place_may_show(self):
        one, two = self.checkouts()
        length = "__device__ int f() { constexpr int n = sizeof(__FILE__); return n; }\n"
        asserts = "#include <cassert>\n__global__ void a(int x) { assert(x); }\n"
        for options, text in ((("-cubin", "-lineinfo", "-o", "out"), ""), (("-cubin", "-G", "-o", "out"), ""),
                              (("-dc", "-o", "out"), ""), (("-c", "-Xcompiler", "-g", "-o", "out"), ""),
                              (("-cubin", "-o", "out"), length), (("-ptx", "-o", "out"), asserts)):
            with self.subTest(options, text=text):
                for folder in (one, two):
                    with open(os.path.join(folder, "k.cu"), "a") as f:
                        f.write(text)
                self.build(one, *options)
                made = self.build(two, *options)
                self.expect(0, 1)
                self.assertEqual(self.build(two, *options), made)
                self.expect(1, 0)
                self.assertNotIn(one.encode(), made["out"])
                if "-g" not in options:  # its strings are sorted by digests, in which such names take part
                    self.assertEqual(self.masked(made), self.masked(self.build(two, *options, warm=False)))

    CHECK = "void fail(const char *, int);\n#define CHECK(x) ((x) ? (void)0 : fail(__FILE__, sizeof(__FILE__)))\n"
    CALLER = "inline void check(bool x, const char *f = __builtin_FILE()) { if (!x) fail(f, 0); }\n"

    def generated(self, home, header, text, nvcc=None):
        """Writes a source where FlashInfer generates them in a home. Returns what nvcc makes of it there."""
        folder = os.path.join(self.daemon.folder, home, ".cache/flashinfer/0.7/90a/generated")
        os.makedirs(folder, exist_ok=True)
        self.write("check.h", header, self.daemon.folder)
        self.write("k.cu", f'#include "check.h"\n__global__ void k(float *p) {{ *p = 1; }}\n{text}', folder)
        self.told.begin()
        self.daemon.run([nvcc or kit.NVCC, "-arch=sm_90", "-c", os.path.join(folder, "k.cu"), "-o", "k.o",
                         "-I" + self.daemon.folder + "/x/.."], cwd=folder, WARM_TOOL_DEBUG=self.told.path)
        with open(os.path.join(folder, "k.o"), "rb") as f:
            return f.read()

    def test_checks_of_generated_sources_do_not_show_the_home(self):
        os.mkdir(os.path.join(self.daemon.folder, "x"))
        run = "void run(float *p) { CHECK(p); k<<<1, 1>>>(p); }\n"
        one = self.generated("one", self.CHECK, run)
        self.expect(0, 1)
        self.assertEqual(self.generated("two/deeper", self.CHECK, run), one)
        self.expect(1, 0)
        self.assertIn(b"k.cu\0", one)
        self.assertNotIn(b"generated/k.cu", one)

    def test_the_same_with_a_toolkit_that_a_link_leads_to(self):
        os.mkdir(os.path.join(self.daemon.folder, "x"))
        link = os.path.join(self.daemon.folder, "cuda")
        os.symlink(os.path.dirname(os.path.dirname(os.path.realpath(kit.NVCC))), link)
        run = "void run(float *p) { CHECK(p); k<<<1, 1>>>(p); }\n"
        one = self.generated("one", self.CHECK, run, link + "/bin/nvcc")
        self.expect(0, 1)
        self.assertEqual(self.generated("two/deeper", self.CHECK, run, link + "/bin/nvcc"), one)
        self.expect(1, 0)

    def test_a_source_that_shows_its_name_hits_from_another_working_folder(self):
        package = os.path.join(self.daemon.folder, "package")
        os.mkdir(package)
        self.write("check.h", self.CHECK, package)
        self.write("m.cu", '#include "check.h"\n__global__ void k(float *p) { *p = 1; }\n'
                   "void run(float *p) { CHECK(p); k<<<1, 1>>>(p); }\n", package)
        made = []
        for hits, home in enumerate(("one", "two/deeper")):
            here = os.path.join(self.daemon.folder, home)
            os.makedirs(here)
            self.told.begin()
            self.daemon.run([kit.NVCC, "-arch=sm_90", "-c", os.path.join(package, "m.cu"),
                             "-o", os.path.join(here, "m.o"), "-MD", "-MF", os.path.join(here, "m.d")], cwd=here,
                            WARM_TOOL_DEBUG=self.told.path)
            self.expect(hits, 1 - hits)
            files = read_files(here)
            self.assertIn(os.path.join(here, "m.o").encode(), files["m.d"])
            made.append(files["m.o"])
        self.assertEqual(made[0], made[1])
        self.assertIn(os.path.join(package, "m.cu").encode(), made[0])

    def test_names_of_generated_sources_count_where_a_text_asks_for_them(self):
        os.mkdir(os.path.join(self.daemon.folder, "x"))
        for header, text in ((self.CHECK, "const char *here() { return __FILE__; }\n"),
                             (self.CHECK + self.CALLER, "void run(float *p) { check(p); }\n")):
            with self.subTest(text):
                for home in ("one", "two/deeper"):
                    made = self.generated(home, header, text)
                    self.expect(0, 1)
                    self.assertIn(f"{home}/.cache/flashinfer/0.7/90a/generated/k.cu".encode(), made)

    def test_the_spelling_of_the_toolkits_folder_does_not_count(self):
        toolkit = os.path.dirname(os.path.dirname(os.path.realpath(kit.NVCC)))
        link = os.path.join(self.daemon.folder, "cuda")
        os.symlink(toolkit, link)
        for options in (("-cubin", "-o", "out"), ("-ptx", "-MD", "-MF", "out.d", "-o", "out"), ("-c", "-o", "out")):
            with self.subTest(options):
                names = [f"{link}/include", f"{toolkit}/include"]
                if "-c" not in options:  # the host's compiler opens headers of a longer name by the real one: a miss
                    names.append(f"{toolkit}//bin/../include")
                for i, (folder, name) in enumerate(itertools.product(self.checkouts(options[0]), names)):
                    self.write("inc/v.h", "#include <math_constants.h>\n#define VALUE CUDART_INF_F\n", folder)
                    taken = self.build(folder, "-I" + name, *options)
                    self.expect(i > 0, i == 0)
                    plain = self.build(folder, "-I" + name, *options, warm=False)
                    self.assertEqual(self.masked(taken), self.masked(plain), name)

    def test_messages_name_the_folder_of_who_asks(self):
        for folder in self.checkouts():
            command = [kit.NVCC, "-cubin", "-arch=sm_90", "-I" + os.path.join(folder, "inc"),
                       os.path.join(folder, "k.cu"), "-o", os.path.join(folder, "build", "out")]
            for text in ("__global__ void w() { int unused; }\n", "error here\n"):
                with open(os.path.join(folder, "k.cu"), "a") as f:
                    f.write(text)
                plain, *ours = (self.daemon.run(command, warm=warm, check=False) for warm in (False, True, True))
                self.assertIn(os.path.join(folder, "k.cu"), plain.stderr)
                for result in ours:
                    self.assertEqual((result.returncode, result.stderr), (plain.returncode, plain.stderr))

    def test_objects_of_a_project_from_two_folders_link(self):
        objects = []
        for i, folder in enumerate(self.checkouts()):
            with open(os.path.join(folder, "k.cu")) as f:
                text = f.read()
            objects += [self.build(folder, "-c", "-o", "out")["out"]]
            self.write("k.cu", text.replace("run", f"run{i}").replace("void k", f"void k{i}").replace("k<", f"k{i}<"),
                       folder)
            objects += [self.build(folder, "-c", "-o", "out")["out"]]
        self.expect(0, 1)
        self.assertEqual(self.link(*objects[1:]), "")

    SOURCES = {
        "static": "static __device__ int t;\nstatic __global__ void f() { t = 1; }\n"
                  "static void __attribute__((used)) g() { f<<<1, 1>>>(); }\n",
        "anonymous": "namespace { __device__ int q; __global__ void f(float *p) { *p = q; } }\n"
                     "static void __attribute__((used)) h(float *p) { f<<<1, 1>>>(p); }\n",
        "header": '#include "n.h"\nstatic void __attribute__((used)) h(float *p) { f<<<1, 1>>>(p); }\n',
    }

    def source(self, name, *folders, external=False):
        """Writes a source, and a header, into folders. Without an external function, nvcc puts the number of its process
        into names."""
        source = self.SOURCES[name].replace("static void", "void") if external else self.SOURCES[name]
        for folder in folders:
            for file, text in (("k.cu", source), ("n.h", self.SOURCES["anonymous"].splitlines()[0])):
                with open(os.path.join(folder, file), "w") as f:
                    f.write(text + "\n")

    def link(self, *objects):
        """Links objects into one, and returns its messages."""
        paths = [os.path.join(self.folder, f"{i}.o") for i in range(len(objects))]
        for path, data in zip(paths, objects):
            with open(path, "wb") as f:
                f.write(data)
        ran = subprocess.run(["g++", "-r", *paths, "-o", os.path.join(self.folder, "both.o")],
                             capture_output=True, text=True)
        return ran.stderr

    def test_equal_sources_in_two_folders_link(self):
        other = self.project("b")
        for name in self.SOURCES:
            for options in (("-dc",), ("-c", "-rdc=true"), ("-c",)):
                with self.subTest(name, options=options):
                    self.source(name, self.folder, other)
                    objects = [self.compile(*options, folder=folder) for folder in (self.folder, other)]
                    self.assertEqual(self.link(*objects), "")
                    self.assertEqual(self.compile(*options, folder=other), objects[1])
                    self.expect(1, 0)

    def test_equal_sources_in_one_folder_link(self):
        self.source("static", self.folder)
        objects = []
        for name in ("a", "b"):
            self.daemon.run([kit.NVCC, "-dc", "-arch=sm_90", "k.cu", "-o", name], cwd=self.folder)
            with open(os.path.join(self.folder, name), "rb") as f:
                objects.append(f.read())
        self.assertEqual(self.link(*objects), "")

    def test_names_made_of_the_path_are_those_of_the_path(self):
        other = self.project("b")
        for name in ("anonymous", "header"):
            for mode in ("-cubin", "-ptx", "-fatbin"):
                with self.subTest(name, mode=mode):
                    self.source(name, self.folder, other, external=True)
                    plain = [self.compile(mode, folder=folder, warm=False) for folder in (self.folder, other)]
                    self.assertNotEqual(*plain)
                    for _ in range(2):
                        self.assertEqual([self.compile(mode, folder=f) for f in (self.folder, other)], plain)
                    self.expect(1, 0)

    def test_without_such_names_another_folder_is_a_hit(self):
        other = self.project("b")
        for mode in ("-c", "-cubin", "-ptx", "-fatbin"):
            with self.subTest(mode=mode):
                cold = self.compile(mode)
                self.assertEqual(self.compile(mode, folder=other), cold)
                self.expect(1, 0)

    def test_a_result_that_holds_its_folder_misses_elsewhere_and_why_names_the_folder(self):
        other = self.project("deeper")
        for options in (("-fatbin", "-dlto", "-rdc=true"), ("-cubin", "-lineinfo")):
            with self.subTest(options=options):
                cold = self.compile(*options)
                self.assertEqual(self.compile(*options), cold)
                self.expect(1, 0)
                plain = self.compile(*options, folder=other, warm=False)
                self.assertEqual(self.compile(*options, folder=other), plain)
                self.expect(0, 1)
                self.assertIn(f"working folder: {self.folder} → {other}\n", self.daemon.warm("why"))

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

    def test_with_line_information_the_name_of_the_working_folder_counts(self):
        link = self.folder + "_by_another_name"
        os.symlink(self.folder, link)
        self.compile("-cubin", "-lineinfo", PWD=self.folder)
        plain = self.compile("-cubin", "-lineinfo", PWD=link, warm=False)
        for hits in (0, 1):
            self.assertEqual(self.compile("-cubin", "-lineinfo", PWD=link), plain)
            self.expect(hits, 1 - hits)

    def test_options_of_the_environment_count(self):
        self.compile("-cubin")
        for name, value in (("NVCC_APPEND_FLAGS", "-DX"), ("PTXAS_FLAGS", "-O0")):
            plain = self.compile("-cubin", warm=False, **{name: value})
            self.assertEqual(self.compile("-cubin", **{name: value}), plain)
            self.expect(0, 1)

    def stand_in(self, name, program):
        """Returns PATH with a folder first that has a program of that name, or nothing if it is None."""
        folder = os.path.join(self.daemon.folder, "tools " + (name or "none"))
        os.makedirs(folder, exist_ok=True)
        if name:
            text = ("#include <unistd.h>\nint main(int n, char **old) { char *all[n + 2]; "
                    f'all[0] = "{program}"; all[1] = "-DSTAND_IN"; '
                    "for (int i = 1; i <= n; i++) all[i + 1] = old[i]; return execv(all[0], all); }\n")
            subprocess.run(["gcc", "-x", "c", "-", "-o", os.path.join(folder, name)], input=text, text=True, check=True)
        return folder + ":" + os.environ["PATH"]

    def test_path_counts_by_the_programs_that_it_leads_to(self):
        cold = self.compile("-cubin")
        self.assertEqual(self.compile("-cubin", PATH=self.stand_in(None, None)), cold)
        self.expect(1, 0)
        self.write("k.cu", "__global__ void k(int *p) {\n#ifdef STAND_IN\np[0] = 1;\n#endif\n}\n")
        cold, path = self.compile("-cubin"), self.stand_in("gcc", shutil.which("gcc"))
        plain = self.compile("-cubin", warm=False, PATH=path)
        self.assertNotEqual(plain, cold)
        for hits in (0, 1):
            self.assertEqual(self.compile("-cubin", PATH=path), plain)
            self.expect(hits, 1 - hits)

    def test_a_script_in_the_place_of_the_hosts_compiler_keeps_the_whole_out(self):
        self.write("k.cu", "__global__ void k(int *p) { p[0] = VALUE; }\n")
        folder = os.path.join(self.daemon.folder, "scripts")
        os.makedirs(folder)
        with open(os.path.join(folder, "gcc"), "w") as f:
            f.write(f'#!/bin/sh\nexec {shutil.which("gcc")} -DVALUE=$NUMBER "$@"\n')
        os.chmod(os.path.join(folder, "gcc"), 0o755)
        path = folder + ":" + os.environ["PATH"]
        for number in (1, 2, 2, 1):
            plain = self.compile("-cubin", warm=False, PATH=path, NUMBER=number)
            self.assertEqual(self.compile("-cubin", PATH=path, NUMBER=number), plain)
            self.assertEqual(self.told.count("hit: nvcc"), 0)

    def test_what_the_shell_replaces_is_never_kept(self):
        self.write("k.cu", "__global__ void k(int *p) { p[0] = VALUE; }\n")
        for option in ("-DVALUE=$NUMBER", "-DVALUE=`echo $NUMBER`"):
            results = [self.compile("-cubin", option, NUMBER=number) for number in (1, 2)]
            self.assertNotEqual(*results)
            self.assertIn("passed on: ", self.told.text())

    def test_messages_and_status_are_nvccs(self):
        with open(os.path.join(self.folder, "k.cu"), "a") as f:
            f.write("error here\n")
        results = [self.daemon.run([kit.NVCC, "-cubin", "-arch=sm_90", "k.cu"], cwd=self.folder,
                                   warm=warm, check=False) for warm in (False, True, True)]
        for result in results[1:]:
            self.assertEqual((result.returncode, result.stdout, result.stderr),
                             (results[0].returncode, results[0].stdout, results[0].stderr))

    def write(self, name, text, folder=None):
        with open(os.path.join(folder or self.folder, name), "w") as f:
            f.write(text)

    def test_a_hit_says_no_time(self):
        for option in ("-res-usage", "-Xptxas=-v"):
            command = [kit.NVCC, "-cubin", "-arch=sm_90", option, "k.cu", "-o", "out"]
            with self.subTest(option):
                cold, warm = (self.daemon.run(command, cwd=self.folder).stderr for _ in range(2))
                self.assertIn("Compile time", cold)
                self.assertEqual([line for line in cold.splitlines() if "Compile time" not in line],
                                 warm.splitlines())

    def test_the_clock_is_never_kept(self):
        kernel = 'extern "C" __global__ void k(int *p) { p[0] = t[7]; }\n'
        paste = "#define C(a, b) a##b\n#define X(a, b) C(a, b)\n"
        self.write("t.h", "#define STAMP __TIME__\n")
        for text, options in (
                ("__device__ const char *t = __TIME__; ", ()),
                (paste + "__device__ const char *t = X(__TI, ME__); ", ()),
                ("__device__ const char *t = __TI\\\nME__; ", ()),
                ("/* " + "x" * (5 << 20) + " */ __device__ const char *t = __DATE__; ", ()),
                ("__device__ const char *t = STAMP; ", ("-include", "t.h")),
                ("__device__ const char *t = STAMP; ", ("-DSTAMP=__TIME__",)),
                ("__device__ const char *t = __TIMESTAMP__; ", ())):
            self.write("k.cu", text + kernel)
            with self.subTest(text=text[-60:], options=options):
                for _ in range(2):
                    self.compile("-cubin", *options)
                    self.assertEqual(self.told.count("hit: nvcc"), 0)
                    self.assertNotEqual(self.told.count("not kept") + self.told.count("passed on"),
                                        0, self.told.text())

    def test_which_headers_are_one_counts(self):
        text = "#pragma once\n#ifdef SEEN\n#define TWICE 1\n#endif\n#define SEEN 1\n"
        for name in "ab":
            self.write(name + ".h", text)
            os.utime(os.path.join(self.folder, name + ".h"), (1e9, 1e9))
        self.write("k.cu", '#include "a.h"\n#include "b.h"\n#ifdef TWICE\n#define V 2\n#else\n'
                           "#define V 1\n#endif\n__global__ void k(float *p) { p[0] = V; }\n")
        once = self.compile("-cubin")
        os.utime(os.path.join(self.folder, "b.h"), (1e9, 1e9 + 100))
        twice = self.compile("-cubin")
        self.expect(0, 1)
        self.assertNotEqual(twice, once)
        self.assertEqual(twice, self.compile("-cubin", warm=False))
        os.utime(os.path.join(self.folder, "b.h"), (1e9, 1e9))
        self.assertEqual(self.compile("-cubin"), once)
        self.expect(1, 0)

    def test_the_name_of_a_temporary_folder_counts_where_it_decides(self):
        plain = "__global__ void k(int *p) { p[0] = 1; }\n"
        hashed = ("__host__ __device__ constexpr unsigned h(const char *s) { unsigned h = 5381; "
                  "while (*s) h = h * 33 + *s++; return h; }\n"
                  "__global__ void k(int *p) { p[0] = h(NAME); }\n")
        for text, header, hits in ((plain, "", 1), (hashed, "#define NAME __FILE__\n", 0)):
            results = []
            for name in ("short", "of_another_length"):
                folder = self.project(name + str(hits))
                self.write("v.h", header, folder)
                self.write("k.cu", '#include "v.h"\n' + text, folder)
                self.told.begin()
                source, out = (os.path.join(folder, n) for n in ("k.cu", "out"))
                command = [kit.NVCC, "-cubin", "-arch=sm_90", source, "-o", out]
                self.daemon.run(command, WARM_TOOL_DEBUG=self.told.path)
                with open(out, "rb") as f:
                    results.append(f.read())
                self.daemon.run(command, warm=False)
                with open(out, "rb") as f:
                    self.assertEqual(results[-1], f.read())
            self.expect(hits, 1 - hits)

    def test_what_extensions_of_pytorch_pass_is_kept(self):
        options = ("--generate-dependencies-with-compile", "--dependency-output", "out.d",
                   "--compiler-options", "-fPIC", "-DTORCH_API_INCLUDE_EXTENSION_H", "-std=c++17",
                   "--expt-relaxed-constexpr", "-gencode=arch=compute_90,code=sm_90")
        self.told.begin()
        command = [kit.NVCC, *options, "-c", "k.cu", "-o", "out.o"]
        self.daemon.run(command, cwd=self.folder, warm=False)
        plain = read_files(self.folder)["out.d"]
        for hits in (0, 1):
            for name in ("out.d", "out.o"):
                os.unlink(os.path.join(self.folder, name))
            self.told.begin()
            self.daemon.run(command, cwd=self.folder, WARM_TOOL_DEBUG=self.told.path)
            self.expect(hits, 1 - hits)
            files = read_files(self.folder)
            self.assertEqual(files["out.d"], plain)
            self.assertIn("out.o", files)

    def test_options_that_no_table_has_are_run_and_not_kept(self):
        for options in (("-Xcompiler", "-save-temps=obj"), ("-Xcompiler", "-fstack-usage"), ("--keep",),
                        ("-Xcudafe", "--timing")):
            for _ in range(2):
                self.compile("-c", *options)
                self.assertEqual(self.told.count("hit: nvcc"), 0, options)
                self.assertIn("passed on: ", self.told.text(), options)

    def test_options_for_other_tools_and_files_of_options_are_kept(self):
        self.write("options", "-O3 -DX=1\n-Xfatbin -compress-all\n")
        for options in (("-Xfatbin=-compress-all", "-static-global-template-stub=false"),
                        ("-forward-unknown-to-host-compiler", "-fvisibility=hidden"),
                        ("-Xcudafe", "--diag_suppress=177"), ("-Xptxas", "-v,-warn-lmem-usage"),
                        ("--options-file", "options"), ("--compress-mode=size", "--jobserver"),
                        ("-Wno-deprecated-gpu-targets", "-allow-unsupported-compiler"),
                        ("-Xcompiler=-march=native", "--ftemplate-backtrace-limit=0")):
            with self.subTest(options):
                cold = self.compile("-c", *options)
                self.expect(0, 1)
                self.assertEqual(self.compile("-c", *options), cold)
                self.expect(1, 0)

    def test_a_file_of_options_counts_by_its_words(self):
        self.write("options", "-DX=1")
        self.compile("-cubin", "--options-file", "options")
        self.compile("-cubin", "-DX=1")
        self.expect(1, 0)
        self.write("k.cu", "__global__ void k(float *p) { p[threadIdx.x] = X; }\n")
        self.compile("-cubin", "--options-file", "options")
        self.write("options", "-DX=2")
        plain = self.compile("-cubin", "-DX=2", warm=False)
        self.assertEqual(self.compile("-cubin", "--options-file", "options"), plain)
        self.expect(0, 1)

    def test_nvcc_chooses_the_name_of_the_dependency_file_as_it_does_by_itself(self):
        for options, name in ((("-MD",), "out.d"), (("-MD", "-MT", "target.o"), "out.d"),
                              (("-MMD", "-MF", "x.d"), "x.d")):
            with self.subTest(options):
                self.compile("-c", *options, warm=False)
                plain = read_files(self.folder)[name]
                for hits in (0, 1):
                    os.unlink(os.path.join(self.folder, name))
                    self.compile("-c", *options)
                    self.expect(hits, 1 - hits)
                    self.assertEqual(read_files(self.folder)[name], plain)

    def test_a_target_of_a_dependency_file_may_be_there_or_not(self):
        for option in ("-DQUIET", "-Xptxas=-v"):
            for is_there, hits in ((False, 0), (False, 1), (True, 1)):
                with self.subTest(option=option, is_there=is_there, hits=hits):
                    if is_there:
                        self.write("out", "", self.folder)
                    self.compile("-c", "-MD", "-MT", "out", option)
                    self.expect(hits, 1 - hits)

    def test_every_option_of_help_has_a_row(self):
        for tool in ("nvcc", "ptxas", "fatbinary", "nvlink"):
            with self.subTest(tool):
                self.assertEqual(kit.options_without_a_row(
                    self.daemon, os.path.join(os.path.dirname(kit.NVCC), tool)), [])

    def test_cicc_knows_what_nvcc_gives_it(self):
        options = ("-dlto", "-dlto -gen-opt-lto", "-G", "-g", "-lineinfo -src-in-ptx", "-rdc=true", "-ewp", "-dc", "-dw",
                   "-use_fast_math", "-maxrregcount=32", "-w", "-restrict", "-expt-relaxed-constexpr", "-extended-lambda",
                   "-std=c++14", "-std=c++20", "-O0", "-Ofc=max", "-opt-info=inline", "-diag-suppress=177",
                   "-diag-error=177", "-diag-warn=177", "-Werror=all-warnings", "-no-err-no", "-brief-diag=true",
                   "-Wconversion", "-ftemplate-depth=100", "-ftemplate-backtrace-limit=5", "-fmax-errors=3",
                   "-frandom-seed=x", "-keep-device-functions", "-jtd=50", "-split-compile=2", "-nohdinitlist",
                   "-extra-device-vectorization", "-nohdmoveforward", "-utf-8", "-static-global-template-stub=false",
                   "-device-entity-has-hidden-visibility=false", "-fdevice-syntax-only", "-jobserver",
                   "-ccbin=clang++")
        stand_in, seen = os.path.join(self.daemon.folder, "cicc"), set()
        shutil.copy("/bin/true", stand_in)
        for option in options:
            command = [kit.NVCC, "--dryrun", "k.cu", "-o", "out", *option.split()]
            command += [] if option.startswith("-d") else ["-c", "-arch=sm_90"]
            said = subprocess.run(command, cwd=self.folder, capture_output=True, text=True).stderr
            lines = [shlex.split(line[3:])[1:] for line in said.splitlines() if "$CICC_PATH/cicc" in line]
            for word in {word for line in lines for word in line if word.startswith("-")} - seen:
                with self.subTest(option, word=word):
                    seen.add(word)
                    self.told.begin()
                    subprocess.run([kit.program("warm"), "tool", "--", stand_in, word, "-g"], capture_output=True,
                                   timeout=kit.WAIT_S, env=self.daemon.environment(WARM_TOOL_DEBUG=self.told.path))
                    self.assertRegex(self.told.text(), "passed on: |miss: |hit: ")
                    self.assertNotIn("does not know", self.told.text())
        self.assertGreater(len(seen), 50)

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
