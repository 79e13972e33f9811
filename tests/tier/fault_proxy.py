#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fault_proxy.py PORT: a proxy between a client and a server on loopback that damages the traffic. Prints its port.
GET /-/fault=NAME chooses the damage, and ends the open connections. Each GET /-/… returns how many pieces clients have
sent since that choice:

    none        nothing
    reset       each connection is reset at once
    hole        takes everything, answers nothing
    mute        takes everything to the server, and no answer back
    slow        a byte each 100 ms
    cut         resets in the middle of the answer
    end         ends the connection, in order, in the middle of the answer
    flip        flips a bit in the last byte of each large piece, both ways
    rubbish     answers with random bytes
    http-CODE   answers each request of HTTP with a page: http-500, http-503, http-403, http-301, http-200
    resp-WORD   answers each command of Redis with an error: resp-LOADING, resp-NOPERM, resp-MOVED, resp-ERR
"""
import asyncio
import os
import socket
import struct
import sys

UPSTREAM = int(sys.argv[1])
LARGE = 4096
PAGE = b"<html><body>it broke</body></html>"
FAULT = "none"
SEEN = 0
OPEN = set()


def reset(writer):
    """Ends a connection with RST."""
    try:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    except (OSError, AttributeError):
        pass


def see():
    global SEEN
    SEEN += 1


async def answer_pages(reader, writer, code):
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n")
                       if line.lower().startswith(b"content-length:")), 0)
        if b"100-continue" in head:
            length = 0
        await reader.readexactly(length)
        more = b"Location: http://127.0.0.1:1/\r\n" if code == "301" else b""
        see()
        writer.write(b"HTTP/1.1 %s X\r\nContent-Type: text/html\r\n%sContent-Length: %d\r\n\r\n%s" %
                     (code.encode(), more, len(PAGE), PAGE))
        await writer.drain()


async def answer_errors(reader, writer, word):
    while True:
        n = int((await reader.readline())[1:])
        for _ in range(n):
            await reader.readexactly(int((await reader.readline())[1:]) + 2)
        see()
        writer.write(b"-%s 1 127.0.0.1:1\r\n" % word.encode())
        await writer.drain()


async def copy(reader, writer, fault, is_answer):
    while data := await reader.read(65536):
        if not is_answer:
            see()
        if fault == "slow" and is_answer:
            for i in range(len(data)):
                writer.write(data[i:i + 1])
                await writer.drain()
                await asyncio.sleep(.1)
            continue
        if fault == "mute" and is_answer:
            continue
        if fault in ("cut", "end") and is_answer:
            writer.write(data[:len(data) // 2])
            await writer.drain()
            if fault == "end":
                writer.close()
                await writer.wait_closed()
            return
        if fault == "flip" and len(data) > LARGE:
            data = data[:-1] + bytes([data[-1] ^ 1])
        writer.write(data)
        await writer.drain()


async def serve(reader, writer, first):
    global FAULT, SEEN
    fault = FAULT
    if first.startswith(b"GET /-/"):
        name, _, value = first.split()[1].decode().partition("=")
        if name == "/-/fault":
            FAULT, SEEN = value, 0
            for other in list(OPEN):
                if other is not writer:
                    reset(other)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%d" % SEEN)
        await writer.drain()
        writer.close()
        return
    reader._buffer[:0] = first
    if fault == "hole":
        see()
        while await reader.read(65536):
            see()
    elif fault == "rubbish":
        see()
        writer.write(os.urandom(4000))
        await writer.drain()
    elif fault.startswith("http-"):
        await answer_pages(reader, writer, fault[5:])
    elif fault.startswith("resp-"):
        await answer_errors(reader, writer, fault[5:])
    else:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", UPSTREAM, limit=1 << 22)
        copies = [asyncio.ensure_future(copy(reader, up_writer, fault, False)),
                  asyncio.ensure_future(copy(up_reader, writer, fault, True))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for c in copies:
                c.cancel()
            up_writer.close()


async def handle(reader, writer):
    OPEN.add(writer)
    try:
        if FAULT == "reset" and not (first := await peek(reader)).startswith(b"GET /-/"):
            see()
            return
        await serve(reader, writer, await peek(reader) if FAULT != "reset" else first)
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        OPEN.discard(writer)
        reset(writer)


async def peek(reader):
    """Returns the first bytes."""
    return await reader.read(65536)


async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=1 << 22)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
