# SPDX-License-Identifier: Apache-2.0
"""Two machines and one tier: a program of PyTorch and one of JAX, with models and training loops of others, run on the
first machine. The second one has an empty store, another home and another folder; in some tests also another user, with
a key of their own. It starts from the tier, with the same bits. The aim is at most 1.3 times the time of a start from
its own store. The programs are rows of tests/bench/programs.py."""

import os
import subprocess
import sys
import time
import unittest

import kit
import tier_engines

BENCH = os.path.join(kit.ROOT, "tests/bench")
sys.path.insert(0, BENCH)
from time_programs import CACHES, SETTINGS, copy  # noqa: E402

ROUNDS = 3
OTHER = 65534  # the user of the second machine


def interpreter():
    """The Python with the programs' packages."""
    venv = subprocess.run([os.path.join(kit.ROOT, "tests/clients/venv.sh"), os.path.join(BENCH, "programs.txt")],
                          stdout=subprocess.PIPE, text=True)
    return os.path.join(venv.stdout.strip(), "bin/python") if venv.returncode == 0 else None


PYTHON = interpreter()


def others_reach(path):
    """True if other users may go through all folders of a path."""
    folder = os.path.dirname(path)
    return bool(os.stat(folder).st_mode & 1) and (folder == "/" or others_reach(folder))


class Machine(kit.Daemon):
    """A daemon with a tier, and the programs that run there. Each run has a folder and caches of its own."""

    def is_quiet(self):
        """True if nothing waits to be sent, or is being sent."""
        tier = self.stats("tier")
        return tier["queue"] == 0 and tier["sending"] == 0

    def time(self, row):
        """Runs a program; its seconds and the digest of what it computed."""
        at = os.path.join(self.folder, f"run-{time.monotonic_ns()}")
        settings = dict(SETTINGS)
        for variable, folder in CACHES.items():
            settings[variable] = os.path.join(at, folder)
            os.makedirs(settings[variable], exist_ok=True)
        self.give(at, *(path for variable, path in settings.items() if variable in CACHES))
        settings["JAX_COMPILATION_CACHE_DIR"] = None
        path = copy(at)
        began = time.perf_counter()
        ended = self.run([PYTHON, path, row], cwd=at, **settings)
        return time.perf_counter() - began, kit.result(ended)["digest"]


@unittest.skipUnless(PYTHON, "the programs' packages cannot be installed")
class Programs(kit.TestCase):
    def options(self, url, name, user=None):
        """The tier's options for a machine with a key of that name, and what others need to trust the key."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        key, credentials = os.path.join(folder, "key"), tier_engines.credentials(folder)
        printed = subprocess.run([kit.program("warm"), "tier", "keygen", name, key], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        for path in (folder, key, credentials) if user is not None else ():
            os.chown(path, user, user)
        return (("--tier", url, "--tier-key", key, "--tier-credentials", credentials),
                printed.split("tier_trusted = ")[1].strip())

    def start_elsewhere(self, row, url, user):
        options, trusted = self.options(url, "first")
        there = options if user is None else (*self.options(url, "second", user)[0], "--tier-trusted", trusted)
        from_tier, own = [], []
        with Machine(*options) as first:
            cold, digest = first.time(row)
            tier_engines.wait_until("all is sent", first.is_quiet)
            sent = first.stats("tier_sent")
        for _ in range(ROUNDS):
            with Machine(*there, user=user) as second:
                for times in (from_tier, own):
                    seconds, same = second.time(row)
                    times.append(seconds)
                    self.assertEqual(same, digest)
                hits = second.stats("tier_hits")
        ratio = min(from_tier) / min(own)
        whose = "" if user is None else f", another user ({user})"
        print(f"\n{row}, {url.split(':')[0]}{whose}: cold {cold:.1f} s, from the tier {min(from_tier):.1f} s, from its "
              f"own store {min(own):.1f} s: {ratio:.2f} times; {sent} sent, {hits} came", file=sys.stderr)
        self.assertGreater(hits, 0)

    def on(self, engine, row, user=None):
        with kit.Folder() as self.folder, engine(self.folder) as url:
            os.chmod(self.folder, 0o711)
            self.start_elsewhere(row, url, user)

    def on_another_users(self, engine, row):
        if os.geteuid() != 0 or not others_reach(PYTHON) or not others_reach(kit.program("warmd")):
            self.skipTest("needs root, and a build and a cache folder that other users reach")
        self.on(engine, row, OTHER)

    def test_pytorch_starts_on_a_second_machine_from_redis(self):
        self.on(tier_engines.valkey, "Hugging Face Trainer")

    def test_jax_starts_on_a_second_machine_from_redis(self):
        self.on(tier_engines.valkey, "flax nnx training")

    def test_jax_starts_on_a_second_machine_from_s3(self):
        self.on(tier_engines.seaweedfs, "flax nnx training")

    def test_pytorch_of_another_user_starts_from_redis(self):
        self.on_another_users(tier_engines.valkey, "Hugging Face Trainer")

    def test_jax_of_another_user_starts_from_redis(self):
        self.on_another_users(tier_engines.valkey, "flax nnx training")


if __name__ == "__main__":
    kit.main()
