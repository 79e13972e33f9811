# SPDX-License-Identifier: Apache-2.0
"""Requests to the daemon: connections that come and go, deadlines, leases.

    request ──▶ an idle connection, else a new one ──▶ answer ──▶ the connection is idle again
                     │                                   │
                     └── fails: closed, and for a pause everything is a miss at once ──┘

Each request has a connection to itself, so threads never wait for one another. A lease keeps its
connection until its value is put or it is released. If the connection ends for any reason, the daemon
passes the lease to the next waiter. A forked child begins with no connections.

No failure of the daemon raises an exception: a get is then a miss, and a put stores nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import socket
import struct
import sys
import threading
import time
import weakref
from types import TracebackType
from typing import Any, Callable, Container, Iterable, Optional, Sequence, TypeVar, Union

from warm import _renewal, _wire
from warm._version import VERSION

# In seconds, as in client/lib/deadlines.h. A daemon that is silent for this time hangs; WAIT is no sign
# of life. It also limits connecting and the handshake. $WARM_TIMEOUT_MS replaces it.
CONNECT_TIMEOUT = 1.0
PAUSE_FACTOR, PAUSE_HUNG_MAX = 100.0, 600.0  # after a hang: a multiple of that time, at most so many seconds
REQUEST_TIMEOUT = 5.0  # seconds, for requests that wait for no other process
PUT_BYTES_PER_SECOND = 10e6  # more time for a put: the disk may be slow
RENEW_TIMEOUT = 0.5  # seconds for the few bytes that renew a lease
LEASE_WAIT = 300.0  # seconds that lease() waits for the holder of the lease
PAUSE_FIRST, PAUSE_MAX = 0.1, 5.0  # seconds without a connection attempt after a failure
IDLE_MAX = 4  # idle connections that are kept
ERR_TIMEOUT = 14  # keygen/err.h: the holder of the lease has not finished

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

Data = Union[bytes, bytearray, memoryview]
T = TypeVar("T")


class _Unavailable(Exception):
    """The daemon could not be asked."""


class _Hangs(socket.timeout):
    """The daemon did not take the connection, or gave no sign of life."""


def _env_is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def _env_seconds(name: str, otherwise: float) -> float:
    text = os.environ.get(name, "")
    return int(text) / 1000 if text.isdigit() and 0 < int(text) <= 3600_000 else otherwise


def _is_listening(path: str) -> bool:
    """Returns True if a daemon listens there, even if its queue is full."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock:
        try:
            sock.connect(path)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


def default_socket() -> str:
    """Returns the path of the socket of this user's daemon. libwarm chooses in the same way."""
    path = os.environ.get("WARM_SOCKET")
    if path:
        return path
    system = "/run/warm/warmd.sock"
    if os.geteuid() == 0:
        return system
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    own = f"{runtime}/warm/warmd.sock"
    if not os.environ.get("XDG_RUNTIME_DIR") and not os.access(runtime, os.X_OK):
        own = f"/tmp/warm-{os.geteuid()}/warmd.sock"
    return system if not _is_listening(own) and _is_listening(system) else own


def job_id() -> str:
    """Returns an id that all ranks of a job share, and no other job has; "" outside of a job."""
    env = os.environ
    if env.get("TORCHELASTIC_RUN_ID"):
        # Without an id torchrun sets "none": the agent's address tells jobs apart.
        port = env.get("MASTER_PORT", "")
        return f"elastic:{env['TORCHELASTIC_RUN_ID']}:{port}:{env.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if env.get("SLURM_JOB_ID"):
        step = env.get("SLURM_STEP_ID", "")
        return f"slurm:{env['SLURM_JOB_ID']}.{step}:{env.get('SLURM_RESTART_COUNT', '0')}"
    if env.get("TORCH_COMPILE_JOB_ID"):
        return f"torch:{env['TORCH_COMPILE_JOB_ID']}"
    return ""


def job_nodes() -> int:
    """Returns the number of machines that the ranks of this job run on; 1 if it is unknown."""
    env = os.environ
    try:
        if env.get("WORLD_SIZE") and env.get("LOCAL_WORLD_SIZE"):
            return -(-int(env["WORLD_SIZE"]) // max(1, int(env["LOCAL_WORLD_SIZE"])))
        return int(env.get("SLURM_STEP_NUM_NODES") or env.get("SLURM_NNODES") or 1)
    except ValueError:
        return 1


def _introduction(is_of_job: bool) -> str:
    """Returns the client text of HELLO: the program, then words for the daemon's counters and ranks."""
    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    words = [f"python-warm {VERSION}", program[:64]]
    for word, value in (
        ("session", os.environ.get("WARM_SESSION", "")),
        ("project", os.environ.get("WARM_PROJECT", "")),
        ("job", job_id() if is_of_job else ""),
        ("nodes", str(job_nodes()) if is_of_job and job_id() and job_nodes() > 1 else ""),
    ):
        if value:
            words.append(f"{word}={value[:128].replace(' ', '_')}")
    return " ".join(filter(None, words))


def check_peer(sock: socket.socket, path: str) -> None:
    """Raises PermissionError if the daemon runs neither as root nor as this user, because programs run
    its artifacts. A socket below /run/warm is trusted, because only root can put one there: the system's
    daemon runs as a user of its own."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("iIi", credentials)[1]
    if uid not in (0, os.geteuid()) and not path.startswith("/run/warm/"):
        raise PermissionError(f"the daemon at {path} runs as uid {uid}, which is neither you nor root")


class _Connection:
    """One connected socket. After an exception it can only be closed.

    Programs may close all descriptors, as daemons do, and use the numbers again. So the descriptor is
    compared with what it was before it is used and before it is closed. client/lib/conn.h names the race."""

    def __init__(self, path: str, timeout: float, is_of_job: bool = True) -> None:
        self.silence = timeout
        self.heard = time.monotonic()  # the last sign of life, or the last request
        self.life_tag = 0  # of the request for a sign of life; 0: none is out
        self.welcomed = False
        self.tag = 0
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self.sock.settimeout(timeout)
            self.sock.connect(path)
            check_peer(self.sock, path)
            self.file = self._look()
            self.sock.sendall(_wire.hello(_introduction(is_of_job)))
        except socket.timeout as e:
            self.sock.close()
            raise _Hangs from e
        except BaseException:
            self.sock.close()
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._check()
        self.sock.close()

    def _look(self) -> tuple[int, int]:
        st = os.fstat(self.sock.fileno())
        return st.st_dev, st.st_ino

    def _check(self) -> None:
        """Raises OSError, and forgets the descriptor, if the program has closed it or uses its number."""
        try:
            is_ours = self._look() == self.file
        except OSError:
            is_ours = False
        if not is_ours:
            self.sock.detach()
            raise ConnectionResetError("the program closed the connection's descriptor")

    def next_tag(self) -> int:
        self.tag += 1
        return self.tag

    def send(self, data: bytes, deadline: float, fd: int = -1) -> None:
        self.heard, self.life_tag = time.monotonic(), 0
        self._set_deadline(min(deadline, self.heard + self.silence))
        self._check()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))]
        try:
            sent = self.sock.sendmsg([data], rights) if fd >= 0 else 0
            self.sock.sendall(memoryview(data)[sent:])
        except socket.timeout as e:
            raise _Hangs from e

    def receive(self, tags: Container[int], deadline: float) -> tuple[_wire.Frame, int]:
        """Returns the next frame with one of these tags, and its descriptor, which the caller closes, or
        -1. A daemon that is silent for half of `silence` is asked for a sign of life. If it gives none
        in the other half, it hangs."""
        if not self.welcomed:
            self._welcome(deadline)
        while True:
            now = time.monotonic()
            if not self.is_readable(max(0.0, min(self.heard + self.silence / 2, deadline) - now)):
                self._end_silence(deadline)
                continue
            frame, fd = self._receive(min(deadline, time.monotonic() + self.silence))
            if frame.tag in tags:
                if frame.type != _wire.WAIT:
                    self.heard, self.life_tag = time.monotonic(), 0
                return frame, fd
            if (frame.tag, frame.type) == (self.life_tag, _wire.OK):
                self.heard, self.life_tag = time.monotonic(), 0
            if fd >= 0:
                os.close(fd)

    def _welcome(self, deadline: float) -> None:
        try:
            frame, fd = self._receive(min(deadline, time.monotonic() + self.silence))
        except socket.timeout as e:
            raise _Hangs from e
        if frame.type != _wire.WELCOME or fd >= 0:
            raise _wire.WireError("the daemon does not speak this version")
        self.welcomed = True

    def _end_silence(self, deadline: float) -> None:
        """Asks for a sign of life after half of the permitted silence. Raises if the deadline has passed,
        or if the daemon did not answer when it was asked before."""
        now = time.monotonic()
        if now >= deadline:
            raise socket.timeout("deadline passed")
        if now < self.heard + self.silence / 2:
            return
        if self.life_tag:
            raise _Hangs
        self.send(_wire.release(self.next_tag(), 0), deadline)
        self.life_tag = self.tag

    def is_readable(self, seconds: float) -> bool:
        """Returns True if bytes or the end of the stream arrive within that time."""
        self.sock.settimeout(seconds)  # not select.poll(): eventlet takes it away
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except (socket.timeout, BlockingIOError):
            return False
        return True

    def _set_deadline(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("deadline passed")
        self.sock.settimeout(left)

    def _receive(self, deadline: float) -> tuple[_wire.Frame, int]:
        fds: list[int] = []
        try:
            head = self._receive_head(fds, deadline)
            kind, n_fds, length, tag = _wire.header(head)
            payload = self._receive_exactly(length, deadline)
            if n_fds != len(fds) or n_fds > 1:
                raise _wire.WireError("another number of descriptors than announced")
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return _wire.Frame(kind, n_fds, tag, payload), fds[0] if fds else -1

    def _receive_head(self, fds: list[int], deadline: float) -> bytes:
        head = b""
        while len(head) < _wire.HEADER_SIZE:
            self._set_deadline(deadline)
            self._check()
            data, ancillary, _, _ = self.sock.recvmsg(
                _wire.HEADER_SIZE - len(head), socket.CMSG_SPACE(4 * 4), socket.MSG_CMSG_CLOEXEC
            )
            for level, kind, content in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    whole = len(content) - len(content) % 4
                    fds.extend(struct.unpack(f"{whole // 4}i", content[:whole]))
            if not data:
                raise ConnectionResetError("the daemon closed the connection")
            head += data
        return head

    def _receive_exactly(self, length: int, deadline: float) -> bytes:
        data = bytearray(length)
        view, at = memoryview(data), 0
        while at < length:
            self._set_deadline(deadline)
            self._check()
            n = self.sock.recv_into(view[at:])
            if n == 0:
                raise ConnectionResetError("the daemon closed the connection")
            at += n
        return bytes(data)


def _read_value(fd: int, length: int) -> bytes:
    try:
        return _read_file(fd, length)
    except OSError:  # pread is not allowed on it, but mmap may be
        if os.fstat(fd).st_size < length:
            raise
        with mmap.mmap(fd, length, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
            return view[:]


def _read_file(fd: int, length: int) -> bytes:
    parts, at = [], 0
    while at < length:
        part = os.pread(fd, length - at, at)
        if not part:
            raise _wire.WireError("a value is shorter than announced")
        parts.append(part)
        at += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _memfd_of(data: bytes | memoryview) -> int:
    fd = os.memfd_create("warm-value", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view, at = memoryview(data), 0
        while at < len(view):
            at += os.write(fd, view[at:])
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)  # the daemon accepts no other
    except BaseException:
        os.close(fd)
        raise
    return fd


def group_id(group: str | None) -> bytes:
    """Returns the id of a group, whose entries leave the cache together."""
    if not group:
        return bytes(16)
    import hashlib

    return hashlib.blake2b(group.encode("utf-8", "surrogateescape"), digest_size=16).digest()


class Client:
    """A process's connections to the daemon. Any number of threads may use it at once."""

    def __init__(
        self,
        socket_path: str | None = None,
        *,
        connect_timeout: float | None = None,
        request_timeout: float = REQUEST_TIMEOUT,
        is_of_job: bool = True,
    ) -> None:
        self.is_of_job = is_of_job  # False: the daemon's answers are not those of the job's other ranks
        self.path = socket_path or default_socket()
        self.connect_timeout = connect_timeout or _env_seconds("WARM_TIMEOUT_MS", CONNECT_TIMEOUT)
        self.request_timeout = request_timeout
        self.may_ask = not _env_is_set("WARM_DISABLE")
        self.may_hit = self.may_ask and not _env_is_set("WARM_RECACHE")
        self.may_store = self.may_ask and not _env_is_set("WARM_READONLY")
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()
        self._retry_at = 0.0
        self._pause = 0.0
        _clients.add(self)

    # ---- requests ----

    def get(self, name: str | bytes) -> bytes | None:
        """Returns the value of a name of 1 to 512 bytes, or None."""
        return self.get_many([name])[0]

    def get_many(self, names: Sequence[str | bytes]) -> list[bytes | None]:
        """Returns the values of several names in one round trip."""
        return [found.value for found in self._find([_name(n) for n in names])]

    def find(self, name: str | bytes) -> Lease:
        """Looks a name up without waiting. Returns a Lease as lease() does, but one that is never held."""
        return self._find([_name(name)])[0]

    def lease(self, name: str | bytes, wait: float = LEASE_WAIT) -> Lease:
        """Returns the value, or a lease to make it. If many processes ask at once, one gets the lease, and
        the others wait for its value for up to `wait` seconds. Without a daemon every process makes it."""
        key = _name(name)
        lease = Lease(self, key)
        if not self.may_hit or not key:
            return lease

        def ask(c: _Connection, deadline: float) -> Lease:
            tag = c.next_tag()
            c.send(_wire.get(tag, key, True, max(1, int(wait * 1000))), deadline)
            tags = {tag: lease}
            while tags:
                self._answer(c, tags, deadline)
            return lease

        try:
            self._request(ask, wait + self.request_timeout, keeps=lambda: lease.held)
        except _Unavailable:
            pass
        return lease

    def unasked(self, name: str | bytes) -> Lease:
        """Returns a Lease without asking the daemon; its put is that of Client."""
        return Lease(self, _name(name))

    def put(
        self,
        name: str | bytes,
        data: Data,
        *,
        kind: str = "other",
        cost_ms: float = 0,
        ttl: float = 0,
        group: str | None = None,
        keep_existing: bool = False,
        hardware: str = "",
        compiler: str = "",
        label: str = "",
    ) -> bool:
        """Stores a value. Returns True once it is committed. `cost_ms` is the time that the value took to
        make; expensive entries are evicted last. `ttl` is the entry's life in seconds; 0: for ever."""
        fields = _put_fields(
            kind=kind, cost_ms=cost_ms, ttl=ttl, group=group, keep_existing=keep_existing,
            hardware=hardware, compiler=compiler, label=label,
        )  # fmt: skip
        return self._put(None, _name(name), data, fields)

    def put_many(self, items: Iterable[tuple[str | bytes, Data]], **options: Any) -> bool:
        """Stores several values, one after another. Returns False as soon as one fails."""
        return all(self.put(name, data, **options) for name, data in items)

    def note(self, reason: str, label: str, text: str) -> None:
        """Tells the daemon why something did not come from the cache; `warm why` shows it. `reason` is
        "uncacheable", "disabled" or "timeout", `label` names the thing, and `text` explains the reason."""

        def tell(c: _Connection, deadline: float) -> None:
            c.send(_wire.note(c.next_tag(), reason, label, text), deadline)

        try:
            self._request(tell, self.request_timeout)
        except _Unavailable:
            pass

    def stats(self) -> dict[str, Any]:
        """Returns the counters of `warm stats --json`; empty without a daemon."""

        def ask(c: _Connection, deadline: float) -> dict[str, Any]:
            tag = c.next_tag()
            c.send(_wire.stats(tag), deadline)
            frame, fd = c.receive((tag,), deadline)
            if fd >= 0 or frame.type != _wire.TEXT:
                raise _wire.WireError("an answer of another kind")
            parsed: dict[str, Any] = json.loads(_wire.read_text(frame))
            return parsed

        try:
            return self._request(ask, self.request_timeout)
        except (_Unavailable, ValueError):
            return {}

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for c in idle:
            c.close()

    # ---- sending and receiving ----

    def _find(self, names: list[bytes]) -> list[Lease]:
        if not self.may_hit or not names or not all(names):
            return [Lease(self, name) for name in names]

        def ask(c: _Connection, deadline: float) -> list[Lease]:
            found = [Lease(self, name) for name in names]
            tags = {c.next_tag(): lease for lease in found}
            c.send(b"".join(_wire.get(t, f.name, False, 0) for t, f in tags.items()), deadline)
            while tags:
                self._answer(c, tags, deadline)
            return found

        try:
            return self._request(ask, self.request_timeout)
        except _Unavailable:
            return [Lease(self, name) for name in names]

    def _answer(self, c: _Connection, tags: dict[int, Lease], deadline: float) -> None:
        """Receives one frame. Removes its tag from `tags`, unless another answer follows."""
        frame, fd = c.receive(tags, deadline)
        try:
            if frame.type != _wire.WAIT:
                tags.pop(frame.tag)._take(c, frame, fd)
        finally:
            if fd >= 0:
                os.close(fd)

    def _put(
        self, c: _Connection | None, key: bytes, data: Data, fields: dict[str, Any]
    ) -> bool:
        """Stores a value. `c` is the connection that holds the lease fields["token"], if there is one."""
        view = memoryview(data).cast("B")
        if not self.may_store or not key:
            return False

        def ask(c: _Connection, deadline: float) -> bool:
            tag = c.next_tag()
            frame = _wire.put(tag, key, view, **fields)
            fd = _memfd_of(view) if len(view) > _wire.INLINE_MAX else -1
            try:
                c.send(frame, deadline, fd)
            finally:
                if fd >= 0:
                    os.close(fd)
            return self._accepted(c, tag, deadline)

        timeout = self.request_timeout + len(view) / PUT_BYTES_PER_SECOND
        try:
            return self._request(ask, timeout, c)
        except _Unavailable:
            return False

    def _accepted(self, c: _Connection, tag: int, deadline: float) -> bool:
        while True:
            frame, fd = c.receive((tag,), deadline)
            if fd >= 0:
                os.close(fd)
            if frame.type in (_wire.OK, _wire.ERROR):
                return frame.type == _wire.OK
            raise _wire.WireError("an answer of another kind")

    def _request(
        self,
        ask: Callable[[_Connection, float], T],
        timeout: float,
        given: _Connection | None = None,
        keeps: Optional[Callable[[], bool]] = None,
    ) -> T:
        """Runs ask(connection, deadline), and returns its result. If an idle connection had ended, tries
        once more with a new one. The caller keeps `given`. It also keeps the connection if keeps()
        returns True afterwards, because the connection holds a lease."""
        if not self.may_ask:
            raise _Unavailable
        c = given or self._take_idle()
        fresh = c is None
        while True:
            try:
                if c is None:
                    c = self._connect()
                result = ask(c, time.monotonic() + timeout)
            except Exception as e:  # also one of a package that changes Python's modules
                if c is not None:
                    c.close()
                if given or fresh or isinstance(e, socket.timeout):
                    raise self._failed(e) from e
                c, fresh = None, True
                continue
            except BaseException:
                if c is not None:
                    c.close()
                raise
            self._pause = 0.0
            if not given and not (keeps and keeps()):
                self._give_idle(c)
            return result

    def _connect(self) -> _Connection:
        if time.monotonic() < self._retry_at:
            raise ConnectionRefusedError("no daemon a moment ago")
        return _Connection(self.path, self.connect_timeout, self.is_of_job)

    def _failed(self, error: Exception) -> _Unavailable:
        """Begins a pause after a failure, and returns the exception for the caller. A daemon that is gone
        may be back at once. A hung daemon costs each request a timeout, so its pause is longer."""
        now = time.monotonic()
        if isinstance(error, _Hangs):
            self._retry_at = now + min(self.connect_timeout * PAUSE_FACTOR, PAUSE_HUNG_MAX)
            self.close()
        elif now >= self._retry_at:
            slow = isinstance(error, socket.timeout)
            self._pause = PAUSE_MAX if slow else min(self._pause * 2 or PAUSE_FIRST, PAUSE_MAX)
            self._retry_at = now + self._pause
        return _Unavailable()

    def _take_idle(self) -> _Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_idle(self, c: _Connection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(c)
                return
        c.close()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self.close()


class Lease:
    """The answer of lease(). If `value` is None, the caller must make the value and put it.

    A lease ends with put, with release, and with the end of the `with` block or of the process. If no
    value was put, the next waiter gets the lease."""

    def __init__(self, client_: Client, name: bytes) -> None:
        self.name = name
        self.value: bytes | None = None
        self.cost_ms = 0  # time that `value` took to make
        self.is_made_elsewhere = False  # another process was still making the value when the wait ended
        self._client = client_
        self._connection: _Connection | None = None
        self._token = 0
        self._pid = 0
        self._lock = threading.Lock()  # between the thread that renews and the end of the lease
        self.lease_seconds = 0.0

    @property
    def held(self) -> bool:
        """True while this process holds the lease, and others may wait for its value."""
        return self._connection is not None and self._pid == os.getpid()

    def put(self, data: Data, **options: Any) -> bool:
        """Stores the value of the leased name, as Client.put does; all waiters get it."""
        fields = _put_fields(**options)
        c = self._give_up()
        if c is None:
            return self._client._put(None, self.name, data, fields)
        if self._client._put(c, self.name, data, {**fields, "token": self._token}):
            self._client._give_idle(c)
            return True
        c.close()
        return False

    def release(self) -> None:
        """Gives the lease back, if it is still held: this process will not make the value."""
        c = self._give_up()
        if c is not None:
            c.close()  # the end of the connection is the end of the lease

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()

    def renew(self) -> None:
        """Tells the daemon that the value is still being made."""
        if self._pid != os.getpid():
            return
        with self._lock:
            c = self._connection
            if c is not None:
                with contextlib.suppress(OSError):
                    c.send(_wire.renew(c.next_tag(), self._token), time.monotonic() + RENEW_TIMEOUT)

    def _give_up(self) -> _Connection | None:
        if self._pid != os.getpid():  # in a child of a fork the lock may be held for ever
            self._connection = None
            return None
        with self._lock:
            c, self._connection = self._connection, None
        return c

    def _take(self, c: _Connection, frame: _wire.Frame, fd: int) -> None:
        self.is_made_elsewhere = False
        if frame.type == _wire.HIT:
            hit = _wire.read_hit(frame)
            self.value = _read_value(fd, hit.len) if fd >= 0 else hit.value
            self.cost_ms = hit.cost_ms
        elif frame.type == _wire.LEASE:
            self._token, lasts_ms = _wire.read_lease(frame)
            self.lease_seconds = lasts_ms / 1000
            self._connection, self._pid = c, os.getpid()
            _renewal.add(self)
        elif frame.type == _wire.ERROR:
            self.is_made_elsewhere = _wire.read_error(frame)[0] == ERR_TIMEOUT
        elif frame.type != _wire.MISS:
            raise _wire.WireError("an answer of another kind")


def _put_fields(
    *,
    kind: str = "other",
    cost_ms: float = 0,
    ttl: float = 0,
    group: str | None = None,
    keep_existing: bool = False,
    hardware: str = "",
    compiler: str = "",
    label: str = "",
) -> dict[str, Any]:
    if kind not in _wire.KINDS:
        raise ValueError(f"no such kind: {kind!r}")
    return {
        "kind": kind,
        "cost_ms": max(0, int(cost_ms)),
        "ttl_ms": max(0, int(ttl * 1000)),
        "group": group_id(group),
        "keep_existing": keep_existing,
        "hardware": hardware,
        "compiler": compiler,
        "label": label,
    }


def _name(name: str | bytes) -> bytes:
    """Returns a name as bytes; b"" if it cannot be one."""
    raw = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else bytes(name)
    return raw if len(raw) <= _wire.NAME_MAX else b""


# ---- the process's own client ----

_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_own: Client | None = None
_own_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _own_lock
    _own_lock = threading.Lock()
    for c in list(_clients):
        c._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


def client() -> Client:
    """Returns the client of get, put, lease and stats, made from the environment at the first call."""
    global _own
    if _own is None:
        with _own_lock:
            if _own is None:
                _own = Client()
    return _own


def get(name: str | bytes) -> bytes | None:
    return client().get(name)


def lease(name: str | bytes, wait: float = LEASE_WAIT) -> Lease:
    return client().lease(name, wait)


def put(name: str | bytes, data: Data, **options: Any) -> bool:
    return client().put(name, data, **options)


def stats() -> dict[str, Any]:
    return client().stats()


get.__doc__, put.__doc__ = Client.get.__doc__, Client.put.__doc__
lease.__doc__, stats.__doc__ = Client.lease.__doc__, Client.stats.__doc__
