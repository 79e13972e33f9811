# SPDX-License-Identifier: Apache-2.0
"""The proof of the keys of FX graphs by their compiler.

    pairs.py --library libwarm.so [--cases N] [--seed N] [--jobs N]

Each case is a random graph, of aten's operations (program.py), of PyTorch's functions (functions.py) or of
a network (models.py), as it is or as AOTAutograd makes its joint graph, forward or backward of it
(gradients.py), and a chain of changes that KEYS.md calls irrelevant, of which those stay that leave the key
as it is. Inductor compiles the first and the last graph for the CPU, without any cache; both run on the
same inputs, and must give the same bits; of NaNs only that they are. What differs is a wrong hit and is
printed, with the seed that repeats the case. Changes that the key tells apart are counted. Programs run in
processes of their own: PyTorch crashes on some. Exit status 0 if there was no wrong hit and nearly nothing
crashed."""

import argparse
import os
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import workers


def work(options):
    from cases import Proof  # the compiler is in the processes that work only
    proof = Proof(options.library)

    def case(seed):
        proof.case(seed)
        return proof.counts
    workers.work(options, case)


def show(counts, seconds):
    stages = ", ".join(f"{counts[k]} {k[3:]}" for k in sorted(counts) if k.startswith("of "))
    print(f"fx: {counts['cases']} cases ({stages}, {counts['refused']} refused), {counts['pairs']} pairs, "
          f"{counts['wrong']} wrong hits, {counts['crashed']} crashed, {counts['failed']} not compiled, "
          f"{counts['unsteady']} with other bits each time, "
          f"{seconds / max(1, counts['cases']):.1f} s a case")
    workers.show_changes(counts)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--library", required=True)
    workers.add_arguments(options)
    options = options.parse_args()
    if options.work:
        return work(options)
    start = time.monotonic()
    counts = workers.run(options, __file__, ["--library", options.library])
    show(counts, time.monotonic() - start)
    return int(not workers.passed(options, counts))


if __name__ == "__main__":
    sys.exit(main())
