# SPDX-License-Identifier: Apache-2.0
"""Triton's cache on the daemon, without a GPU: six kernels for sm_80 and sm_90."""

import glob
import json
import os
import re
import sys
import unittest

import kit

PROGRAM = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "six_kernels.py")]
FEW = ("add", "softmax")


def spawn(daemon, folder, *names, arch=90, warm=True, **settings):
    return daemon.spawn([*PROGRAM, str(arch), *names], warm=warm, TRITON_CACHE_DIR=folder, **settings)


def finish(process):
    out, error = process.communicate(timeout=kit.RUN_S)
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode}: {error[-4000:]}")
    return json.loads(out.splitlines()[-1])


def compile_in(daemon, folder, *names, **settings):
    return finish(spawn(daemon, folder, *names, **settings))


def compile_fresh(daemon, *names, **settings):
    with kit.Folder() as folder:
        return compile_in(daemon, folder, *names, **settings)


def entries(daemon):
    rows = json.loads(daemon.warm("ls", "--kind", "triton", "--json"))
    return {row["label"]: row for row in rows}


class Kernels(kit.TestCase):
    def test_six_kernels_are_warm_in_a_fresh_process_and_folder(self):
        with kit.Daemon() as daemon:
            for arch in (80, 90):
                with self.subTest(arch=arch):
                    plain = compile_fresh(daemon, arch=arch, warm=False)
                    cold = compile_fresh(daemon, arch=arch)
                    warm = compile_fresh(daemon, arch=arch)
                    self.assertEqual((cold["hits"], cold["misses"]), (0, 6))
                    self.assertEqual((warm["hits"], warm["misses"]), (6, 0))
                    self.assertEqual(warm["cubins"], plain["cubins"])

    def test_a_session_that_was_moved_is_warm_in_an_empty_store(self):
        with kit.Daemon() as daemon:
            cold = compile_fresh(daemon)
            daemon.move_session()
            warm = compile_fresh(daemon)
            self.assertEqual((warm["hits"], warm["misses"]), (6, 0))
            self.assertEqual(warm["cubins"], cold["cubins"])
            self.assertEqual(daemon.last_session()["misses"], 0)

    def test_an_architecture_is_never_served_another_ones(self):
        with kit.Daemon() as daemon:
            compile_fresh(daemon, *FEW, arch=80)
            self.assertEqual(compile_fresh(daemon, *FEW, arch=86)["misses"], len(FEW))

    def test_a_kernel_is_one_entry_with_its_name_and_target(self):
        with kit.Daemon() as daemon:
            compile_fresh(daemon, *FEW)
            rows = entries(daemon)
            self.assertEqual(set(rows), set(FEW))
            self.assertEqual({row["arch"] for row in rows.values()}, {"sm_90"})

    def test_why_names_the_operation_that_differs(self):
        with open(PROGRAM[1]) as f:
            text = f.read()
        with kit.Daemon() as daemon, kit.Folder() as folder:
            compile_fresh(daemon, "softmax")
            path = os.path.join(folder, "six_kernels.py")
            with open(path, "w") as f:
                f.write(text.replace("e = tl.exp(", "e = tl.sin("))
            finish(daemon.spawn([sys.executable, path, "90", "softmax"], WARM_SESSION="sine",
                                TRITON_CACHE_DIR=os.path.join(folder, "cache")))
            told = daemon.warm("why", "--session", "sine")
            self.assertRegex(told, "differs from softmax of .*: math.exp \u2192 math.sin, line [0-9]+\n")

    def test_the_local_folder_is_complete(self):
        with kit.Daemon() as daemon, kit.Folder() as folder:
            compile_fresh(daemon, *FEW)
            compile_in(daemon, folder, *FEW)
            self.assertEqual(len(glob.glob(os.path.join(folder, "*", "*.cubin"))), len(FEW))
            daemon.stop()
            plain = compile_in(daemon, folder, *FEW, warm=False)
            self.assertEqual((plain["hits"], plain["misses"]), (len(FEW), 0))

    def test_of_processes_at_once_one_compiles(self):
        with kit.Daemon() as daemon, kit.Folder() as folder:
            running = [spawn(daemon, os.path.join(folder, str(i)), *FEW) for i in range(4)]
            seen = [finish(process) for process in running]
            self.assertEqual(sum(one["misses"] for one in seen), len(FEW))
            self.assertEqual(len({json.dumps(one["cubins"]) for one in seen}), 1)


class Alike(kit.TestCase):
    """Kernels that differ from one that was compiled before only in parts that no GPU sees."""

    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)
        self.cold = compile_fresh(self.daemon, *FEW)
        self.folder = kit.Folder()
        self.path = self.folder.__enter__()
        self.addCleanup(self.folder.__exit__, None, None, None)
        with open(PROGRAM[1]) as f:
            self.text = f.read()

    def cubins(self):
        return self.daemon.stats("kinds")["cubin"]

    def compile_variant(self, name, text, **settings):
        moved = os.path.join(self.path, name + ".py")
        with open(moved, "w") as f:
            f.write(text)
        process = self.daemon.spawn([sys.executable, moved, "90", *FEW],
                                    TRITON_CACHE_DIR=os.path.join(self.path, name), **settings)
        return finish(process)

    def test_a_moved_file_is_a_hit_on_every_rank_and_device(self):
        seen = self.compile_variant("moved", self.text, RANK="5", LOCAL_RANK="5", CUDA_VISIBLE_DEVICES="5")
        self.assertEqual((seen["hits"], seen["misses"]), (len(FEW), 0))

    def test_without_line_information_other_lines_and_names_reuse_what_ptxas_made(self):
        variants = {
            "lines": self.text.replace("@triton.jit", "\n\n@triton.jit"),
            "comment": self.text.replace("    row = tl", "    # one for each\n    row = tl")
                                .replace("    at = tl.program", "    # its part\n    at = tl.program"),
            "names": re.sub(r"\b(mask|v)\b", r"\1_", self.text),
        }
        self.compile_variant("first", self.text, TRITON_DISABLE_LINE_INFO="1")
        for name, text in variants.items():
            with self.subTest(name):
                before = self.cubins()
                seen = self.compile_variant(name, text, TRITON_DISABLE_LINE_INFO="1")
                after = self.cubins()
                self.assertEqual(seen["misses"], len(FEW))
                self.assertEqual(after["puts"], before["puts"])
                self.assertGreaterEqual(after["hits"], before["hits"] + len(FEW))

    def files_of(self, name, text, folder, **settings):
        """Runs a program, and returns the files of its kernels. The program's mtime is always the same, because
        ptxas may write it into a file."""
        program = os.path.join(self.path, "k.py")
        with open(program, "w") as f:
            f.write(text)
        os.utime(program, (10**9, 10**9))
        process = self.daemon.spawn([sys.executable, program, "90", *FEW],
                                    TRITON_CACHE_DIR=os.path.join(self.path, folder), **settings)
        self.assertEqual(finish(process)["misses"], len(FEW), name)
        files = {}
        for path in glob.glob(os.path.join(self.path, folder, "*", "*")):
            if not os.path.basename(path).startswith("__grp__"):
                with open(path, "rb") as f:
                    files[os.path.basename(path)] = f.read()
        return files

    def test_an_edit_that_only_moves_lines_costs_the_front_end_and_ptxas(self):
        """A process that runs all stages makes the same bytes."""
        comment = self.text.replace("    row = tl", "    # one for each\n    row = tl")
        variants = {  # each with True if the stages are known
            "first": (self.text, False),
            "lines": (self.text.replace("@triton.jit", "\n\n@triton.jit"), True),
            "comment": (comment.replace("    at = tl.program", "    # its part\n    at = tl.program"), True),
            "lines of two bytes": (self.text.replace("@triton.jit", "\n" * 300 + "@triton.jit", 1), False),
            "more of them": (self.text.replace("@triton.jit", "\n" * 400 + "@triton.jit", 1), True),
            "code": (self.text.replace("mask) + tl", "mask) - tl").replace("v - tl.max", "v + tl.max"), False),
        }
        for info, names in (("0", tuple(variants)), ("1", ("first", "lines of two bytes", "code"))):
            for name in names:
                text, known = variants[name]
                known = known or (info == "1" and name == "lines of two bytes")  # its TTIR has no lines
                settings = {"TRITON_DISABLE_LINE_INFO": info}
                with self.subTest(name, info=info):
                    before = self.forms()
                    warm = self.files_of(name, text, f"{name}{info}", **settings)
                    self.assertEqual(self.forms() - before, 0 if known else len(FEW))
                    plain = self.files_of(name, text, f"{name}{info}plain", WARM_DISABLE="1", **settings)
                    self.assertEqual(set(warm), set(plain))
                    self.assertEqual([file for file in plain if plain[file] != warm[file]], [])

    def test_the_line_of_an_assertion_is_its_own(self):
        text = self.text.replace("    mask = at < n\n", "    mask = at < n\n    tl.device_assert(mask, 'far')\n")
        text = text.replace("options=options)", 'options={**options, "debug": True})')
        for name, lines in (("asserts", ""), ("moved", "\n\n")):
            moved = text.replace("@triton.jit", lines + "@triton.jit")
            warm, plain = (self.files_of(name, moved, name + off, WARM_DISABLE=off) for off in ("0", "1"))
            self.assertIn(b"assertFile", warm["add.llir"])
            self.assertEqual([file for file in plain if plain[file] != warm[file]], [])

    def forms(self):
        """Returns how many forms of kernels are remembered."""
        return sum((row["label"] or "").endswith(", its form") for row in
                   json.loads(self.daemon.warm("ls", "--json")))


class Faults(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)
        self.cold = compile_fresh(self.daemon, *FEW)

    def expect_same(self, **settings):
        seen = compile_fresh(self.daemon, *FEW, **settings)
        self.assertEqual(seen["cubins"], self.cold["cubins"])
        return seen

    def test_no_daemon(self):
        self.daemon.stop()
        self.expect_same(WARM_SOCKET=self.daemon.socket + ".none")

    def test_a_daemon_that_hangs(self):
        self.daemon.suspend()
        self.expect_same()

    def test_damaged_entries_are_made_anew(self):
        with kit.Folder() as folder:
            path = os.path.join(folder, "value")
            for value in (b"", b"garbage", b"warm-triton 1\n", b"warm-triton 1\n\x78\x01\x00"):
                with open(path, "wb") as f:
                    f.write(value)
                for row in json.loads(self.daemon.warm("ls", "--json")):
                    if (row["name"] or "").startswith("triton:"):
                        self.daemon.warm("put", row["name"], path)
                with self.subTest(value=value):
                    self.assertEqual(self.expect_same()["misses"], len(FEW))
                    self.assertEqual(self.expect_same()["misses"], 0)

    def test_the_daemon_dies_while_one_compiles_and_others_wait(self):
        self.daemon.warm("clear", "--yes")
        before = self.daemon.stats("misses")
        with kit.Folder() as folder:
            running = [spawn(self.daemon, os.path.join(folder, str(i)), *FEW) for i in range(2)]
            while self.daemon.stats("misses") == before and running[0].poll() is None:
                kit.time.sleep(0.01)
            self.daemon.kill()
            for process in running:
                self.assertEqual(finish(process)["cubins"], self.cold["cubins"])

    def test_the_daemon_dies_during_a_warm_start(self):
        before = self.daemon.stats("hits")
        with kit.Folder() as folder:
            process = spawn(self.daemon, folder, *FEW)
            while self.daemon.stats("hits") == before and process.poll() is None:
                kit.time.sleep(0.01)
            self.daemon.kill()
            self.assertEqual(finish(process)["cubins"], self.cold["cubins"])

    def test_another_build_of_triton_takes_nothing_of_this_one(self):
        script = """if True:
            import runpy, sys
            import triton.runtime.cache
            triton.runtime.cache.triton_key = lambda: "3.9.0 of somebody else"
            sys.argv = sys.argv[1:]
            runpy.run_path(sys.argv[0], run_name="__main__")
        """
        with kit.Folder() as folder:
            seen = kit.result(self.daemon.run(script, PROGRAM[1], "90", *FEW, TRITON_CACHE_DIR=folder))
        self.assertEqual((seen["hits"], seen["misses"]), (0, len(FEW)))
        self.assertEqual(seen["cubins"], self.cold["cubins"])

    def test_who_never_puts_is_not_waited_for(self):
        self.daemon.stop()
        self.daemon.options = ("--lease-timeout", "2s")
        self.daemon.start()
        names = [row["name"] for row in json.loads(self.daemon.warm("ls", "--kind", "triton", "--json"))]
        self.daemon.warm("rm", *names)
        holder = self.daemon.spawn(kit.HOLD, *names)
        try:
            self.assertEqual(holder.stdout.readline(), "held\n")
            self.assertEqual(self.expect_same()["misses"], len(FEW))
        finally:
            holder.kill()
            holder.communicate()

    def test_switches(self):
        self.assertEqual(self.expect_same(WARM_DISABLE="1")["misses"], len(FEW))
        self.assertEqual(self.expect_same(WARM_RECACHE="1")["misses"], len(FEW))
        self.assertEqual(self.expect_same(WARM_READONLY="1")["misses"], 0)
        self.daemon.warm("clear", "--yes")
        self.assertEqual(self.expect_same(WARM_READONLY="1")["misses"], len(FEW))
        self.assertEqual(self.expect_same()["misses"], len(FEW))

    def test_a_store_that_keeps_nothing(self):
        with kit.Daemon("--max-size", "16K") as daemon:
            seen = compile_fresh(daemon, *FEW)
            self.assertEqual(seen["cubins"], self.cold["cubins"])


class Autotuning(kit.TestCase):
    # Without a GPU no kernel can run, so bench() invents the time of a configuration. All else is Triton's own.
    PROGRAM = """if True:
        import json, sys
        import triton
        import triton.language as tl
        from triton.backends.compiler import GPUTarget

        class Driver:
            def get_current_target(self):
                return GPUTarget("cuda", 90, 32)

        triton.runtime.driver.set_active(Driver())
        benched = []

        def bench(call, quantiles):
            benched.append(0)
            return [5.0 - len(benched)] * 3  # each is faster than the one before

        @triton.autotune([triton.Config({"BLOCK": n}) for n in (64, 128, 256)], key=["n"], do_bench=bench)
        @triton.jit
        def double(x, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(x + at, 2 * tl.load(x + at, at < n), at < n)

        double.fn.run = lambda *arguments, **chosen: chosen["BLOCK"]
        print(json.dumps([double.run(0, int(sys.argv[1]), grid=(1,)), len(benched)]))
    """

    def tune(self, daemon, n, **settings):
        with kit.Folder() as folder:
            path = os.path.join(daemon.folder, "tuned.py")  # Triton reads a kernel's source
            with open(path, "w") as f:
                f.write(self.PROGRAM)
            return kit.result(daemon.run([sys.executable, path], str(n), TRITON_CACHE_DIR=folder,
                                         TRITON_CACHE_AUTOTUNING="1", **settings))

    def test_what_was_found_fastest_is_not_measured_again(self):
        with kit.Daemon() as daemon:
            self.assertEqual(self.tune(daemon, 1000), [256, 3])
            self.assertEqual(self.tune(daemon, 1000), [256, 0])
            self.assertEqual(self.tune(daemon, 2000), [256, 3])
            self.assertEqual(self.tune(daemon, 1000, WARM_DISABLE="1"), [256, 3])


class Launchers(kit.TestCase):
    """What Triton has the local gcc make, such as cuda_utils.so. In a container with an older C library it may not
    load."""

    SCRIPT = """if True:
        import json, os, subprocess, sys
        if len(sys.argv) > 2:
            os.confstr = lambda name: sys.argv[2]
        from triton.runtime import build
        runs, real = [], subprocess.check_call
        subprocess.check_call = lambda *a, **k: (runs.append(1), real(*a, **k))[1]
        def compile(source, language="c"):
            try:
                return build.compile_module_from_src(source, "twice", language=language)
            except TypeError:
                return build.compile_module_from_src(source, "twice")
        print(json.dumps([compile(open(sys.argv[1]).read()).twice(4), len(runs)]))
    """
    SOURCE = """
#include <Python.h>
static PyObject *twice(PyObject *self, PyObject *n) { return PyLong_FromLong(2 * PyLong_AsLong(n)); }
static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "twice", "", -1, methods};
PyMODINIT_FUNC PyInit_twice(void) { MORE return PyModule_Create(&module); }
"""

    def compile(self, daemon, *libc, more=""):
        path = os.path.join(daemon.folder, "twice.c")
        with open(path, "w") as f:
            f.write(self.SOURCE.replace("MORE", more))
        with kit.Folder() as folder:
            return kit.result(daemon.run(self.SCRIPT, path, *libc, TRITON_CACHE_DIR=folder))

    def test_a_launcher_is_that_of_the_c_library_at_hand(self):
        with kit.Daemon() as daemon:
            self.assertEqual(self.compile(daemon), [8, 1])
            self.assertEqual(self.compile(daemon), [8, 0])
            self.assertEqual(self.compile(daemon, "glibc 2.99"), [8, 1])
            self.assertEqual(self.compile(daemon, "glibc 2.99"), [8, 0])
            self.assertEqual(self.compile(daemon, ""), [8, 1])
            self.assertEqual(self.compile(daemon, ""), [8, 1])

    def test_one_that_needs_a_version_of_another_library_is_not_kept(self):
        needs = 'if (0) printf("GLIBCXX_3.4.30");'
        with kit.Daemon() as daemon:
            for _ in range(2):
                self.assertEqual(self.compile(daemon, more=needs.replace("if (0)", "if (methods[1].ml_name)")), [8, 1])


class TritonsOwnKey(kit.TestCase):
    SCRIPT = """if True:
        import json, time
        from triton.runtime import autotuner, cache
        began = time.process_time()
        key = cache.triton_key()
        print(json.dumps([key, time.process_time() - began, autotuner.triton_key() == key]))
    """

    def ask(self, daemon, **settings):
        return kit.result(daemon.run(self.SCRIPT, **settings))

    def test_it_is_remembered_and_the_same(self):
        with kit.Daemon() as daemon:
            real = self.ask(daemon, warm=False)
            first, again = self.ask(daemon), self.ask(daemon)
            self.assertEqual((first[0], again[0]), (real[0], real[0]))
            self.assertTrue(again[2])
            self.assertLess(again[1], first[1] / 2)
            self.assertEqual(daemon.stats("hits"), 1)

    def test_of_other_cache_managers_it_is_left_alone(self):
        with kit.Daemon() as daemon:
            self.ask(daemon, TRITON_CACHE_MANAGER="triton.runtime.cache:FileCacheManager")
            self.assertEqual(daemon.stats("entries"), 0)

    # Changes files that Triton hashes, but neither their size nor their mtime. The identity must change each time.
    IDENTITY = """if True:
        import os, sys
        from warm import _identity, triton
        root, seen = sys.argv[1], set()

        def identity():
            return _identity.of_files(triton._files(root))

        def is_new():
            seen.update(identity()[0] for _ in range(2))
            return len(seen)

        n = is_new()
        for name in ("__init__.py", "runtime/cache.py", "backends/nvidia/compiler.py", "_C/libtriton.so"):
            path = os.path.join(root, name)
            old = os.stat(path)
            for how in ("written to", "replaced"):
                if how == "replaced":
                    os.rename(path, path + ".old")
                with open(path, "r+" if how == "written to" else "w") as f:
                    f.write(how.center(20))
                os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
                n += 1
                assert is_new() == n, (name, how)
        open(os.path.join(root, "language/new.py"), "w").close()
        assert is_new() == n + 1
        for _identity._SETTLED_NS, is_settled in ((10**18, False), (-(10**18), True)):
            assert identity()[1] == is_settled
        print("fine")
    """

    def test_any_change_of_its_files_is_seen(self):
        with kit.Daemon() as daemon, kit.Folder() as root:
            for name in ("__init__.py", "runtime/cache.py", "compiler/compiler.py", "language/core.py",
                         "backends/nvidia/compiler.py", "_C/libtriton.so"):
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w") as f:
                    f.write("something".center(20))
            self.assertEqual(daemon.run(self.IDENTITY, root).stdout, "fine\n")


if __name__ == "__main__":
    unittest.main()
