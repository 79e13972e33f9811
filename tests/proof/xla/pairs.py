# SPDX-License-Identifier: Apache-2.0
"""The proof of the keys of graphs by their compiler.

    pairs.py --library libwarm.so [--gpu FILE] [--several PART] [--traced PART] [--cases N] [--seed N]
             [--jobs N]

Each case is a random StableHLO program (generate.py; PART of them for four devices, devices.py, and PART
of the others traced by JAX: of its own functions, functions.py, steps of training, models.py, products
in disguise, disguised.py, or arrays that lie in different ways, layouts.py), or the HLO that XLA makes
of it first, as text (hlo.py), and a chain of changes to it that KEYS.md calls irrelevant (variants.py),
of which those stay that leave the key as it is. XLA compiles the first and the last program for the CPU,
both run on the same inputs, and must give the same bits; of NaNs only that they are. With --gpu it
compiles both for the GPU that FILE describes, which need not be there (HLO as it is: plugin.py), and
both must compute the same by what they say (computed.py). What differs is a wrong hit: the two programs
of the chain between which it happens are shrunk and printed, with the seed that repeats the case.
Spellings of one program, as MLIR prints it and as bytecode, must have its key.

Changes that the key tells apart are counted, not failures; some of them are compiled, which shows what
the key's caution is worth. Programs run in processes of their own: XLA crashes on some, which are counted
and left out. Exit status 0 if there was no wrong hit and nearly nothing crashed."""

import argparse
import os
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import workers


def work(options):
    from cases import Proof  # the compiler is in the processes that work only
    proof = Proof(options)

    def case(seed):
        proof.case(seed)
        return {**proof.counts, "compiled": proof.xla.compiled}
    workers.work(options, case)


def show(counts, seconds):
    def of(name):
        return sorted(k.split(" ", 1)[1] for k in counts if k.startswith(name + " "))

    print(f"pairs: {counts['cases']} cases ({counts['traced']} traced by JAX, "
          f"{counts['hlo']} of HLO, {counts['several']} for several devices, "
          f"{counts['refused']} refused), {counts['pairs']} pairs, {counts['compiled']} programs "
          f"compiled, {counts['wrong']} wrong hits, {counts['crashed']} crashed, "
          f"{counts['unsteady']} with other bits each time, "
          f"{1000 * seconds / max(1, counts['cases']):.0f} ms a case")
    workers.show_changes(counts)
    for what in sorted({*of("same"), *of("other")}):
        other = counts["other " + what]
        n = other + counts["same " + what]
        print(f"  told apart: {what}: {n} compiled, other bits {other} ({100 * other / n:.0f} %)")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--library", required=True)
    options.add_argument("--gpu", metavar="FILE")
    options.add_argument("--several", metavar="PART", type=float, default=0.2)
    options.add_argument("--traced", metavar="PART", type=float, default=0.1)
    workers.add_arguments(options)
    options = options.parse_args()
    if options.work:
        return work(options)
    start = time.monotonic()
    counts = workers.run(options, __file__, [
        "--library", options.library, "--several", str(options.several),
        "--traced", str(options.traced), *(["--gpu", options.gpu] if options.gpu else [])])
    show(counts, time.monotonic() - start)
    return int(not workers.passed(options, counts))


if __name__ == "__main__":
    sys.exit(main())
