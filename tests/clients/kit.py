# SPDX-License-Identifier: Apache-2.0
"""The kit of the tests with other people's programs: a private daemon, and programs that run with it.

    class Kernels(kit.TestCase):
        def test_second_process_is_warm(self):
            with kit.Daemon() as daemon:
                cold = daemon.run(PROGRAM)
                hits = daemon.stats("hits")
                warm = daemon.run(PROGRAM)
                self.assertEqual(cold.stdout, warm.stdout)
                self.assertGreater(daemon.stats("hits"), hits)

A program is a list of arguments, or the text of a Python script, which this interpreter runs. The tests
change no file of the user: home, caches and the store are temporary folders. Every wait has a deadline,
and a daemon never outlives its `with`.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(os.environ.get("WARM_BUILD", "build"))
TOOLCHAIN = os.environ.get("WARM_TOOLCHAIN", os.path.join(BUILD, "toolchain"))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REAL_DRIVER = bool(os.environ.get("WARM_TEST_LIBCUDA"))
WAIT_S = 60.0  # the longest wait for an event: machines under load are slow
RUN_S = 600.0


def find_nvcc():
    """Returns the nvcc of this environment's packages, else the machine's, else None."""
    for folder in sys.path:
        packaged = os.path.join(folder, "nvidia", "cu13", "bin", "nvcc")
        if os.access(packaged, os.X_OK):
            return packaged
    return shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


NVCC = find_nvcc()

TestCase = unittest.TestCase
main = unittest.main

# A kernel that doubles its numbers, for the programs that load PTX.
PTX_TWICE = """
PTX = b'''.version 6.0
.target sm_50
.address_size 64
.visible .entry twice(.param .u64 p) {
  .reg .b32 %r<2>;
  .reg .f32 %f<3>;
  .reg .b64 %d<5>;
  ld.param.u64 %d1, [p];
  cvta.to.global.u64 %d2, %d1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.s64 %d4, %d2, %d3;
  ld.global.f32 %f1, [%d4];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%d4], %f2;
  ret;
}
'''
"""

# Takes the leases of the names in its arguments, and keeps them.
HOLD = """if True:
    import sys, time
    import warm
    held = [warm.lease(name) for name in sys.argv[1:]]
    assert all(lease.held for lease in held)
    print("held", flush=True)
    time.sleep(3600)
"""


def program(name):
    """Returns the path of a program of this build."""
    return os.path.join(BUILD, "bin", name)


def command(what, *arguments):
    """Returns the arguments that run `what`: a list as it is, a text as a Python script."""
    if isinstance(what, str):
        return [sys.executable, "-c", what, *arguments]
    return [*what, *arguments]


def result(process):
    """Returns the last line, in JSON, of the output of a program that has ended."""
    return json.loads(process.stdout.splitlines()[-1])


def prove(test, of, cases):
    """Checks that a sample of tests/proof/OF passes."""
    proof = subprocess.run(
        [sys.executable, os.path.join(ROOT, "tests", "proof", of, "pairs.py"), "--cases", str(cases),
         "--library", os.path.join(BUILD, "lib", "libwarm.so")],
        stdout=subprocess.PIPE, text=True, timeout=RUN_S)
    test.assertEqual(proof.returncode, 0, proof.stdout)
    test.assertIn(f"{cases} cases", proof.stdout)


class Folder:
    """A temporary folder, which is removed at the end of its `with`."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="warm-clients-")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def stand_in(folder):
    """Builds the stand-in for libcuda.so.1 (tests/fakecuda) in a folder. With WARM_TEST_LIBCUDA=1, which
    asks for the real driver, does nothing."""
    if not REAL_DRIVER:
        subprocess.run(["cc", "-I", ROOT, "-D_GNU_SOURCE", "-std=c11", "-shared", "-fPIC",
                        "-Wl,-Bsymbolic,-soname,libcuda.so.1", "-o",
                        os.path.join(folder, "libcuda.so.1"),
                        os.path.join(ROOT, "tests/fakecuda/libcuda.c")], check=True)


def driver_settings(folder, **more):
    """Returns the environment in which a program finds the stand-in in `folder`. Its timeout is long
    enough for a daemon on a busy machine."""
    settings = dict(dict(CUDA_CACHE_DISABLE=1, PYTHONWARNINGS="ignore", WARM_TIMEOUT_MS=5000),
                    **more)
    return settings if REAL_DRIVER else dict(settings, LD_LIBRARY_PATH=folder)


class Daemon:
    """A warmd on a store and a socket of its own. Arguments are options of warmd. It and its programs run as `user`,
    the number of a user, if that is not None: this needs root."""

    def __init__(self, *options, user=None):
        self.options = options
        self.user = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.process = None

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="warm-clients-")
        self.socket = os.path.join(self.folder, "warmd.sock")
        self.store = os.path.join(self.folder, "store")
        self.log_path = os.path.join(self.folder, "log")
        self.home = os.path.join(self.folder, "home")
        os.mkdir(self.home)
        self.give(self.folder, self.home)
        self.start()
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def give(self, *paths):
        """Makes paths belong to the daemon's user."""
        for path in paths if self.user else ():
            os.chown(path, self.user["user"], self.user["group"])

    # ---- the daemon's life ----

    def start(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("WARM_", "LD_"))}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [program("warmd"), "--socket", self.socket, "--store", self.store, *self.options],
                stdin=subprocess.DEVNULL, stderr=log, env=environment, **self.user)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket(socket.AF_UNIX) as s:
                if s.connect_ex(self.socket) == 0:
                    return
            time.sleep(0.01)
        raise RuntimeError(f"warmd does not answer: {self.log()}")

    def stop(self):
        """Ends the daemon after its running work."""
        self.process.terminate()
        self._reap()

    def kill(self):
        """Ends the daemon at once, as a crash does."""
        self.process.kill()
        self._reap()

    def suspend(self):
        """Hangs the daemon: the kernel accepts connections, but nobody answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def _reap(self):
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def move_session(self):
        """Exports what the last session used, and imports it on an empty store. The daemon and its programs have
        another home from now on."""
        archive = os.path.join(self.folder, "session.warm")
        self.warm("export", archive, "--last")
        self.stop()
        self.store += "-elsewhere"
        self.home += "-elsewhere"
        os.mkdir(self.home)
        self.give(self.home)
        self.start()
        self.warm("import", archive)

    # ---- looking into it ----

    def last_session(self):
        """Returns the counters of the session that asked last."""
        return json.loads(self.warm("report", "--format", "json"))["session"]

    def warm(self, *arguments):
        """Runs the `warm` command against this daemon, and returns its output."""
        return subprocess.run([program("warm"), *arguments], env=self.environment(), check=True,
                              capture_output=True, text=True, timeout=WAIT_S, **self.user).stdout

    def stats(self, name=None):
        """Returns all counters of this daemon since its start, or the one of that name."""
        counters = json.loads(self.warm("stats", "--json"))
        return counters if name is None else counters[name]

    # ---- programs ----

    def environment(self, **settings):
        """Returns the environment of a program: that of this process without our variables, and with
        fresh caches. A setting of None removes a variable."""
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith("WARM_") and k not in ("LD_PRELOAD", "PYTHONPATH")}
        environment.update(HOME=self.home, XDG_CACHE_HOME=os.path.join(self.home, ".cache"),
                           TMPDIR=self.folder, WARM_SOCKET=self.socket,
                           PYTHONDONTWRITEBYTECODE="1")
        for name, value in settings.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = str(value)
        return environment

    def spawn(self, what, *arguments, warm=True, cwd=None, **settings):
        """Starts a program under `warm run`, or without it, with pipes for its output."""
        argv = command(what, *arguments)
        if warm:
            argv = [program("warm"), "run", "--no-start", "--", *argv]
        return subprocess.Popen(argv, env=self.environment(**settings), cwd=cwd or self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **self.user)

    def run(self, what, *arguments, warm=True, cwd=None, check=True, **settings):
        """Runs a program to its end. With `check` raises RuntimeError, with the program's stderr, if its
        exit status is not 0, or if Python could not end in order under warm."""
        process = self.spawn(what, *arguments, warm=warm, cwd=cwd, **settings)
        try:
            out, error = process.communicate(timeout=RUN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if check and (process.returncode or warm and "Exception ignored in" in error):
            raise RuntimeError(f"exit status {process.returncode}: {error[-4000:]}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def run_both(self, what, *arguments, **settings):
        """Runs a program without warm and with it, and returns both results."""
        return (self.run(what, *arguments, warm=False, **settings),
                self.run(what, *arguments, **settings))


def options_without_a_row(daemon, tool):
    """Returns the options that a compiler's --help names and `warm tool` does not know."""
    said = subprocess.run([tool, "--help"], capture_output=True, text=True).stdout
    names = [name for line in said.splitlines() if re.match(" {0,2}-", line)
             for name in re.findall(r"(?:^\s*|\s\(?)(--?[A-Za-z0-9][\w-]*=?)", line.split("  - ")[0])]
    if len(names) < 15:
        raise RuntimeError(f"{tool} --help names only {names}")
    # a program of that name that compiles nothing, so that only the plan is seen
    stand_in = os.path.join(daemon.folder, os.path.basename(tool))
    told = os.path.join(daemon.folder, "told")
    shutil.copy("/bin/true", stand_in)
    missing = []
    for name in names:
        open(told, "w").close()
        subprocess.run([program("warm"), "tool", "--", stand_in, name, "-g"], timeout=WAIT_S, capture_output=True,
                       env=daemon.environment(WARM_TOOL_DEBUG=told))
        with open(told) as f:
            text = f.read()
        if not re.search("passed on: |miss: |hit: ", text) or re.search("unknown option|does not know", text):
            missing.append(name)
    return missing
