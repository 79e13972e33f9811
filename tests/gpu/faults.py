# SPDX-License-Identifier: Apache-2.0
"""Bundles that must not run here: for another GPU, cut short, changed. Each is refused in words, without a crash.

    python faults.py WARM ARCH
"""

import os
import subprocess
import sys
import tempfile

import device

WARM, ARCH = sys.argv[1:3]
ADD = """func.func public @main(%x: tensor<300xf32>, %y: tensor<300xf32>) -> tensor<300xf32> {
  %0 = stablehlo.add %x, %y : tensor<300xf32>
  return %0 : tensor<300xf32>
}
"""


def run(*arguments):
    return subprocess.run([WARM, *arguments], capture_output=True, text=True, timeout=60)


def compiled(module, arch):
    path = f"{module}.{arch}.bundle"
    made = run("compile", module, "--arch", arch, "-o", path)
    if made.returncode:
        device.done([], wrong=made.stderr.strip())
    with open(path, "rb") as f:
        return path, f.read()


def refusal(bundle, words=""):
    """Returns what is wrong with how a bundle is refused, or "". """
    ran = run("exec", bundle, "=1", "=2")
    if ran.returncode not in (1, 2):
        return f"exit status {ran.returncode}: {ran.stdout[:80]}{ran.stderr[:80]}"
    return "" if ran.stderr.startswith("warm: ") and words in ran.stderr else f"it says {ran.stderr[:120]!r}"


def main():
    device.open_driver()
    wrong, n = [], 0
    with tempfile.TemporaryDirectory() as folder:
        module = os.path.join(folder, "add.mlir")
        with open(module, "w") as f:
            f.write(ADD)
        path, whole = compiled(module, ARCH)
        ran = run("exec", path, "=1", "=2.5")
        if ran.returncode or (device.COMPUTES and " 3.5 " not in ran.stdout):
            wrong.append(f"the whole bundle: {ran.stdout}{ran.stderr}")
        wrong.append(refusal(compiled(module, "sm_80" if ARCH != "sm_80" else "sm_90")[0], "is compiled for sm_"))
        for cut in (0, 1, 40, len(whole) // 2, len(whole) - 1):
            with open(path, "wb") as f:
                f.write(whole[:cut])
            wrong.append(refusal(path))
            n += 1
    wrong = [w for w in wrong if w]
    device.done([], note=f"{n + 1} refused", **({"wrong": "; ".join(wrong)} if wrong else {}))


main()
