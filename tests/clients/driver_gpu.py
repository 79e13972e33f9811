# SPDX-License-Identifier: Apache-2.0
"""`make test-gpu` on a machine without a GPU: every step ends, on the stand-in or with a word about what is missing,
so that the first minutes on a GPU are not spent on errors of its own."""

import json
import os
import subprocess
import sys

import kit

PROGRAM = os.path.join(kit.ROOT, "tests", "gpu", "run.py")
MISSING = ("no triton", "no cupy", "no torch", "no jax", "no GPU", "no warm-kernels", "no compute-sanitizer")


@kit.unittest.skipIf(kit.REAL_DRIVER, "make test-gpu itself runs there")
class FirstRun(kit.TestCase):
    def setUp(self):
        self.folder = kit.Folder()
        self.out = self.folder.__enter__()
        self.addCleanup(self.folder.__exit__)

    def run_steps(self, **settings):
        """Runs the script with this Python alone. Returns its exit status, the table, and the report's steps by name."""
        env = {**os.environ, "PYTHONS": "", "TOOLCHAIN": kit.TOOLCHAIN, "OUT": self.out, **settings}
        ran = subprocess.run([sys.executable, PROGRAM, kit.BUILD], env=env, capture_output=True, text=True,
                             timeout=kit.RUN_S)
        with open(os.path.join(self.out, "report.json")) as f:
            steps = json.load(f)["steps"]
        return ran.returncode, ran.stdout, {step["name"]: step for step in steps}

    def test_it_runs_to_its_end_and_names_what_is_missing(self):
        status, table, steps = self.run_steps()
        self.assertEqual(status, 0, table)
        self.assertGreaterEqual(len(steps), 16)
        for name in ("PTX", "PTX, loads served", "PTX by cuda.core"):
            self.assertTrue(steps[name]["same"], table)
            self.assertTrue(steps[name]["verdict"].startswith("right"), table)
        self.assertGreaterEqual(steps["is a link a load"]["written"], 50)
        self.assertIn("6 refused", steps["foreign bundles"]["verdict"])
        for name in ("Triton launch", "CuPy", "torch.compile", "JAX", "demo's kernels", "compute-sanitizer"):
            self.assertTrue(steps[name]["verdict"].startswith(MISSING), table)

    def test_a_failed_step_is_in_the_status_and_the_others_go_on(self):
        status, table, steps = self.run_steps(FAKECUDA_REFUSE="first", STEPS="3,13,14")
        self.assertEqual(status, 1, table)
        self.assertTrue(steps["PTX"]["failed"], table)
        self.assertIn("CUDA_ERROR_NO_BINARY_FOR_GPU", table)
        self.assertTrue(steps["the daemon's end"]["verdict"].startswith("right"), table)

    def test_no_time_left_is_a_failure_in_words(self):
        status, table, steps = self.run_steps(BUDGET_S="0", STEPS="3")
        self.assertEqual(status, 1, table)
        self.assertIn("TIME", steps["PTX"]["verdict"])

    def test_a_wrong_number_of_a_step_is_named(self):
        ran = subprocess.run([sys.executable, PROGRAM, kit.BUILD], env={**os.environ, "STEPS": "1,x"},
                             capture_output=True, text=True, timeout=kit.RUN_S)
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertIn("STEPS=1,x: steps have numbers from 0 to 14", ran.stderr)


if __name__ == "__main__":
    kit.main()
