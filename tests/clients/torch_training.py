# SPDX-License-Identifier: Apache-2.0
"""PyTorch's compile caches on the daemon: an unmodified training run, cold, warm, and while all sorts
of things go wrong. The numbers it computes are the same in each."""

import json
import os
import subprocess
import sys
import unittest

import kit

PROGRAM = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.py")]
STEPS = 20
# The compile of one kernel instead of a header and six probes: what is tested here is torch's caches.
QUICK = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0", "TORCHINDUCTOR_VEC_ISA_OK": "1"}


class Fresh:
    """Settings with folders that no other run has seen."""

    def __enter__(self):
        self.folder = kit.Folder()
        path = self.folder.__enter__()
        return dict(QUICK, TMPDIR=path, TORCHINDUCTOR_CACHE_DIR=os.path.join(path, "inductor"))

    def __exit__(self, *error):
        self.folder.__exit__(*error)


def spawn(daemon, *arguments, warm=True, **settings):
    fresh = Fresh()
    with_folders = fresh.__enter__()
    with_folders.update(settings)
    process = daemon.spawn([*PROGRAM, "--steps", str(STEPS), *arguments], warm=warm, **with_folders)
    process.fresh = fresh
    return process


def finish(process):
    try:
        out, error = process.communicate(timeout=kit.RUN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    finally:
        process.fresh.__exit__(None, None, None)
    if process.returncode:
        raise RuntimeError(f"exit status {process.returncode}: {error[-4000:]}")
    return json.loads(out.splitlines()[-1])


def train(daemon, *arguments, warm=True, **settings):
    return finish(spawn(daemon, *arguments, warm=warm, **settings))


def torch_names(daemon):
    rows = json.loads(daemon.warm("ls", "--json"))
    return {row["name"]: row for row in rows if (row["name"] or "").startswith("pt2:")}


class Training(kit.TestCase):
    """One daemon that has seen the run before, for all that only read from it."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = kit.Daemon()
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)
        cls.plain = train(cls.daemon, warm=False)
        cls.cold = train(cls.daemon)

    def expect_same_numbers(self, seen):
        self.assertEqual(seen["losses"], self.plain["losses"])

    def expect_warm(self, seen):
        self.expect_same_numbers(seen)
        self.assertEqual((seen["fx_hits"], seen["fx_misses"]), (2, 0))
        self.assertEqual((seen["aot_hits"], seen["aot_misses"]), (1, 0))

    def test_a_cold_run_computes_the_same(self):
        self.expect_same_numbers(self.cold)
        self.assertEqual(len(self.cold["losses"]), STEPS)
        self.assertEqual((self.cold["fx_hits"], self.cold["fx_misses"]), (0, 2))

    def test_a_fresh_process_and_folder_is_warm(self):
        self.expect_warm(train(self.daemon))

    def test_compilers_are_not_started_when_warm(self):
        before = self.daemon.stats("misses")
        self.expect_warm(train(self.daemon))
        self.assertEqual(self.daemon.stats("misses"), before)

    def test_warm_through_the_redis_package(self):
        self.expect_warm(train(self.daemon, TORCH_DEVICE_BACKEND_AUTOLOAD="0"))

    def test_warm_without_the_redis_package(self):
        self.expect_warm(train(self.daemon, "--without-redis"))

    def test_without_redis_and_without_autoload_it_runs_cold(self):
        seen = train(self.daemon, "--without-redis", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        self.expect_same_numbers(seen)

    def test_other_names_reuse_the_graphs(self):
        seen = train(self.daemon, "--renamed")
        self.expect_same_numbers(seen)
        self.assertEqual((seen["fx_hits"], seen["fx_misses"]), (2, 0))

    def test_disabled_takes_and_puts_nothing(self):
        before = self.daemon.stats()
        seen = train(self.daemon, WARM_DISABLE="1")
        self.expect_same_numbers(seen)
        self.assertEqual(seen["fx_hits"], 0)
        after = self.daemon.stats()
        self.assertEqual([after[n] for n in ("hits", "puts")], [before[n] for n in ("hits", "puts")])

    def test_entries_that_refer_to_each_other_are_one_group(self):
        rows = torch_names(self.daemon)
        groups = {row["group"] for name, row in rows.items()
                  if name.startswith(("pt2:autograd", "pt2:fx-graph"))}
        self.assertEqual(len(groups), 1, rows.keys())
        self.assertNotIn(None, groups)

    def test_an_entry_knows_what_it_cost(self):
        for name, row in torch_names(self.daemon).items():
            if name.startswith(("pt2:autograd", "pt2:fx-graph")):
                self.assertGreater(row["cost_ms"], 0, name)


class Switches(kit.TestCase):
    def test_readonly_stores_nothing_and_recache_takes_nothing(self):
        with kit.Daemon() as daemon:
            plain = train(daemon, warm=False)
            seen = train(daemon, WARM_READONLY="1")
            self.assertEqual(seen["losses"], plain["losses"])
            self.assertEqual(torch_names(daemon), {})
            train(daemon)
            again = train(daemon, WARM_RECACHE="1")
            self.assertEqual(again["losses"], plain["losses"])
            self.assertEqual(again["fx_hits"], 0)


class Faults(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)
        self.cold = train(self.daemon)

    def run_paused(self, meanwhile, *arguments, **settings):
        """What `meanwhile` does happens between the first forward and its backward."""
        with kit.Folder() as folder:
            process = spawn(self.daemon, "--pause", folder, *arguments, **settings)
            paused = os.path.join(folder, "paused")
            deadline = kit.time.monotonic() + kit.RUN_S
            while not os.path.exists(paused) and process.poll() is None:
                self.assertLess(kit.time.monotonic(), deadline)
                kit.time.sleep(0.05)
            meanwhile()
            open(os.path.join(folder, "go"), "w").close()
            return finish(process)

    def damage(self, value):
        with kit.Folder() as folder:
            path = os.path.join(folder, "value")
            with open(path, "wb") as f:
                f.write(value)
            for name in torch_names(self.daemon):
                self.daemon.warm("put", name, path)

    def test_daemon_dies_between_forward_and_backward(self):
        seen = self.run_paused(self.daemon.kill)
        self.assertEqual(seen["losses"], self.cold["losses"])

    def test_a_restart_in_mid_run_does_not_end_the_caching(self):
        def restart():
            self.daemon.kill()
            self.daemon.start()

        for settings in ({}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}):
            with self.subTest(**settings):
                before = len(torch_names(self.daemon))
                seen = self.run_paused(restart, "--twice", **settings)
                self.assertEqual(seen["losses"][:STEPS], self.cold["losses"])
                if not settings:
                    self.assertGreater(len(torch_names(self.daemon)), before)
                else:
                    self.assertEqual((seen["fx_hits"], seen["aot_hits"]), (4, 2))

    def test_a_daemon_that_hangs_is_done_without(self):
        self.daemon.suspend()
        seen = train(self.daemon)
        self.assertEqual(seen["losses"], self.cold["losses"])

    def test_no_daemon_is_done_without(self):
        self.daemon.stop()
        process = spawn(self.daemon, WARM_SOCKET=self.daemon.socket + ".none")
        self.assertEqual(finish(process)["losses"], self.cold["losses"])

    def test_damaged_values_are_compiled_anew(self):
        other_build = b"\0torch1\n\x80\x04\x8c\x0bother build\x94."
        for value in (b"garbage", b'{"data": "gASV', b'{"data": 5}', other_build, b"\0torch1\n\x80\x04"):
            with self.subTest(value=value):
                self.damage(value)
                seen = train(self.daemon)
                self.assertEqual(seen["losses"], self.cold["losses"])


class FullStore(kit.TestCase):
    def test_training_goes_on_where_nothing_can_be_kept(self):
        with kit.Daemon("--max-size", "64K") as daemon:
            plain = train(daemon, warm=False)
            for settings in ({}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}):
                with self.subTest(**settings):
                    seen = train(daemon, **settings)
                    self.assertEqual(seen["losses"], plain["losses"])


class Ranks(kit.TestCase):
    N = 4

    def run_ranks(self, daemon, **settings):
        ranks = [spawn(daemon, RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE=str(self.N), **settings)
                 for i in range(self.N)]
        return [finish(rank) for rank in ranks]

    def test_one_of_all_ranks_compiles(self):
        with kit.Daemon() as daemon:
            seen = self.run_ranks(daemon, TORCHELASTIC_RUN_ID="job", WARM_SESSION="ranks")
            self.assertEqual(len({tuple(rank["losses"]) for rank in seen}), 1)
            self.assertEqual(sum(rank["fx_misses"] for rank in seen), 2)

    def test_one_compiles_through_the_redis_package(self):
        with kit.Daemon() as daemon:
            seen = self.run_ranks(daemon, TORCH_DEVICE_BACKEND_AUTOLOAD="0", WARM_SESSION="ranks")
            self.assertEqual(len({tuple(rank["losses"]) for rank in seen}), 1)
            self.assertLess(sum(rank["fx_misses"] for rank in seen), 2 * self.N)


class RedisClients(kit.TestCase):
    """The versions of redis-py that people have, each in a folder of its own."""

    VERSIONS = ("4.6.0", "5.3.1", "6.4.0", "7.1.0", "8.1.0")
    SCRIPT = """if True:
        import redis, sys
        assert redis.__version__ == sys.argv[1], redis.__version__
        for url in (sys.argv[2], sys.argv[2].partition("?")[0]):
            r = redis.Redis.from_url(url)
            value = b'{"data": "gASVBQ==", "time_taken_ms": 30499}' + sys.argv[3].encode()
            assert r.get("pt2:autograd-experimental::none:c1") is None
            assert r.get("pt2:fx-graph-v1::none:c1") is None
            assert r.set("pt2:fx-graph-v1::" + sys.argv[1] + ":c1", value)
            assert r.get("pt2:fx-graph-v1::" + sys.argv[1] + ":c1") == value
        print("fine")
    """

    def test_all_versions_of_the_client(self):
        with kit.Daemon() as daemon, kit.Folder() as folder:
            for version in self.VERSIONS:
                with self.subTest(version=version):
                    target = os.path.join(folder, version)
                    done = subprocess.run(
                        [sys.executable, "-m", "pip", "install", "-q", "--target", target,
                         f"redis=={version}"], capture_output=True, text=True)
                    if done.returncode:
                        self.skipTest(f"cannot be installed: {done.stderr[-200:]}")
                    url = f"unix://{daemon.socket}?protocol=2&socket_timeout=30&client_name=warm-session-x"
                    seen = daemon.run(self.SCRIPT, version, url, "", warm=False, PYTHONPATH=target)
                    self.assertEqual(seen.stdout, "fine\n")


if __name__ == "__main__":
    unittest.main(failfast=False)
