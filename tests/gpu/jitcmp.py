# SPDX-License-Identifier: Apache-2.0
"""Is a cubin of cuLink the one that cuModuleLoadData makes of the same PTX? Compares the machine code of each
kernel in the file that the driver itself left in its cache with that of cuLinkComplete.

    python jitcmp.py FOLDER…        all .ptx below these folders; CUDA_CACHE_PATH must name an empty folder
    python jitcmp.py --files A B    the code of two cubins, or of files that hold one; needs no GPU

A program that comes from cuLink although its own load would have made other code may be slower for ever.
"""

import ctypes
import glob
import hashlib
import os
import re
import struct
import subprocess
import sys
import time

os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")  # compile at the load, not at a kernel's first use
import device
from device import HANDLE

REGISTERS, LOCAL_BYTES, SHARED_BYTES = 4, 3, 1
PTX, ELF = 1, b"\x7fELF\x02"
WANTED = 50


# ---- cubins ----


def sections(elf):
    """Yields (name, type, content) of each section. Raises struct.error if the file is cut short."""
    at, = struct.unpack_from("<Q", elf, 0x28)
    size, n, names = struct.unpack_from("<3H", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, at + i * size) for i in range(n)]
    table = rows[names][4]
    for name, kind, _, _, where, length in rows:
        yield elf[table + name : elf.index(b"\0", table + name)].decode(), kind, elf[where : where + length]


def length_of(elf):
    """Returns the length of the ELF file that `elf` begins with."""
    at, = struct.unpack_from("<Q", elf, 0x28)
    size, n = struct.unpack_from("<2H", elf, 0x3A)
    ends = [at + size * n]
    for i in range(n):
        _, kind, _, _, where, length = struct.unpack_from("<IIQQQQ", elf, at + i * size)
        ends.append(where + (0 if kind == 8 else length))  # SHT_NOBITS has no bytes
    return max(ends)


def code_of(elf):
    """Returns the machine code of each kernel and function of a cubin, by name."""
    return {name[6:]: content for name, kind, content in sections(elf) if name.startswith(".text.")}


def cubins_in(data):
    """Returns the ELF files that lie in `data`, which is whatever the driver writes into its cache."""
    found, at = [], data.find(ELF)
    while at >= 0:
        try:
            code_of(data[at:])
            found.append(data[at : at + length_of(data[at:])])
            at = data.find(ELF, at + len(found[-1]))
        except (struct.error, IndexError, ValueError):
            at = data.find(ELF, at + 1)
    return found


def compare(a, b):
    """Returns "same", "differ" or "unknown" for two cubins, and the names whose code differs."""
    one, other = code_of(a), code_of(b)
    if not one or not other:
        return "unknown", []
    names = sorted(n for n in one.keys() | other.keys() if one.get(n) != other.get(n))
    return ("differ" if names else "same"), names


# ---- the driver's two ways ----


def needs(driver, module, kernels):
    rows = {}
    for name in kernels:
        function = driver.function(module, name)
        if not driver.has("cuFuncGetAttribute"):
            return {}
        rows[name] = [driver.number("cuFuncGetAttribute", a, function)
                      for a in (REGISTERS, LOCAL_BYTES, SHARED_BYTES)]
    return rows


def load(driver, image, kernels):
    """Loads an image. Returns the seconds that took, and what each kernel needs."""
    module, began = HANDLE(), time.perf_counter()
    driver("cuModuleLoadData", ctypes.byref(module), image)
    seconds = time.perf_counter() - began
    found = needs(driver, module, kernels)
    driver("cuModuleUnload", module)
    return seconds, found


def link(driver, text):
    handle, cubin, size = HANDLE(), HANDLE(), ctypes.c_size_t()
    driver("cuLinkCreate_v2", 0, None, None, ctypes.byref(handle))
    driver("cuLinkAddData_v2", handle, PTX, text, ctypes.c_size_t(len(text)), b"", 0, None, None)
    driver("cuLinkComplete", handle, ctypes.byref(cubin), ctypes.byref(size))
    made = ctypes.string_at(cubin, size.value)
    driver("cuLinkDestroy", handle)
    return made


class Cache:
    """The driver's own cache: which files are new since the last look."""

    def __init__(self, folder):
        self.folder, self.seen = folder, set()

    def news(self):
        files = {os.path.join(at, name) for at, _, names in os.walk(self.folder) for name in names}
        fresh, self.seen = sorted(files - self.seen), files
        return [open(f, "rb").read() for f in fresh if os.path.basename(f) != "index"]


def look_at(driver, cache, text):
    """Compares both ways for one PTX. Returns a row of the report."""
    kernels = re.findall(r"\.entry\s+([\w$]+)", text.decode("latin-1"))
    cache.news()
    load_s, loaded = load(driver, text, kernels)
    kept = cache.news()
    began = time.perf_counter()
    image = link(driver, text)
    link_s = time.perf_counter() - began
    hit_s, linked = load(driver, image, kernels)
    cubins = [c for data in kept for c in cubins_in(data)]
    row = {"kernels": len(kernels), "load_s": load_s, "link_s": link_s, "hit_s": hit_s,
           "load_needs": loaded, "link_needs": linked, "same_needs": loaded == linked,
           "cached_files": len(kept), "cached_begins": [data[:48].hex() for data in kept[:1]]}
    row["code"], row["differ"] = compare(cubins[-1], image) if cubins and image[:5] == ELF else ("unknown", [])
    return row


def texts_below(folders):
    """Returns the distinct PTX texts below some folders, as (name, bytes with the final NUL)."""
    found = {}
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "**", "*.ptx"), recursive=True)):
            with open(path, "rb") as f:
                text = f.read().rstrip(b"\0")
            if b".entry" in text:
                found.setdefault(hashlib.sha256(text).digest(), (os.path.basename(path), text + b"\0"))
    return list(found.values())


def driver_version(driver):
    """Returns the driver's own version, such as 580.65.06, and the version of CUDA that it has."""
    cuda = driver.number("cuDriverGetVersion")
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=20).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        said = []
    return said[0] if said else "unknown", f"{cuda // 1000}.{cuda % 1000 // 10}"


def main(folders):
    driver = device.open_driver()
    texts, cache = texts_below(folders), Cache(os.environ.get("CUDA_CACHE_PATH", "/nowhere"))
    rows, refused = {}, {}
    for name, text in texts:
        try:
            rows[name] = look_at(driver, cache, text)
        except device.Fault as e:
            refused[name] = str(e)
            if e.code in (700, 715, 716, 719):  # the context is lost
                break
    n = {code: sum(r["code"] == code for r in rows.values()) for code in ("same", "differ", "unknown")}
    other = sum(not r["same_needs"] for r in rows.values())
    release, cuda = driver_version(driver)
    note = (f"driver {release} (CUDA {cuda}): of {len(rows)} PTX the code of {n['same']} is the same, of "
            f"{n['differ']} it differs, of {n['unknown']} it is unknown; registers or memory of {other} differ")
    seconds = {k: round(sum(r[k] for r in rows.values()), 3) for k in ("load_s", "link_s", "hit_s")}
    more = {"refused": refused} if refused else {}
    if not device.COMPUTES:
        more.update(note=f"{len(rows)} PTX went both ways")
    elif len(rows) < WANTED:
        more["wrong"] = f"only {len(rows)} PTX were compared, not {WANTED}: {list(refused.values())[:1]}"
    elif n["unknown"] == len(rows):
        more["wrong"] = "the driver's cache holds no cubin that this program can read"
    device.done([], **{"note": note, "driver": release, "cuda": cuda, "counts": n, "seconds": seconds,
                       "rows": rows, **more})


def compare_files(paths):
    one, other = (cubins_in(open(path, "rb").read()) for path in paths)
    if not one or not other:
        sys.exit("one of the files holds no cubin")
    print(*compare(one[-1], other[-1]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--files"]:
        compare_files(sys.argv[2:4])
    else:
        main(sys.argv[1:])
