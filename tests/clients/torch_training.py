# SPDX-License-Identifier: Apache-2.0
"""PyTorch's compile caches on the daemon: an unmodified training run, cold, warm, and during faults. It
computes the same numbers each time."""

import functools
import json
import os
import shutil
import subprocess
import sys
import unittest

import kit

LAYERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.py")
SMALL = ["--model", "small"]
PROGRAM = [sys.executable, LAYERS, *SMALL]
STEPS = 20


@functools.lru_cache(maxsize=None)
def headers():
    """Returns the folder of torch's precompiled header. The first test that needs it makes it, and the
    others share it, because these tests are about torch's caches."""
    folder = kit.Folder()
    unittest.addModuleCleanup(folder.__exit__, None, None, None)
    return folder.__enter__()


class Fresh:
    """Settings with a cache folder that no other run has seen."""

    def __enter__(self):
        self.folder = kit.Folder()
        return dict(TORCHINDUCTOR_VEC_ISA_OK="1", TMPDIR=headers(),
                    TORCHINDUCTOR_CACHE_DIR=self.folder.__enter__())

    def __exit__(self, *error):
        self.folder.__exit__(*error)


def spawn(daemon, *arguments, warm=True, program=PROGRAM, **settings):
    fresh = Fresh()
    with_folders = fresh.__enter__()
    with_folders.update(settings)
    process = daemon.spawn([*program, "--steps", str(STEPS), *arguments], warm=warm, **with_folders)
    process.fresh = fresh
    return process


def finish_all(process):
    """Waits for a program. Returns what it printed: one value, or a value for each rank of a job."""
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
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def finish(process):
    return finish_all(process)[-1]


def wait_until(what):
    deadline = kit.time.monotonic() + kit.RUN_S
    while not what():
        if kit.time.monotonic() > deadline:
            raise RuntimeError("it did not come to that")
        kit.time.sleep(0.05)


def train(daemon, *arguments, warm=True, **settings):
    return finish(spawn(daemon, *arguments, warm=warm, **settings))


@functools.lru_cache(maxsize=None)
def plain(*arguments):
    """Returns what the run prints without the cache."""
    with kit.Daemon() as daemon:
        return train(daemon, *arguments, warm=False)


@functools.lru_cache(maxsize=None)
def first_run():
    """Returns what a run with an empty store printed, and a copy of the store that it left."""
    folder = kit.Folder()
    at = os.path.join(folder.__enter__(), "store")
    unittest.addModuleCleanup(folder.__exit__, None, None, None)
    with kit.Daemon() as daemon:
        seen = train(daemon)
        train(daemon, TORCH_DEVICE_BACKEND_AUTOLOAD="0")  # its graphs have names of their own
        daemon.stop()
        shutil.copytree(daemon.store, at)
    return seen, at


class Warmed(kit.Daemon):
    """A daemon that has seen the run before."""

    def start(self):
        if not os.path.exists(self.store):
            shutil.copytree(first_run()[1], self.store)
        super().start()


def torch_names(daemon):
    rows = json.loads(daemon.warm("ls", "--json"))
    return {row["name"]: row for row in rows if (row["name"] or "").startswith("pt2:")}


class Moved(kit.TestCase):
    def test_a_session_that_was_moved_is_warm_in_an_empty_store(self):
        with kit.Daemon() as daemon:
            cold = train(daemon)
            daemon.move_session()
            warm = train(daemon)
            self.assertEqual(warm["losses"], cold["losses"])
            self.assertEqual((warm["fx_hits"], warm["fx_misses"]), (2, 0))
            self.assertEqual((warm["aot_hits"], warm["aot_misses"]), (1, 0))
            self.assertEqual(daemon.last_session()["misses"], 0)


class Training(kit.TestCase):
    """Tests that only read from one daemon, which has seen the run before."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Warmed()
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def expect_same_numbers(self, seen):
        self.assertEqual(seen["losses"], plain()["losses"])

    def expect_warm(self, seen):
        self.expect_same_numbers(seen)
        self.assertEqual((seen["fx_hits"], seen["fx_misses"]), (2, 0))
        self.assertEqual((seen["aot_hits"], seen["aot_misses"]), (1, 0))

    def test_a_cold_run_computes_the_same(self):
        cold, _ = first_run()
        self.expect_same_numbers(cold)
        self.assertEqual(len(cold["losses"]), STEPS)
        self.assertEqual((cold["fx_hits"], cold["fx_misses"]), (0, 2))

    def test_a_fresh_process_and_folder_is_warm_and_no_compiler_has_to_work(self):
        before = self.daemon.stats("misses")
        self.expect_warm(train(self.daemon))
        self.assertEqual(self.daemon.stats("misses"), before)

    def test_a_job_with_a_temporary_folder_of_its_own_is_warm(self):
        with kit.Folder() as folder:
            self.expect_warm(train(self.daemon, TMPDIR=folder))

    def test_warm_through_the_redis_package(self):
        self.expect_warm(train(self.daemon, TORCH_DEVICE_BACKEND_AUTOLOAD="0"))

    def test_warm_without_the_redis_package(self):
        train(self.daemon, "--without-redis")  # makes the catalogue of this environment
        self.expect_warm(train(self.daemon, "--without-redis"))

    def test_without_redis_and_without_autoload_it_runs_cold(self):
        seen = train(self.daemon, "--without-redis", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        self.expect_same_numbers(seen)

    def test_a_moved_file_with_other_lines_and_comments_is_warm_on_another_rank(self):
        with kit.Folder() as folder, open(LAYERS) as f:
            moved = os.path.join(folder, "elsewhere.py")
            with open(moved, "w") as out:
                out.write("\n\n\n" + f.read().replace("(self, x):\n", "(self, x):\n        # says it again\n\n"))
            seen = train(self.daemon, program=[sys.executable, moved, *SMALL], RANK="3", LOCAL_RANK="3")
            self.expect_warm(seen)

    def test_other_names_reuse_the_graphs(self):
        seen = train(self.daemon, "--renamed")
        self.expect_same_numbers(seen)
        self.assertEqual((seen["fx_hits"], seen["fx_misses"]), (2, 0))

    def test_another_build_of_torch_takes_nothing_of_this_one(self):
        seen = train(self.daemon, "--build", "other", WARM_READONLY="1")
        self.expect_same_numbers(seen)
        self.assertEqual((seen["fx_hits"], seen["fx_misses"]), (0, 2))
        self.assertEqual((seen["aot_hits"], seen["aot_misses"]), (0, 1))

    def test_disabled_takes_and_puts_nothing(self):
        before = self.daemon.stats()
        seen = train(self.daemon, WARM_DISABLE="1")
        self.expect_same_numbers(seen)
        self.assertEqual(seen["fx_hits"], 0)
        after = self.daemon.stats()
        self.assertEqual([after[n] for n in ("hits", "puts")], [before[n] for n in ("hits", "puts")])

    def test_entries_that_refer_to_each_other_are_one_group(self):
        rows = torch_names(self.daemon)
        for is_checked in (False, True):  # torch's own keys, and those that the adapter makes of them
            groups = {row["group"] for name, row in rows.items()
                      if name.startswith(("pt2:autograd", "pt2:fx-graph")) and name.endswith(":checked") == is_checked}
            self.assertEqual(len(groups), 1, rows.keys())
            self.assertNotIn(None, groups)

    def test_an_entry_knows_what_it_cost(self):
        for name, row in torch_names(self.daemon).items():
            if name.startswith(("pt2:autograd", "pt2:fx-graph")):
                self.assertGreater(row["cost_ms"], 0, name)


    @unittest.skipIf(os.geteuid(), "only root can become somebody else")
    def test_a_pickle_is_never_given_to_another_user(self):
        os.chmod(self.daemon.folder, 0o755)
        os.chmod(self.daemon.socket, 0o666)
        for name in torch_names(self.daemon):
            for uid in (0, 65534):
                seen = self.daemon.run(ASK_AS, self.daemon.socket, name, str(uid), warm=False,
                                       PYTHONPATH=os.path.join(kit.BUILD, "share/warm/python"))
                self.assertEqual(seen.stdout, "given given\n" if uid == 0 else "nothing nothing\n", name)


# Asks as another user, over both protocols. Imports come first: that user may not be able to read their folders.
ASK_AS = """if True:
    import os, socket, sys
    from warm import Client
    path, name, uid = sys.argv[1], sys.argv[2], int(sys.argv[3])
    client = Client(path)
    os.setgid(uid)
    os.setuid(uid)
    assert client.stats(), "the daemon does not answer"
    resp = socket.socket(socket.AF_UNIX)
    resp.connect(path)
    resp.sendall(f"GET {name}\\r\\n".encode())
    found = client.get(name) is not None, resp.recv(3) != b"$-1"
    print(*("given" if one else "nothing" for one in found))
"""


class Switches(kit.TestCase):
    def test_a_graph_that_came_through_the_redis_package_is_not_taken(self):
        with Warmed() as daemon:
            names = [name for name in torch_names(daemon) if name.endswith(":checked")]
            self.assertTrue(names)
            daemon.warm("rm", *names)
            left = [name for name in torch_names(daemon) if name.startswith("pt2:fx-graph")]
            self.assertEqual(len(left), 2, "those that came over RESP")
            seen = train(daemon)
            self.assertEqual((seen["fx_hits"], seen["fx_misses"], seen["aot_hits"]), (0, 2, 0))

    def test_readonly_stores_nothing_and_recache_takes_nothing(self):
        with kit.Daemon() as daemon:
            seen = train(daemon, WARM_READONLY="1")
            self.assertEqual(seen["losses"], plain()["losses"])
            self.assertEqual(torch_names(daemon), {})
        with Warmed() as daemon:
            seen = train(daemon, WARM_RECACHE="1")
            self.assertEqual(seen["losses"], plain()["losses"])
            self.assertEqual(seen["fx_hits"], 0)


class Faults(kit.TestCase):
    def setUp(self):
        self.daemon = Warmed()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)

    def expect_same_numbers(self, seen):
        self.assertEqual(seen["losses"], plain()["losses"])

    def run_paused(self, meanwhile, *arguments, **settings):
        """Runs the training, and calls `meanwhile` between the first forward and its backward."""
        with kit.Folder() as folder:
            process = spawn(self.daemon, "--pause", folder, *arguments, **settings)
            paused = os.path.join(folder, "paused")
            wait_until(lambda: os.path.exists(paused) or process.poll() is not None)
            meanwhile()
            open(os.path.join(folder, "go"), "w").close()
            return finish(process)

    def damage(self, *changes):
        """Replaces each value by change(value). The changes take turns."""
        with kit.Folder() as folder:
            path = os.path.join(folder, "value")
            for i, name in enumerate(sorted(torch_names(self.daemon))):
                change = changes[i % len(changes)]
                self.daemon.warm("get", name, "-o", path)
                with open(path, "rb") as f:
                    value = change(f.read())
                with open(path, "wb") as f:
                    f.write(value)
                self.daemon.warm("put", name, path)

    def train_while_held(self, meanwhile):
        """Runs the training while another process holds the leases of its graphs. `meanwhile` gets that process."""
        names = torch_names(self.daemon)
        self.daemon.warm("rm", *names)
        holder = self.daemon.spawn(kit.HOLD, *(name for name in names if name.startswith("pt2:fx-graph")))
        try:
            self.assertEqual(holder.stdout.readline(), "held\n")
            before = self.daemon.stats("misses")
            process = spawn(self.daemon)
            # the run asks for its AOTAutograd entry right before its graphs
            wait_until(lambda: self.daemon.stats("misses") > before or process.poll() is not None)
            meanwhile(holder)
            return finish(process)
        finally:
            holder.kill()
            holder.communicate()

    def test_the_next_takes_over_when_who_compiles_dies(self):
        seen = self.train_while_held(lambda holder: holder.kill())
        self.expect_same_numbers(seen)
        self.assertEqual(seen["fx_misses"], 2)

    def test_the_daemon_dies_while_a_rank_waits_for_another(self):
        seen = self.train_while_held(lambda holder: self.daemon.kill())
        self.expect_same_numbers(seen)

    def test_who_never_puts_is_not_waited_for(self):
        self.daemon.stop()
        self.daemon.options = ("--lease-timeout", "2s")
        self.daemon.start()
        seen = self.train_while_held(lambda holder: None)
        self.expect_same_numbers(seen)
        self.assertEqual(seen["fx_misses"], 2)

    def test_the_daemon_dies_while_this_process_compiles_for_all(self):
        self.daemon.warm("clear", "--yes")
        before = self.daemon.stats("misses")
        process = spawn(self.daemon)
        # the run asks for its AOTAutograd entry, and for the first of its graphs
        wait_until(lambda: self.daemon.stats("misses") >= before + 2 or process.poll() is not None)
        self.daemon.kill()
        self.expect_same_numbers(finish(process))

    def test_the_daemon_dies_during_a_warm_start(self):
        before = self.daemon.stats("hits")
        process = spawn(self.daemon)
        wait_until(lambda: self.daemon.stats("hits") > before or process.poll() is not None)
        self.daemon.kill()
        self.expect_same_numbers(finish(process))

    def test_the_daemon_dies_or_hangs_between_forward_and_backward(self):
        for fault in (self.daemon.suspend, self.daemon.kill):
            with self.subTest(fault.__name__):
                self.expect_same_numbers(self.run_paused(fault))
                self.daemon.resume()

    def test_a_restart_in_mid_run_does_not_end_the_caching(self):
        def restart():
            self.daemon.kill()
            self.daemon.start()

        for settings in ({}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}):
            with self.subTest(**settings):
                before = len(torch_names(self.daemon))
                seen = self.run_paused(restart, "--twice", **settings)
                self.assertEqual(seen["losses"][:STEPS], plain()["losses"])
                self.assertGreater(len(torch_names(self.daemon)), before)
                if settings:  # the first half; what follows is new under the names of this way
                    self.assertEqual((seen["fx_hits"], seen["aot_hits"]), (2, 1))

    def test_a_daemon_that_hangs_is_done_without(self):
        self.daemon.suspend()
        seen = train(self.daemon)
        self.expect_same_numbers(seen)

    def test_no_daemon_is_done_without(self):
        self.daemon.stop()
        process = spawn(self.daemon, WARM_SOCKET=self.daemon.socket + ".none")
        self.expect_same_numbers(finish(process))

    def test_damaged_values_are_compiled_anew(self):
        def garbage(value):
            return b"garbage"

        def cut_short(value):
            return value[: len(value) // 2]

        def something_else(value):
            return b"\0torch1\n\x80\x04\x8c\x0bother build\x94."

        for changes, settings in (((garbage, cut_short, something_else), {}),
                                  ((something_else, garbage, cut_short), {}),
                                  ((cut_short, garbage), {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})):
            with self.subTest([change.__name__ for change in changes]):
                self.damage(*changes)
                seen = train(self.daemon, **settings)
                self.expect_same_numbers(seen)
                self.assertEqual(seen["fx_hits"], 0)


class FullStore(kit.TestCase):
    def test_training_goes_on_where_nothing_can_be_kept(self):
        with kit.Daemon("--max-size", "64K") as daemon:
            for settings in ({}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}):
                with self.subTest(**settings):
                    seen = train(daemon, **settings)
                    self.assertEqual(seen["losses"], plain()["losses"])


class Autotuning(kit.TestCase):
    # PyTorch tunes only Triton kernels, and needs a GPU for it. Its cache of the best configurations needs none.
    PROGRAM = """if True:
        import json, types
        import torch
        import torch._inductor.config
        from torch._inductor.runtime.autotune_cache import AutotuneCache

        meta = {"autotune_remote_cache": torch._inductor.config.autotune_remote_cache,
                "autotune_local_cache": False, "backend_hash": "of a GPU"}
        configs = [types.SimpleNamespace(kwargs={"XBLOCK": n}, num_warps=4, num_stages=1) for n in (64, 128)]
        cache = AutotuneCache.create(meta, "/nowhere/kernel.py", "of these configurations")
        best = cache.read_best(meta, configs)
        if best is None:
            cache.save(configs[1], 7_000_000)
        print(json.dumps(best and best.kwargs))
    """

    def test_what_was_found_best_is_there_for_the_next_process(self):
        for settings in ({}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}):
            with self.subTest(**settings), kit.Daemon() as daemon:
                seen = [kit.result(daemon.run(self.PROGRAM, **settings)) for _ in range(2)]
                self.assertEqual(seen, [None, {"XBLOCK": 128}])
                (row,) = torch_names(daemon).values()
                self.assertEqual((row["kind"], row["cost_ms"]), ("autotune", 7))


class Regions(kit.TestCase):
    LAYERS = ("--layers", "8")

    def test_equal_parts_are_compiled_once_with_the_same_results(self):
        alone = plain(*self.LAYERS)
        with kit.Daemon() as daemon:
            cold, warm = (train(daemon, *self.LAYERS, WARM_REGIONAL="1") for _ in range(2))
        for seen in (cold, warm):
            self.assertEqual(seen["losses"], alone["losses"])
        self.assertLess(cold["calls"], alone["calls"] / 2)
        self.assertEqual((cold["fx_hits"], cold["fx_misses"]), (0, 2))
        self.assertEqual((warm["fx_hits"], warm["fx_misses"], warm["aot_hits"]), (2, 0, 1))

    def test_the_option_says_so_to_the_program(self):
        said = subprocess.run([kit.program("warm"), "run", "--no-start", "--regional", "sh", "-c",
                               "echo $WARM_REGIONAL"], capture_output=True, text=True)
        self.assertEqual(said.stdout, "1\n")


# One of two ranks. The other one does not exist.
COLLECTIVES = """if True:
    import torch, torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.distributed import _functional_collectives as collectives
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch._inductor.codecache import FxGraphCache
    import warm.torch

    assert warm.torch._may_wait()
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    x = torch.ones(4)
    for together, f in ((True, lambda x: collectives.all_reduce(x * 2, "sum", dist.group.WORLD)),
                        (False, lambda x: x * 2)):
        gm = make_fx(f)(x)
        assert warm.torch.has_collectives(gm) == together, gm.graph
        FxGraphCache.prepare_key(gm, [x], {}, [], False)
        assert warm.torch._may_wait() != together, gm.graph
    print("fine")
"""


class Ranks(kit.TestCase):
    N = 3

    def run_ranks(self, daemon, **settings):
        ranks = [spawn(daemon, RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE=str(self.N), **settings)
                 for i in range(self.N)]
        return [finish(rank) for rank in ranks]

    def test_one_of_all_ranks_compiles(self):
        with kit.Daemon() as daemon:
            seen = self.run_ranks(daemon, TORCHELASTIC_RUN_ID="job", WARM_SESSION="ranks")
            self.assertEqual(len({tuple(rank["losses"]) for rank in seen}), 1)
            self.assertEqual(sum(rank["fx_misses"] for rank in seen), 2)

    def test_ranks_that_reduce_their_gradients_do_not_wait_for_each_other_for_ever(self):
        job = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
               LAYERS, *SMALL, "--distributed"]
        with kit.Daemon() as daemon:
            alone = finish_all(spawn(daemon, program=job, warm=False))
            cold = finish_all(spawn(daemon, program=job, TORCH_COMPILE_JOB_ID="job"))
            warm = finish_all(spawn(daemon, program=job, TORCH_COMPILE_JOB_ID="job"))
            for seen in (alone, cold, warm):
                self.assertEqual([rank["losses"] for rank in seen], [alone[0]["losses"]] * 2)
            for seen in (cold, warm):  # all hit, or all miss
                self.assertEqual(len({(rank["aot_hits"], rank["aot_misses"]) for rank in seen}), 1, seen)
            self.assertEqual(sum(rank["fx_misses"] for rank in cold), 2)
            self.assertEqual(sum(rank["fx_misses"] for rank in warm), 0)
            self.assertIn("pt2:dynamo-pgo::job:0::c1", torch_names(daemon))  # of each rank

    def test_nobody_waits_for_a_graph_that_the_ranks_compile_together(self):
        with kit.Daemon() as daemon:
            self.assertEqual(daemon.run(COLLECTIVES).stdout, "fine\n")

    def test_two_jobs_with_one_id_do_not_disturb_each_other(self):
        with kit.Daemon() as daemon:
            jobs = [spawn(daemon, "--layers", n, RANK="0", TORCHELASTIC_RUN_ID="one") for n in "121"]
            for n, job in zip("121", jobs):
                expected = plain("--layers", "2") if n == "2" else plain()
                self.assertEqual(finish(job)["losses"], expected["losses"])

    def test_one_compiles_through_the_redis_package(self):
        with kit.Daemon() as daemon:
            seen = self.run_ranks(daemon, TORCH_DEVICE_BACKEND_AUTOLOAD="0", WARM_SESSION="ranks")
            self.assertEqual(len({tuple(rank["losses"]) for rank in seen}), 1)
            self.assertLess(sum(rank["fx_misses"] for rank in seen), 2 * self.N)


class RedisClients(kit.TestCase):
    """Tests with several versions of redis-py, each in a folder of its own."""

    VERSIONS = ("4.6.0", "5.3.1", "6.4.0", "7.1.0", "8.1.0")
    SCRIPT = """if True:
        import os, redis, sys
        assert redis.__version__ == sys.argv[1], redis.__version__
        url = os.environ["TORCHINDUCTOR_REDIS_URL"]
        assert "socket_timeout" in url, url
        for url in (url, url.partition("?")[0]):
            r = redis.Redis.from_url(url)
            value = b'{"data": "gASVBQ==", "time_taken_ms": 30499}'
            assert r.get("pt2:autograd-experimental::none:c1") is None
            assert r.get("pt2:fx-graph-v1::none:c1") is None
            assert r.set("pt2:fx-graph-v1::" + sys.argv[1] + ":c1", value)
            assert r.get("pt2:fx-graph-v1::" + sys.argv[1] + ":c1") == value
        print("fine")
    """

    def test_all_versions_of_the_client(self):
        with Warmed() as daemon, kit.Folder() as folder:
            for version in self.VERSIONS:
                with self.subTest(version=version):
                    target = os.path.join(folder, version)
                    done = subprocess.run(
                        [sys.executable, "-m", "pip", "install", "-q", "--target", target,
                         f"redis=={version}"], capture_output=True, text=True)
                    if done.returncode:
                        self.skipTest(f"cannot be installed: {done.stderr[-200:]}")
                    seen = daemon.run(self.SCRIPT, version, PYTHONPATH=target)
                    self.assertEqual(seen.stdout, "fine\n")
                    if version not in ("4.6.0", "7.1.0"):
                        continue  # SCRIPT has tried what differs between the versions
                    seen = train(daemon, TORCH_DEVICE_BACKEND_AUTOLOAD="0", PYTHONPATH=target)
                    self.assertEqual(seen["losses"], plain()["losses"])
                    self.assertEqual((seen["fx_hits"], seen["aot_hits"]), (2, 1))
                    self.assertEqual(seen["redis"], version)


if __name__ == "__main__":
    unittest.main(failfast=False)
