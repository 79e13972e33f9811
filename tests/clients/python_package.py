# SPDX-License-Identifier: Apache-2.0
"""The package `warm` by itself: its small API, and its installation."""

import ast
import collections
import contextlib
import glob
import hashlib
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import threading
import types
import unittest
import unittest.mock

import kit

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "client", "python")
sys.path.insert(0, PACKAGE)

import warm
from warm import _client, _marks, _wire


class Case(kit.TestCase):
    def client(self, daemon, **options):
        c = warm.Client(daemon.socket, **options)
        self.addCleanup(c.close)
        return c


class Api(Case):
    @classmethod
    def setUpClass(cls):
        cls.daemon = kit.Daemon()
        cls.daemon.__enter__()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def test_dir_lists_the_names_that_load_at_their_first_use(self):
        script = "import sys, warm; assert set(warm.__all__) <= set(dir(warm)); assert 'warm._client' not in sys.modules"
        subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": PACKAGE}, check=True)

    def test_values_of_all_sizes_come_back(self):
        c = self.client(self.daemon)
        for size in (0, 1, 65536, 65537, 3_000_000):
            value = bytes(i * 7 % 251 for i in range(min(size, 9973))) * (size // 9973 + 1)
            value = value[:size]
            self.assertTrue(c.put(f"size {size}", value, cost_ms=5))
            self.assertEqual(c.get(f"size {size}"), value)

    def test_values_come_back_without_select_poll(self):
        poll = select.poll
        del select.poll  # as eventlet does
        self.addCleanup(setattr, select, "poll", poll)
        c = self.client(self.daemon)
        self.assertTrue(c.put("without poll", b"value"))
        self.assertEqual(c.get("without poll"), b"value")

    def test_several_names_in_one_round_trip(self):
        c = self.client(self.daemon)
        c.put_many([("one", b"1"), ("two", b"2")])
        self.assertEqual(c.get_many(["one", "none", "two"]), [b"1", None, b"2"])

    def test_names_that_cannot_be_are_misses(self):
        c = self.client(self.daemon)
        for name in ("", "n" * 513):
            self.assertIsNone(c.get(name))
            self.assertFalse(c.put(name, b"value"))
            self.assertFalse(c.lease(name).held)

    def test_of_many_threads_at_once_one_makes_it(self):
        c, made, got = self.client(self.daemon), [], []

        def ask():
            with c.lease("made once") as lease:
                if lease.value is None:
                    made.append(threading.get_ident())
                    lease.put(b"it")
                got.append(lease.value or b"it")

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(kit.WAIT_S)
        self.assertEqual((len(made), got), (1, [b"it"] * 8))

    def wait_for_long(self, name, holder_ends):
        """Returns what a waiter finds if the holder ends after more than one sign of life of the daemon."""
        holder = self.client(self.daemon).lease(name)
        beats, c, found = [], self.client(self.daemon, connect_timeout=0.4), []
        is_readable = _client._Connection.is_readable

        def counted(connection, seconds):
            beats.append(seconds)
            return is_readable(connection, seconds)

        with unittest.mock.patch.object(_client._Connection, "is_readable", counted):
            waiter = threading.Thread(target=lambda: found.append(c.lease(name)))
            waiter.start()
            deadline = kit.time.monotonic() + kit.WAIT_S
            while len(beats) < 5 and kit.time.monotonic() < deadline:
                kit.time.sleep(0.01)
            holder_ends(holder)
            waiter.join(kit.WAIT_S)
        self.assertEqual(len(found), 1)
        self.addCleanup(found[0].release)
        return found[0]

    def test_who_waits_for_long_gets_what_was_made(self):
        found = self.wait_for_long("long", lambda holder: holder.put(b"made"))
        self.assertEqual((found.value, found.held, found.is_made_elsewhere), (b"made", False, False))

    def test_who_waits_for_long_takes_over(self):
        found = self.wait_for_long("given up", lambda holder: holder.release())
        self.assertEqual((found.value, found.held, found.is_made_elsewhere), (None, True, False))

    def test_who_waits_for_long_is_counted_once(self):
        os.environ["WARM_SESSION"] = "long"
        self.addCleanup(os.environ.pop, "WARM_SESSION")
        self.wait_for_long("counted", lambda holder: holder.put(b"made"))
        said = self.daemon.warm("why", "--session", "long")
        self.assertIn("asked 2: 0 hits, 1 coalesced, 1 miss, 0 failed", said)

    def test_who_waits_finds_a_stuck_daemon_out(self):
        with kit.Daemon() as daemon:
            holder = self.client(daemon).lease("stuck")
            c = self.client(daemon, connect_timeout=0.3)
            waiter = threading.Thread(target=c.lease, args=("stuck",))
            waiter.start()
            kit.time.sleep(0.3)
            daemon.suspend()
            waiter.join(kit.WAIT_S)
            self.assertFalse(waiter.is_alive())
            daemon.resume()
            holder.release()

    def test_the_end_of_a_with_passes_the_turn_on(self):
        c = self.client(self.daemon)
        with c.lease("not made"):
            pass
        with c.lease("not made") as lease:
            self.assertTrue(lease.held)

    def test_a_program_that_closes_all_descriptors_gets_its_numbers_for_itself(self):
        c = self.client(self.daemon)
        c.put("closed", b"value")
        pid = os.fork()
        if pid == 0:
            os._exit(self.look_at_numbers(c))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    @staticmethod
    def look_at_numbers(c):
        """Uses a client before and after all descriptors were closed. Returns 0 if it left those that were opened
        meanwhile alone."""
        if c.get("closed") != b"value":
            return 1
        os.closerange(3, 256)
        pairs = [end for _ in range(6) for end in socket.socketpair()]
        if c.get("closed") != b"value":
            return 2
        c.close()
        for end in pairs:
            end.setblocking(False)
            try:
                os.fstat(end.fileno())
                end.recv(1)
                return 3
            except BlockingIOError:
                pass
        return 0

    def test_a_lease_is_not_the_childs_of_a_fork(self):
        lease = self.client(self.daemon).lease("forked")
        pid = os.fork()
        if pid == 0:
            os._exit(1 if lease.held else 0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertTrue(lease.held)
        self.assertTrue(lease.put(b"the parent's"))

    def ask_beside(self, daemon, name, during):
        """Returns what a waiter finds if the holder of a lease does `during` and puts its value."""
        found, c = [], self.client(daemon)
        with self.client(daemon).lease(name) as holder:
            self.assertTrue(holder.held)
            waiter = threading.Thread(target=lambda: found.append(c.lease(name)))
            waiter.start()
            during(holder.lease_seconds)
            self.assertTrue(holder.put(b"made"))
        waiter.join(kit.WAIT_S)
        self.addCleanup(found[0].release)
        return found[0].value

    @staticmethod
    def work_in_a_child(seconds):
        subprocess.run([sys.executable, "-c", f"import time\nend = time.process_time() + {seconds}\n"
                        "while time.process_time() < end: pass"], check=True)

    def test_who_works_for_longer_than_a_lease_makes_it_alone(self):
        with kit.Daemon("--lease-timeout", "1s") as daemon:
            self.assertEqual(self.ask_beside(daemon, "self", lambda lasts: self.work(3 * lasts)), b"made")
            self.assertEqual(self.ask_beside(daemon, "child", lambda lasts: self.work_in_a_child(3 * lasts)), b"made")

    @staticmethod
    def work(seconds):
        end = kit.time.monotonic() + seconds
        while kit.time.monotonic() < end:
            sum(range(1000))

    def test_who_does_nothing_loses_its_lease(self):
        with kit.Daemon("--lease-timeout", "1s") as daemon:
            self.assertIsNone(self.ask_beside(daemon, "asleep", lambda lasts: kit.time.sleep(3 * lasts)))

    def test_a_child_of_a_fork_renews_its_own_leases(self):
        with kit.Daemon("--lease-timeout", "1s") as daemon, self.client(daemon).lease("the parent's"):
            pid = os.fork()
            if pid == 0:
                value = self.ask_beside(daemon, "the child's", lambda lasts: self.work(3 * lasts))
                os._exit(0 if value == b"made" else 1)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_a_client_of_no_job_is_not_told_what_the_jobs_other_ranks_were(self):
        rank = """if True:
            import time, warm
            print([warm.get("polled") for _ in range(3)], flush=True)
            time.sleep(60)  # the job lives on
        """
        with unittest.mock.patch.dict(os.environ, TORCHELASTIC_RUN_ID="polls"):
            with self.daemon.spawn(rank, PYTHONPATH=PACKAGE) as other:
                self.assertEqual(other.stdout.readline(), "[None, None, None]\n")
                self.assertTrue(self.client(self.daemon).put("polled", b"there"))
                self.assertIsNone(self.client(self.daemon).get("polled"), "a job's ranks get one answer")
                self.assertEqual(self.client(self.daemon, is_of_job=False).get("polled"), b"there")
                other.kill()

    def test_stats_are_those_of_the_daemon(self):
        self.assertIn("hits", self.client(self.daemon).stats())


@unittest.mock.patch.dict(os.environ, WARM_EXE=os.path.join(kit.BUILD, "bin", "warm"))
class Marks(unittest.TestCase):
    class Object:
        pass

    def check(self, held, change_one):
        other = {"a": 1}
        watch = _marks.Watch()
        watch.add(["held", "other"], [held, other])
        self.assertEqual(watch.changed(), [])
        for change in (change_one, lambda: held.update(a=object()), lambda: held.pop("b"), lambda: held.update(c=1)):
            change()
            self.assertEqual(watch.changed(), ["held"])
            self.assertEqual(watch.changed(), [])
        other.clear()
        self.assertEqual(watch.changed(), ["other"])

    def check_all(self):
        one, held = self.Object(), {"a": 1, "b": 2}
        one.a, one.b = 1, 2
        self.check(held, lambda: held.update(a=3))
        self.check(vars(one), lambda: setattr(one, "a", 3))

    def test_by_the_versions_of_dictionaries(self):
        self.assertEqual(_marks._has_versions(), sys.version_info < (3, 13))
        self.check_all()

    def test_by_identity_where_dictionaries_have_no_versions(self):
        with unittest.mock.patch.object(_marks, "_has_versions", lambda: False):
            self.check_all()

    def test_a_dictionary_that_is_as_before_has_not_changed(self):
        held = {"a": 1}
        watch = _marks.Watch(compares=True)
        watch.add(["held"], [held])
        held["b"] = held.pop("b", 2)
        del held["b"]
        self.assertEqual(watch.changed(), [])
        held["b"] = held.pop("a")
        self.assertEqual(watch.changed(), ["held"])

    def test_cells_lists_and_sets(self):
        one = object()
        cell, parts = types.CellType(one), ([1, one], {1, one}, collections.deque([1, one]))
        watch = _marks.Watch(compares=True)
        watch.add(["cell", *map(str, range(3)), "again"], [cell, *parts, cell])
        watch.add(["cell"], [cell])
        self.assertEqual(watch.changed(), [])
        for part in parts:
            part.remove(one)
            part.append(object()) if hasattr(part, "append") else part.add(object())
        cell.cell_contents = object()
        self.assertEqual(watch.changed(), ["cell", "0", "1", "2", "again"])
        parts[0].append(one)
        del cell.cell_contents
        self.assertEqual(watch.changed(), ["cell", "0", "again"])
        self.assertEqual(watch.changed(), [])


class Probe(Case):
    """warm._probe with the real loader, and a probe like PyTorch's."""

    class VecISA:
        _avx_py_load = 'from ctypes import cdll\ncdll.LoadLibrary("__lib_path__")\n'
        folder, runs = "", 0

        def _build_probe_env(self):
            return {**os.environ, "LD_LIBRARY_PATH": f"{self.folder}/first:{self.folder}/second"}

        def _probe_load(self, output_path):
            self.runs += 1
            command = [sys.executable, "-c", self._avx_py_load.replace("__lib_path__", output_path)]
            return subprocess.run(command, env=self._build_probe_env(), stderr=subprocess.DEVNULL).returncode == 0

    def compile(self, text, name, *options):
        subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", name, *options], input=text.encode(), check=True)

    def expect(self, what, loads, runs):
        before, isa = self.isa.runs, self.isa
        self.assertEqual(isa._probe_load(self.library), loads, what)
        self.assertEqual(isa.runs - before, runs, what)

    def test_only_an_answer_with_the_same_files_is_remembered(self):
        from warm import _identity, _probe

        with kit.Daemon() as daemon, kit.Folder() as folder:
            settled = unittest.mock.patch.object(_identity, "_SETTLED_NS", -(10**12))
            client = unittest.mock.patch.object(_client, "client", lambda c=self.client(daemon): c)
            module = types.SimpleNamespace(VecISA=type("VecISA", (self.VecISA,), {"folder": folder}))
            with settled, client:
                _probe.install(module)
                self.isa, self.library = module.VecISA(), f"{folder}/a/probe.so"
                for name in ("a", "b", "first", "second"):
                    os.mkdir(f"{folder}/{name}")
                self.compile("int dep(void) { return 1; }", f"{folder}/second/libdep.so")
                self.compile("int dep(void); int f(void) { return dep(); }", self.library,
                             f"-L{folder}/second", "-ldep", "-Wl,-z,now")  # fmt: skip
                self.expect("the first", True, 1)
                self.expect("again", True, 0)
                os.rename(self.library, f"{folder}/b/probe.so")
                self.library = f"{folder}/b/probe.so"
                self.expect("in another folder", True, 0)
                self.compile("int none(void) { return 1; }", f"{folder}/first/libdep.so")
                self.expect("a library that newly wins, and lacks a symbol", False, 1)
                self.expect("a failure is not remembered", False, 1)
                os.unlink(f"{folder}/first/libdep.so")
                self.expect("as before", True, 0)
                for name, files, runs in (("p", ("train.py", "models"), 0), ("q", ("ctypes.py",), 1)):
                    os.mkdir(f"{folder}/{name}")
                    for file in files:
                        open(f"{folder}/{name}/{file}", "w").close()
                    path = os.pathsep.join([f"{folder}/{name}", os.environ.get("PYTHONPATH", "")])
                    with unittest.mock.patch.dict(os.environ, PYTHONPATH=path):
                        self.expect(f"a program's folder with {files}", runs == 0, runs)
                self.compile("int dep(void) { return 2; }", f"{folder}/second/libdep.so")
                self.expect("a library with other bytes", True, 1)
                with unittest.mock.patch.dict(os.environ, TORCH_EXTENSIONS_DIR=folder, TORCH_HOME=folder):
                    self.expect("other folders for what torch makes", True, 0)
                with unittest.mock.patch.dict(os.environ, LD_BIND_NOW="1"):
                    self.expect("another variable of the loader", True, 1)
                with unittest.mock.patch.object(_probe, "_processor", lambda: "another one"):
                    self.expect("another processor", True, 1)
                self.compile("int f(void) { return 3; }", self.library)
                self.expect("another probe", True, 1)
                os.unlink(f"{folder}/second/libdep.so")
                self.expect("a library that it does not need is gone", True, 0)
                daemon.stop()
                self.expect("without a daemon", True, 1)

    def test_another_probe_than_the_known_one_is_left_alone(self):
        from warm import _probe

        class VecISA:
            def _probe_load(self, output_path, more=None):
                return True

        real = VecISA._probe_load
        _probe.install(types.SimpleNamespace(VecISA=VecISA))
        self.assertIs(VecISA._probe_load, real)


class TorchKey(Case):
    def codecache(self, folder):
        """Returns a module with the parts of torch._inductor.codecache that remember_key uses."""
        module = types.SimpleNamespace(_TORCH_PATH=folder, __file__=__file__, reads=0, value=None)
        module.config = types.SimpleNamespace(is_fbcode=lambda: False)
        module.torch = types.SimpleNamespace(__version__="1")

        def torch_key():
            if module.value is None:
                module.reads += 1
                paths = sorted(glob.glob(f"{folder}/**/*.py", recursive=True))
                module.value = hashlib.sha256(b"".join(map(pathlib.Path.read_bytes, map(pathlib.Path, paths)))).digest()
            return module.value

        torch_key.set = lambda value: setattr(module, "value", value)
        module.torch_key = torch_key
        return module

    def test_it_is_remembered_by_the_identity_of_all_sources(self):
        from warm import _identity
        from warm.torch import remember_key

        with kit.Daemon() as daemon, kit.Folder() as folder:
            os.makedirs(f"{folder}/sub/deep")
            for name in ("__init__.py", "one.py", "sub/__init__.py", "sub/two.py", "sub/deep/__init__.py"):
                with open(f"{folder}/{name}", "w") as f:
                    f.write(f"name = {name!r}\n")

            def edit(name, text="x = 1\n"):
                path = f"{folder}/{name}"
                before = os.stat(path) if os.path.exists(path) else None
                with open(path, "w") as f:
                    f.write(text)
                if before:
                    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

            changes = [
                (None, 1),
                (None, 0),
                (lambda: edit("one.py", "name = 'two.py'\n"), 1),  # of the same size and time
                (lambda: edit("sub/deep/__init__.py"), 1),
                (lambda: edit("sub/deep/new.py"), 1),
                (lambda: edit("sub/text.txt"), 0),
                (lambda: os.rename(f"{folder}/sub/two.py", f"{folder}/sub/four.py"), 1),
                (lambda: os.unlink(f"{folder}/one.py"), 1),
                (None, 0),
            ]
            settled = unittest.mock.patch.object(_identity, "_SETTLED_NS", -(10**12))
            client = unittest.mock.patch.object(_client, "client", lambda c=self.client(daemon): c)
            with client:
                for i, (change, reads) in enumerate(changes):
                    if change:
                        change()
                    module, real = self.codecache(folder), self.codecache(folder)
                    remember_key(module)
                    with settled:
                        self.assertEqual(module.torch_key(), real.torch_key(), f"change {i}")
                    self.assertEqual(module.reads, reads, f"change {i}")
                module = self.codecache(folder)
                remember_key(module)
                module.torch_key()
                self.assertEqual(module.reads, 1, "files that changed a moment ago are read")


class WithoutIt(Case):
    def expect_nothing(self, c):
        self.assertIsNone(c.get("name"))
        self.assertFalse(c.put("name", b"value"))
        with c.lease("name") as lease:
            self.assertIsNone(lease.value)
            self.assertFalse(lease.put(b"value"))
        self.assertEqual(c.stats(), {})

    def test_no_daemon(self):
        with kit.Folder() as folder:
            self.expect_nothing(warm.Client(os.path.join(folder, "none")))

    def test_a_module_of_python_that_a_package_broke(self):
        with kit.Daemon() as daemon, unittest.mock.patch.object(_wire, "header", side_effect=AttributeError):
            self.expect_nothing(self.client(daemon))

    def test_a_daemon_that_hangs(self):
        with kit.Daemon() as daemon:
            daemon.suspend()
            self.expect_one_silence(self.client(daemon, connect_timeout=0.3))

    def expect_one_silence(self, c):
        """Checks that all requests together wait for one silence of 0.3 s, although each alone may take longer."""
        began = kit.time.monotonic()
        self.expect_nothing(c)
        self.assertLess(kit.time.monotonic() - began, 2)

    def test_one_that_is_silent_after_its_welcome(self):
        self.with_polite_daemon(lambda tag, kind: b"")

    def test_one_that_says_wait_for_ever(self):
        last = []

        def wait(tag, kind):
            last.extend([tag] if kind != _wire.RELEASE else [])
            return _wire._frame(_wire.WAIT, last[-1], struct.pack("<II", 2, 10))

        self.with_polite_daemon(wait)

    def test_one_that_answers_to_others(self):
        self.with_polite_daemon(
            lambda tag, kind: b"".join(_wire._frame(_wire.MISS, tag + i, b"") for i in range(7, 50)))

    def with_polite_daemon(self, reply):
        """Checks the requests to a daemon that says WELCOME, and then answers each request with reply()."""
        def serve(connection):
            with connection, connection.makefile("rb") as requests:
                while head := requests.read(_wire.HEADER_SIZE):
                    kind, _, length, tag = _wire.header(head)
                    requests.read(length)
                    welcome = struct.pack("<HII", _wire.VERSION, 1 << 20, 0) + _wire._blob(b"d")
                    said = _wire._frame(_wire.WELCOME, tag, welcome) if kind == _wire.HELLO else reply(tag, kind)
                    try:
                        connection.sendall(said)
                    except OSError:
                        return

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        with kit.Folder() as folder, socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(folder, "socket")
            listener.bind(path)
            listener.listen()
            threading.Thread(target=accept, daemon=True).start()
            c = warm.Client(path, connect_timeout=0.3)
            self.addCleanup(c.close)
            self.expect_one_silence(c)
            listener.shutdown(socket.SHUT_RDWR)

    def test_a_daemon_that_comes_back_is_asked_again(self):
        with kit.Daemon() as daemon:
            c = self.client(daemon)
            c.put("name", b"value")
            daemon.kill()
            self.assertIsNone(c.get("name"))
            daemon.start()
            deadline = kit.time.monotonic() + kit.WAIT_S
            while c.get("name") is None and kit.time.monotonic() < deadline:
                kit.time.sleep(0.05)
            self.assertEqual(c.get("name"), b"value")

    def test_switches(self):
        script = "import warm; print(warm.put('s', b'new'), warm.get('s'))"
        with kit.Daemon() as daemon:
            self.client(daemon).put("s", b"old")
            for variable, expected in (("WARM_DISABLE", "False None"), ("WARM_READONLY", "False b'old'"),
                                       ("WARM_RECACHE", "True None")):
                seen = daemon.run(script, warm=False, PYTHONPATH=PACKAGE, **{variable: "1"})
                self.assertEqual(seen.stdout.strip(), expected, variable)


@unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
class AnotherUsersDaemon(Case):
    """The daemon of another user. Programs run what a daemon sends, so this one is not even asked."""

    def setUp(self):
        place = kit.Folder()
        folder = place.__enter__()
        self.addCleanup(place.__exit__, None, None, None)
        self.path = os.path.join(folder, "warmd.sock")
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        ready, told = os.pipe()
        os.chmod(folder, 0o777)
        stranger = os.fork()
        if stranger == 0:  # SO_PEERCRED tells who called listen
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                listener.bind(self.path)
                listener.listen()
                os.write(told, b".")
                while True:
                    listener.accept()[0].close()
            finally:
                os._exit(1)
        self.addCleanup(os.waitpid, stranger, 0)
        self.addCleanup(os.kill, stranger, 9)
        os.read(ready, 1)
        os.close(ready)
        os.close(told)

    def test_is_not_asked(self):
        c = warm.Client(self.path)
        self.assertIsNone(c.get("name"))
        self.assertFalse(c.put("name", b"value"))
        with self.assertRaisesRegex(PermissionError, "runs as uid 65534"):
            _client._Connection(self.path, 1)

    def test_is_not_asked_by_the_redis_package(self):
        class UnixDomainSocketConnection:  # as redis.connection has it
            def __init__(self, path):
                self.path = path

            def _connect(self):
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(self.path)
                return sock

        from warm import _autoload

        module = types.ModuleType("redis.connection")
        module.UnixDomainSocketConnection = UnixDomainSocketConnection
        _autoload._patch_redis(module)
        with unittest.mock.patch.dict(os.environ, WARM_SOCKET=self.path):
            with self.assertRaises(PermissionError):
                module.UnixDomainSocketConnection(self.path)._connect()
        with unittest.mock.patch.dict(os.environ, WARM_SOCKET="/another"):  # a Redis of the user's own
            module.UnixDomainSocketConnection(self.path)._connect().close()


class Torch(unittest.TestCase):
    def test_functions_of_torch_take_what_its_next_version_gives_them(self):
        from warm.torch import watch, watch_autograd

        class Cache:
            @staticmethod
            def prepare_key(gm, inputs, passed=None):
                return None, [gm, inputs, passed]

            @staticmethod
            def try_load(mod, args, aot_config, local=False):
                return mod, args, aot_config, local

        module = types.ModuleType("codecache")
        module.FxGraphCache = module.AOTAutogradCache = Cache
        watch(module)
        watch_autograd(module)
        self.assertEqual(Cache.prepare_key(gm=1, inputs=2), (None, [1, 2, None]))
        self.assertEqual(Cache.try_load(1, args=2, aot_config=3, local=True), (1, 2, 3, True))
        self.assertEqual(Cache.try_load(mod=1, args=2, aot_config=3), (1, 2, 3, False))


class Installation(kit.TestCase):
    def test_every_file_is_python_3_9(self):
        files = glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True)
        self.assertTrue(files)
        for path in files:
            with open(path) as f:
                ast.parse(f.read(), path, feature_version=(3, 9))

    def test_pip_installs_it(self):
        with kit.Folder() as folder, kit.Daemon() as daemon:
            source, venv = os.path.join(folder, "source"), os.path.join(folder, "venv")
            kit.shutil.copytree(PACKAGE, source)  # pip builds where the source is
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            python = os.path.join(venv, "bin", "python")
            done = subprocess.run([python, "-m", "pip", "install", "-q", source], capture_output=True, text=True)
            if "No matching distribution" in done.stderr or "Temporary failure" in done.stderr:
                self.skipTest(f"no build tools for pip: {done.stderr[-200:]}")
            self.assertEqual(done.returncode, 0, done.stderr)
            seen = daemon.run([python, "-c", "import warm; print(warm.put('p', b'v'), warm.get('p'), warm.__file__)"],
                              warm=False)
            self.assertTrue(seen.stdout.startswith(f"True b'v' {venv}"), seen.stdout)


if __name__ == "__main__":
    unittest.main()
