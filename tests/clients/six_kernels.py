# SPDX-License-Identifier: Apache-2.0
"""Six Triton kernels, compiled for a GPU that need not be there.

    python six_kernels.py ARCH [NAME…]     one line of JSON: what was compiled, hits, seconds

The kernels: an element-wise sum, softmax, layer norm forward and backward, a matrix product, and one
block of attention.
"""

import json
import os
import sys
import time

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # else Triton warns
started = time.perf_counter()

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

imported = time.perf_counter()


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + row * n + at, mask, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + at, e / tl.sum(e, 0), mask)


@triton.jit
def ln_fwd(x, w, b, y, mean, rstd, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + row * n + at, mask, other=0.0).to(tl.float32)
    m = tl.sum(v, 0) / n
    d = tl.where(mask, v - m, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    out = d * r * tl.load(w + at, mask) + tl.load(b + at, mask)
    tl.store(y + row * n + at, out, mask)


@triton.jit
def ln_bwd(dx, dy, x, w, mean, rstd, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + row * n + at, mask, other=0.0).to(tl.float32)
    g = tl.load(dy + row * n + at, mask, other=0.0).to(tl.float32)
    r = tl.load(rstd + row)
    hat = tl.where(mask, (v - tl.load(mean + row)) * r, 0.0)
    wg = tl.where(mask, g * tl.load(w + at, mask).to(tl.float32), 0.0)
    c1 = tl.sum(hat * wg, 0) / n
    c2 = tl.sum(wg, 0) / n
    tl.store(dx + row * n + at, (wg - (hat * c1 + c2)) * r, mask)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = tl.cdiv(n, BN)
    rows = (tl.program_id(0) // columns) * BM + tl.arange(0, BM)
    cols = (tl.program_id(0) % columns) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    pa = a + rows[:, None] * k + inner[None, :]
    pb = b + inner[:, None] * n + cols[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(k, BK)):
        va = tl.load(pa, mask=inner[None, :] < k - i * BK, other=0.0)
        vb = tl.load(pb, mask=inner[:, None] < k - i * BK, other=0.0)
        sums = tl.dot(va, vb, sums)
        pa += BK
        pb += BK * n
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(c + rows[:, None] * n + cols[None, :], sums.to(tl.float16), inside)


@triton.jit
def attention(q, k, v, out, n, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    dim = tl.arange(0, D)
    vq = tl.load(q + rows[:, None] * D + dim[None, :], mask=rows[:, None] < n, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        at = start + cols
        vk = tl.load(k + at[None, :] * D + dim[:, None], mask=at[None, :] < n, other=0.0)
        s = tl.where(at[None, :] < n, tl.dot(vq, vk) * scale, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        fade = tl.exp(top - new)
        total = total * fade + tl.sum(p, 1)
        vv = tl.load(v + at[:, None] * D + dim[None, :], mask=at[:, None] < n, other=0.0)
        sums = sums * fade[:, None] + tl.dot(p.to(tl.float16), vv)
        top = new
    result = (sums / total[:, None]).to(tl.float16)
    tl.store(out + rows[:, None] * D + dim[None, :], result, mask=rows[:, None] < n)


F, H = "*fp32", "*fp16"
KERNELS = {
    "add": (add, [F, F, F, "i32"], {"BLOCK": 1024}, {}),
    "softmax": (softmax, [F, F, "i32"], {"BLOCK": 1024}, {}),
    "ln_fwd": (ln_fwd, [H, H, H, H, F, F, "i32", "fp32"], {"BLOCK": 1024}, {}),
    "ln_bwd": (ln_bwd, [H, H, H, H, F, F, "i32"], {"BLOCK": 1024}, {}),
    "matmul": (matmul, [H, H, H, "i32", "i32", "i32"], {"BM": 128, "BN": 128, "BK": 32}, {"num_stages": 3}),
    "attention": (attention, [H, H, H, H, "i32", "fp32"], {"BM": 64, "BN": 64, "D": 64}, {"num_stages": 3}),
}  # fmt: skip


def compile_one(name, arch):
    fn, types, constants, options = KERNELS[name]
    names = fn.arg_names
    signature = dict(zip(names, types))
    signature.update({c: "constexpr" for c in constants})
    aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types) if t.startswith("*")}
    source = ASTSource(fn=fn, signature=signature, constexprs=constants, attrs=aligned)
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def main():
    import hashlib

    hits = []
    triton.knobs.compilation.listener = lambda **seen: hits.append(bool(seen["cache_hit"]))
    began, cpu = time.perf_counter(), time.process_time()
    cubins, first = {}, None
    for name in sys.argv[2:] or KERNELS:
        cubins[name] = hashlib.sha256(compile_one(name, int(sys.argv[1])).asm["cubin"]).hexdigest()
        first = first or time.perf_counter() - began
    times = os.times()
    print(json.dumps({
        "hits": sum(hits), "misses": len(hits) - sum(hits), "cubins": cubins,
        "import_s": imported - started, "first_s": first, "compile_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu + times.children_user + times.children_system,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
