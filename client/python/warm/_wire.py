# SPDX-License-Identifier: Apache-2.0
"""The native protocol of the daemon, as bytes: the client's part of client/wire/PROTOCOL.md.

Frames are 16 bytes of header and a payload; integers are little-endian; a blob is a u32 length and
its bytes. No I/O here.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MAGIC = 0xA7
VERSION = 3
INLINE_MAX = 64 << 10  # bytes of a value in a frame; larger ones travel as a descriptor
PAYLOAD_MAX = 1 << 20
NAME_MAX = 512

HELLO, GET, PUT, RELEASE, NOTE, RENEW = 0x01, 0x02, 0x04, 0x05, 0x0B, 0x0D
STATS = 0x12
WELCOME, HIT, MISS, LEASE, WAIT, OK, ERROR, TEXT = 0x81, 0x82, 0x83, 0x84, 0x85, 0x89, 0x8A, 0x92

REASONS = {"uncacheable": 3, "disabled": 5, "timeout": 6}
KINDS = {
    "other": 0,
    "backward": 3,
    "executable": 4,
    "fx-graph": 5,
    "triton": 6,
    "autotune": 7,
    "object": 8,
    "graph": 9,
    "form": 10,
}

_HEADER = struct.Struct("<BBHIQ")
_HELLO = struct.Struct("<HHI")
_GET = struct.Struct("<BBBI32x")
_PUT = struct.Struct("<BBBQIQQ16s16s")
_HIT = struct.Struct("<BBIQ16s16s")
_LEASE = struct.Struct("<QI")
HEADER_SIZE = _HEADER.size


class WireError(Exception):
    """Raised if the peer does not speak this protocol, or a request is above a limit of it."""


class Frame(NamedTuple):
    type: int
    n_fds: int
    tag: int
    payload: bytes


class Hit(NamedTuple):
    cost_ms: int
    len: int  # of the value, which is inline or in a descriptor
    value: bytes


def _frame(kind: int, tag: int, payload: bytes, n_fds: int = 0) -> bytes:
    if len(payload) > PAYLOAD_MAX:
        raise WireError("the request is above a limit")
    return _HEADER.pack(MAGIC, kind, n_fds, len(payload), tag) + payload


def _blob(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _text(text: str) -> bytes:
    return _blob(text.encode("utf-8", "surrogateescape")[:NAME_MAX])


def hello(client: str) -> bytes:
    return _frame(HELLO, 0, _HELLO.pack(VERSION, VERSION, 0) + _text(client))


def get(tag: int, name: bytes, want_lease: bool, deadline_ms: int) -> bytes:
    return _frame(GET, tag, _GET.pack(0, want_lease, 0, deadline_ms) + _blob(name))


def put(
    tag: int,
    name: bytes,
    value: bytes | memoryview,
    *,
    kind: str = "other",
    token: int = 0,
    cost_ms: int = 0,
    ttl_ms: int = 0,
    keep_existing: bool = False,
    group: bytes = bytes(16),
    hardware: str = "",
    compiler: str = "",
    label: str = "",
) -> bytes:
    """Encodes a PUT. A value above INLINE_MAX travels as a descriptor instead of in the frame."""
    inline = len(value) <= INLINE_MAX
    head = _PUT.pack(
        0, KINDS[kind], keep_existing, token, min(cost_ms, 0xFFFFFFFF), ttl_ms, len(value),
        bytes(16), group,
    )  # fmt: skip
    texts = _blob(name) + _text(hardware) + _text(compiler) + _text(label)
    return _frame(PUT, tag, head + texts + _blob(bytes(value) if inline else b""), not inline)


def release(tag: int, token: int) -> bytes:
    return _frame(RELEASE, tag, struct.pack("<Q", token))


def renew(tag: int, token: int) -> bytes:
    """Encodes a RENEW, which has no answer."""
    return _frame(RENEW, tag, struct.pack("<Q", token))


def note(tag: int, reason: str, label: str, text: str) -> bytes:
    """Encodes a NOTE, which has no answer."""
    return _frame(NOTE, tag, struct.pack("<B", REASONS[reason]) + _text(label) + _text(text))


def stats(tag: int) -> bytes:
    return _frame(STATS, tag, b"")


def header(data: bytes) -> tuple[int, int, int, int]:
    """Returns type, number of descriptors, payload length, tag."""
    magic, kind, flags, length, tag = _HEADER.unpack(data)
    if magic != MAGIC or flags > 2 or length > PAYLOAD_MAX:
        raise WireError("not a frame of this protocol")
    return kind, flags, length, tag


def _take_blob(payload: bytes, at: int) -> bytes:
    if len(payload) < at + 4:
        raise WireError("a frame is cut short")
    (length,) = struct.unpack_from("<I", payload, at)
    if len(payload) != at + 4 + length:
        raise WireError("a frame is cut short")
    return payload[at + 4 :]


def read_hit(frame: Frame) -> Hit:
    if len(frame.payload) < _HIT.size:
        raise WireError("a frame is cut short")
    _, _, cost_ms, length, _, _ = _HIT.unpack_from(frame.payload)
    value = _take_blob(frame.payload, _HIT.size)
    if (len(value) != length) if not frame.n_fds else len(value):
        raise WireError("a value has another length than its frame says")
    return Hit(cost_ms, length, value)


def read_lease(frame: Frame) -> tuple[int, int]:
    """Returns the token, and the milliseconds for which it lasts."""
    if len(frame.payload) != _LEASE.size:
        raise WireError("a frame is cut short")
    token, lasts_ms = _LEASE.unpack(frame.payload)
    return token, lasts_ms


def read_text(frame: Frame) -> str:
    return _take_blob(frame.payload, 0).decode("utf-8", "replace")


def read_error(frame: Frame) -> tuple[int, str]:
    """Returns the error's code (keygen/err.h) and its message."""
    if len(frame.payload) < 4:
        raise WireError("a frame is cut short")
    (code,) = struct.unpack_from("<I", frame.payload)
    return code, _take_blob(frame.payload, 4).decode("utf-8", "replace")
