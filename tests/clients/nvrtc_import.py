# SPDX-License-Identifier: Apache-2.0
"""Import and export of CuPy's kernel cache. The name of a file is a digest of its input, and CuPy looks only
into its folder. So the files travel in an archive, and hit after they were written back. (If CuPy misses
under `warm run`, its call of NVRTC hits: nvrtc_programs.py.)"""

import os
import subprocess

import kit

# Compiles to LTO-IR, because CuPy loads a cubin at once, which needs a driver. Prints how often NVRTC ran: never, if
# the folder had the files.
PROGRAM = '''
import hashlib, json
from cupy.cuda import compiler
compiled = []
real = compiler._NVRTCProgram.compile
def compile_noted(self, *arguments):
    if "scale" in self.src:  # CuPy also compiles an empty program for its keys
        compiled.append(self.src)
    return real(self, *arguments)
compiler._NVRTCProgram.compile = compile_noted
compiler._get_arch_for_options_for_nvrtc = lambda arch=None: ("-arch=compute_90", "ptx")  # asks no device
CODE = 'extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= %d; }'
made = [compiler._compile_with_cache_cuda(CODE % i, (), "90", to_ltoir=True) for i in (2, 3)]
print(json.dumps(dict(made=[hashlib.sha256(m).hexdigest() for m in made], compiled=len(compiled))))
'''


class Folders(kit.TestCase):
    def run_in(self, daemon, folder):
        return kit.result(daemon.run(PROGRAM, warm=False, CUPY_CACHE_DIR=folder, CUPY_CACHE_SAVE_CUDA_SOURCE=1))

    def test_files_of_cupy_travel_and_hit_where_they_are_written_back(self):
        with kit.Daemon() as daemon, kit.Daemon() as other, kit.Folder() as root:
            old, back = os.path.join(root, "old"), os.path.join(root, "back")
            cold = self.run_in(daemon, old)
            self.assertEqual(cold["compiled"], 2)
            self.assertIn("imported 2 entries", daemon.warm("import", "--from", "cupy", old))
            daemon.warm("export", os.path.join(root, "archive"))
            other.warm("import", os.path.join(root, "archive"))
            other.warm("export", "--as", "cupy", "--to", back)
            warm = self.run_in(daemon, back)
            self.assertEqual(warm, dict(cold, compiled=0))

    def test_of_a_damaged_folder_the_good_comes_in_and_the_rest_is_named(self):
        with kit.Daemon() as daemon, kit.Folder() as root:
            old, back = os.path.join(root, "old"), os.path.join(root, "back")
            cold = self.run_in(daemon, old)
            damaged = [f for f in sorted(os.listdir(old)) if not f.endswith(".cu")][0]
            with open(os.path.join(old, damaged), "r+b") as f:
                f.seek(200)
                f.write(b"damaged")
            said = subprocess.run([kit.program("warm"), "import", "--from", "cupy", old],
                                  env=daemon.environment(), capture_output=True, text=True)
            self.assertEqual(said.returncode, 1)
            self.assertIn(damaged, said.stderr)
            self.assertIn("imported 1 entry", said.stdout)
            daemon.warm("export", "--as", "cupy", "--to", back)
            warm = self.run_in(daemon, back)
            self.assertEqual(warm["compiled"], 1)
            self.assertEqual(len(set(warm["made"]) & set(cold["made"])), 1)  # two runs of NVRTC make other LTO-IR


if __name__ == "__main__":
    kit.main()
