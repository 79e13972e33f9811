# SPDX-License-Identifier: Apache-2.0
"""A library between a program and its GPU's driver is invisible unless it serves a hit. A client of the driver runs on
the stand-in for libcuda.so.1 (tests/fakecuda), which logs each call that reaches it, with arguments and results:

    plain      without warm
    cold warm  under `warm run`, twice
    off        under `warm run`, with WARM_DISABLE=1
    dead       under `warm run`, without a daemon
    hanging    under `warm run`, with a daemon that answers HELLO and nothing more

What the program prints is equal always. Differences of the logs that are allowed: tests/README.md, "The log of the
driver".

Each run has a fresh home and fresh caches. On a real driver (WARM_TEST_LIBCUDA=1) only what is printed is compared.
"""

import contextlib
import os
import re
import socket
import threading

import kit

FEW = ("cold", "warm")
ALL = ("cold", "warm", "off", "dead", "hanging")
COMPILER = r"(?m)^cuInit\(0\) = 0 ->\ncuGetExportTable\(&, & da9151d33ae6cc41a5c04f26d533e328\) = 500 ->\n"
LINK = ("cuLinkAddData_v2", "cuLinkAddFile_v2", "cuLinkComplete")


def frame(connection):
    """Returns the next frame of a connection (client/wire/PROTOCOL.md)."""
    header = connection.recv(16, socket.MSG_WAITALL)
    return header + connection.recv(int.from_bytes(header[4:8], "little"), socket.MSG_WAITALL)


class Hung:
    """A socket on which a daemon hangs after HELLO: this passes each client's first message to the real daemon, and
    its answer back. Then it leaves the connection open."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.socket = os.path.join(daemon.folder, "hangs.sock")
        self.open = []

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.socket)
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        for each in (*self.open, self.listener):
            each.close()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            behind = socket.socket(socket.AF_UNIX)
            behind.connect(self.daemon.socket)
            self.open += [client, behind]
            with contextlib.suppress(BrokenPipeError):  # a client that does not wait so long
                behind.sendall(frame(client))
                client.sendall(frame(behind))


def threads_of(log, queries):
    """Returns the calls of each thread, as text, sorted: which thread comes first is chance. Without `queries`, those
    that may be missing are left out."""
    threads = {}
    for line in log.splitlines():
        thread, call = line.split(" ", 1)
        if queries or not call.startswith("?"):
            threads.setdefault(thread, []).append(call)
    texts = ["\n".join(calls) + "\n" for calls in threads.values()]
    return sorted(text if queries else re.sub(COMPILER, "", text) for text in texts)


class Transparent(kit.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)
        self.calls = os.path.join(self.daemon.folder, "calls")
        kit.stand_in(self.daemon.folder)

    def run_client(self, program, *arguments, **settings):
        """Returns what a program prints, and its log."""
        open(self.calls, "w").close()
        with kit.Folder() as home:
            base = kit.driver_settings(self.daemon.folder, HOME=home, XDG_CACHE_HOME=home,
                                       TRITON_CACHE_DIR=os.path.join(home, "triton"),
                                       CUPY_CACHE_DIR=os.path.join(home, "cupy"), FAKECUDA_CALLS=self.calls,
                                       FAKECUDA_INIT=1)
            out = self.daemon.run(program, *arguments, **dict(base, **settings)).stdout
        with open(self.calls) as calls:
            return out, calls.read()

    def check(self, program, *arguments, modes=FEW, served=(), needs=(), **settings):
        """Compares the runs of a program in `modes` with a plain one. `served`: the functions whose lines are missing
        if all of them are served. `needs`: calls that the plain run must make."""
        plain, log = self.run_client(program, *arguments, warm=False, **settings)
        for call in needs if not kit.REAL_DRIVER else ():
            self.assertRegex(log, rf"(?m) {call}\(.*\) = 0 ->")
        for mode in modes:
            with self.subTest(mode=mode):
                self.compare(mode, plain, log, served if mode == "warm" else (), program, *arguments, **settings)

    def compare(self, mode, plain, log, served, program, *arguments, **settings):
        if mode == "off":
            settings["WARM_DISABLE"] = 1
        if mode == "dead":
            settings["WARM_SOCKET"] = os.path.join(self.daemon.folder, "nobody.sock")
        if mode == "hanging":
            with Hung(self.daemon) as hung:
                out, calls = self.run_client(program, *arguments, WARM_SOCKET=hung.socket,
                                             **dict(settings, WARM_TIMEOUT_MS=100))
        else:
            out, calls = self.run_client(program, *arguments, **settings)
        queries = mode in ("off", "dead")
        want = [re.sub(rf"(?m)^({'|'.join(served)})\(.*\n", "", each) if served else each
                for each in threads_of(log, queries)]
        self.assertEqual(out, plain)
        if not kit.REAL_DRIVER:
            self.assertEqual("\n".join(threads_of(calls, queries)), "\n".join(want))
