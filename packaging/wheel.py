#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wheel.py PREFIX OUT TAG: packs an installation below PREFIX into a wheel in OUT, and prints its path.

    PREFIX/bin/*           goes to the environment's bin/
    PREFIX/lib/libwarm*.so to its lib/, and so on: the programs find each other as they do below PREFIX
    PREFIX/share/warm/python/{warm,jax_plugins}   also to site-packages, for `import warm`

The format is that of the Python Packaging User Guide, "Binary distribution format". A wheel has no
links, so libwarm.so is the file itself. The order of its members and their times are fixed.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

LEFT_OUT = re.compile(r"lib/systemd/system/|lib/sysusers\.d/|lib/tmpfiles\.d/|lib/libwarm\.so\.0$|\.pyc$")
TIME = (2020, 1, 1, 0, 0, 0)


def members(prefix, name):
    """Yields (path in the wheel, bytes, executable)."""
    for file in sorted(path for path in prefix.rglob("*") if path.is_file()):
        below = file.relative_to(prefix).as_posix()
        if LEFT_OUT.search(below):
            continue
        executable = bool(file.stat().st_mode & 0o100)
        data = file.read_bytes()
        if below.startswith("bin/"):
            yield f"{name}.data/scripts/{below[4:]}", data, True
            continue
        yield f"{name}.data/data/{below}", data, executable
        module = below.removeprefix("share/warm/python/")
        if module != below and ".dist-info/" not in module:
            yield module, data, False


def information(prefix, tag):
    """Yields the files of the dist-info folder, without RECORD."""
    installed = prefix / "share/warm/python/warm_cache.dist-info"
    yield "METADATA", (installed / "METADATA").read_text().replace("Client and framework adapters of the", "The")
    yield "entry_points.txt", (installed / "entry_points.txt").read_text()
    yield "WHEEL", f"Wheel-Version: 1.0\nGenerator: warm\nRoot-Is-Purelib: false\nTag: {tag}\n"


def main():
    prefix, out, tag = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    metadata = (prefix / "share/warm/python/warm_cache.dist-info/METADATA").read_text()
    name = f"warm_cache-{re.search(r'^Version: (.*)$', metadata, re.M)[1]}"
    record = []
    wheel = out / f"{name}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as z:

        def add(path, data, executable=False):
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")

        for path, data, executable in members(prefix, name):
            add(path, data, executable)
        for path, text in information(prefix, tag):
            add(f"{name}.dist-info/{path}", text.encode())
        record.append(f"{name}.dist-info/RECORD,,\n")
        z.writestr(zipfile.ZipInfo(f"{name}.dist-info/RECORD", TIME), "".join(record))
    print(wheel)


main()
