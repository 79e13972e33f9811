# SPDX-License-Identifier: Apache-2.0
"""time_engines.py BUILD: compares warm-tier with curl on one object of SeaweedFS, in turns. Both write it to memory.
`make bench-engines` runs it in the environment of tests/clients/tier.txt."""

import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
os.environ["WARM_BUILD"] = sys.argv[1]
import kit  # noqa: E402
import tier_engines as engines  # noqa: E402

HELPER = os.path.join(kit.BUILD, "libexec", "warm", "warm-tier")
BENCH = os.path.join(kit.BUILD, "bench", "engines")
LARGE, ROUNDS, EMPTY = 32 << 20, 7, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def tier(url, credentials, what, size, times):
    """Returns the median in microseconds, and the helper's memory in KiB."""
    out = subprocess.run([BENCH, HELPER, url, credentials, what, str(size), str(times)], check=True,
                         capture_output=True, text=True, timeout=kit.RUN_S).stdout
    return [float(x) for x in out.split()]


def curl(url):
    """Returns the seconds that curl takes for the object that tier() has put."""
    path = "/warm/pre/v1/ab/b-" + "7".rjust(64, "0")
    began = time.monotonic()
    subprocess.run(["curl", "-sf", "-o", os.path.join("/dev/shm", f"warm-bench-{os.getpid()}"), "--aws-sigv4", "aws:amz:us-east-1:s3", "-u",
                    f"{engines.KEY}:{engines.SECRET}", "-H", f"x-amz-content-sha256: {EMPTY}",
                    url.partition("endpoint=")[2] + path], check=True, timeout=kit.RUN_S)
    return time.monotonic() - began


def bench_s3():
    with kit.Folder() as folder, engines.seaweedfs(folder) as url:
        keys = engines.credentials(folder)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(tier(url, keys, "get", LARGE, 3)[0] / 1e6)
            theirs.append(curl(url))
        os.unlink(os.path.join("/dev/shm", f"warm-bench-{os.getpid()}"))
        ratio = statistics.median(theirs) / statistics.median(ours)
        print(f"32 MiB from S3: {statistics.median(ours) * 1e3:.0f} ms, curl {statistics.median(theirs) * 1e3:.0f} ms: "
              f"{ratio:.2f} of its rate (at least 0.7)")
        print(f"64 transfers of 4 MiB at once: helper {tier(url, keys, 'many', 4 << 20, 64)[1] / 1024:.1f} MiB "
              "(at most 64)")


bench_s3()
