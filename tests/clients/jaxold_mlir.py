# SPDX-License-Identifier: Apache-2.0
"""Passes that a program runs on modules through MLIR's C API, as Reactant.jl does. The program is
jaxold_mlir.c, with the library of the oldest supported JAX. Neither Reactant nor Enzyme's passes run here.
The tests show that the module that the passes made in another process replaces the one of this process."""

import json
import os
import subprocess
import unittest

import jaxlib
import kit

LIBRARY = os.path.join(os.path.dirname(jaxlib.__file__), "mlir", "_mlir_libs",
                       "libjaxlib_mlir_capi.so")
PASSES = "canonicalize,cse,symbol-dce"
MODULE = """module @reactant_loop_76 attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @helper(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.multiply %0, %arg1 : tensor<4xf32>
    %2 = stablehlo.multiply %0, %arg1 : tensor<4xf32>
    %3 = stablehlo.add %1, %2 : tensor<4xf32>
    %4 = stablehlo.sine %3 : tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  func.func private @helper(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.cosine %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @unused(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %arg0 : tensor<4xf32>
  }
}
"""
LOCATED = MODULE.replace("%arg1 : tensor<4xf32>\n", '%arg1 : tensor<4xf32> loc("loop.jl":5:1)\n')
POINTER = MODULE.replace("stablehlo.sine %3", "stablehlo.custom_call @enzymexla_compile_cpu(%3)").replace(
    "%4 = stablehlo.custom_call @enzymexla_compile_cpu(%3) : tensor<4xf32>",
    "%4 = stablehlo.custom_call @enzymexla_compile_cpu(%3) : (tensor<4xf32>) -> tensor<4xf32>")


class Passes(kit.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = kit.Folder()
        cls.program = os.path.join(cls.folder.__enter__(), "passes")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jaxold_mlir.c")
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-o", cls.program, source, "-ldl"],
                       check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.__exit__()

    def run_passes(self, daemon, *modules, passes=PASSES, warm=True, **settings):
        files = []
        for i, module in enumerate(modules):
            files.append(os.path.join(daemon.folder, f"{i}.mlir"))
            with open(files[-1], "w") as f:
                f.write(module)
        settings.setdefault("WARM_MLIR", 1)
        return daemon.run([self.program, LIBRARY, passes, *files], warm=warm, **settings).stdout

    def kept(self, daemon):
        rows = [r for kind in ("graph", "backward")
                for r in json.loads(daemon.warm("ls", "--json", "--kind", kind))]
        return {r["name"]: r["hits"] for r in rows if r["name"].startswith("mlir:1:")}

    def test_another_process_gets_the_module_that_the_passes_gave(self):
        with kit.Daemon() as daemon:
            plain = self.run_passes(daemon, MODULE, warm=False)
            self.assertIn("same module: 1", plain)
            self.assertEqual(plain.count("stablehlo.multiply"), 2)  # in the function, in the module
            self.assertNotIn("unused", plain)
            self.assertEqual(self.run_passes(daemon, MODULE), plain)
            self.assertEqual(list(self.kept(daemon).values()), [0])
            self.assertEqual(self.run_passes(daemon, MODULE), plain)
            self.assertEqual(self.run_passes(daemon, LOCATED), plain)
            self.assertEqual(list(self.kept(daemon).values()), [2])

    def test_the_number_of_the_module_does_not_matter_and_its_name_stays(self):
        with kit.Daemon() as daemon:
            plain = self.run_passes(daemon, MODULE)
            for name in ("reactant_loop_177", '"a name/with blanks"'):
                renamed = self.run_passes(daemon, MODULE.replace("reactant_loop_76", name))
                self.assertEqual(renamed, plain.replace("reactant_loop_76", name))
            self.assertEqual(list(self.kept(daemon).values()), [2])

    def test_another_module_and_other_passes_miss(self):
        with kit.Daemon() as daemon:
            self.run_passes(daemon, MODULE)
            others = [(MODULE.replace("multiply", "subtract"), PASSES), (MODULE, "cse"),
                      (MODULE.replace("num_partitions = 1", "num_partitions = 2"), PASSES),
                      (MODULE.replace("@main", "@other"), PASSES)]
            for i, (module, passes) in enumerate(others):
                plain = self.run_passes(daemon, module, passes=passes, warm=False)
                self.assertEqual(self.run_passes(daemon, module, passes=passes), plain)
                self.assertEqual(len(self.kept(daemon)), 2 + i)
            self.assertEqual(set(self.kept(daemon).values()), {0})

    def test_several_modules_in_one_process(self):
        two = MODULE.replace("cosine", "tanh")
        with kit.Daemon() as daemon:
            plain = self.run_passes(daemon, MODULE, two, MODULE, warm=False)
            for _ in range(2):
                self.assertEqual(self.run_passes(daemon, MODULE, two, MODULE), plain)
            self.assertEqual(sorted(self.kept(daemon).values()), [1, 3])

    def test_what_holds_addresses_is_never_kept(self):
        with kit.Daemon() as daemon:
            plain = self.run_passes(daemon, POINTER, warm=False)
            self.assertEqual(self.run_passes(daemon, POINTER), plain)
            self.assertEqual(self.kept(daemon), {})

    def test_damaged_entries_are_made_anew(self):
        damage = """
import hashlib, sys, warm
name, how = sys.argv[1:]
value = warm.get(name)
warm.put(name, {"cut": value[:-40], "noise": b"noise" * 9, "empty": b""}[how], kind="graph")
"""
        with kit.Daemon() as daemon:
            plain = self.run_passes(daemon, MODULE)
            (name,) = self.kept(daemon)
            for how in ("cut", "noise", "empty"):
                daemon.run(damage, name, how)
                self.assertEqual(self.run_passes(daemon, MODULE), plain)
                hits = self.kept(daemon)[name]
                self.assertEqual(self.run_passes(daemon, MODULE), plain)
                self.assertEqual(self.kept(daemon)[name], hits + 1)

    def test_unless_it_is_asked_for_nothing_happens(self):
        with kit.Daemon() as daemon:
            plain = self.run_passes(daemon, MODULE, warm=False)
            for settings in (dict(WARM_MLIR=None), dict(WARM_MLIR=0), dict(WARM_DISABLE=1),
                             dict(WARM_READONLY=1)):
                self.assertEqual(self.run_passes(daemon, MODULE, **settings), plain)
            self.assertEqual(self.kept(daemon), {})

    def test_passes_that_fail_fail_as_ever_and_leave_nobody_waiting(self):
        bad = "stablehlo-refine-arguments{types=tensor<5xf32>}"
        with kit.Daemon() as daemon:
            command = [self.program, LIBRARY, bad, os.path.join(daemon.folder, "0.mlir")]
            with open(command[-1], "w") as f:
                f.write(MODULE)
            plain = daemon.run(command, warm=False, check=False)
            self.assertEqual(plain.returncode, 1)
            for _ in range(2):
                found = daemon.run(command, check=False, WARM_MLIR=1)
                self.assertEqual((found.returncode, found.stdout), (plain.returncode, plain.stdout))


if __name__ == "__main__":
    unittest.main()
