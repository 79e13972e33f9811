# SPDX-License-Identifier: Apache-2.0
"""Prints tests/data/jax_large.txt: StableHLO of models of real sizes, which no test runs.

    python tests/kernels/jax_large.py >tests/data/jax_large.txt

Needs JAX (tests/clients/jax.txt). Each graph is "graph NAME", the module, "end".
"""
import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_platforms", "cpu")


def of(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def norm(x):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def language_model(embedding, qkv, out, up, down, tokens):
    """Runs a block of GPT-2 with its embedding and the cross-entropy of the next tokens."""
    x = embedding[tokens[:, :-1]]
    b, t, d = x.shape
    q, k, v = jnp.moveaxis((norm(x) @ qkv).reshape(b, t, 3, 12, d // 12), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.125
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(b, t, d) @ out
    x = x + jax.nn.gelu(norm(x) @ up) @ down
    logits = jax.nn.log_softmax(x @ embedding.T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def convolve(x, k, stride=1, groups=1):
    return lax.conv_general_dilated(x, k, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)


def residual(x, first, second, depthwise, dense):
    """Runs a residual block with batch norms, a depthwise convolution, pooling and a dense layer."""
    scale = lambda y: (y - y.mean((0, 1, 2))) * lax.rsqrt(y.var((0, 1, 2)) + 1e-5)
    y = jax.nn.relu(scale(convolve(x, first, 2)))
    y = y + jax.nn.relu(scale(convolve(y, second)))
    y = convolve(y, depthwise, 1, y.shape[-1])
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    y = lax.reduce_window(y, 0.0, lax.add, (1, 14, 14, 1), (1, 14, 14, 1), "SAME") / 196
    return jnp.sum(jax.nn.log_softmax(y.reshape(y.shape[0], -1) @ dense) ** 2)


def patches(x, k):
    return jnp.sum(jnp.tanh(lax.conv_general_dilated(x, k, (16, 16), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))))


def upsampled(x, k):
    return jnp.sum(lax.conv_transpose(x, k, (2, 2), "SAME") ** 2)


def lstm(wx, wh, xs):
    def step(c, x):
        i, f, g, o = jnp.split(x @ wx + c[0] @ wh, 4, -1)
        cell = jax.nn.sigmoid(f) * c[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), None
    zero = jnp.zeros((xs.shape[1], wh.shape[0]))
    return jnp.sum(lax.scan(step, (zero, zero), xs)[0][0] ** 2)


def experts(x, gate, up, down):
    weights, which = lax.top_k(jax.nn.softmax(x @ gate), 2)
    chosen = (jax.nn.one_hot(which, gate.shape[1]) * weights[..., None]).sum(-2)
    return jnp.sum(jnp.einsum("te,ted->td", chosen, jnp.einsum("teh,ehd->ted", jax.nn.silu(jnp.einsum("td,edh->teh", x, up)), down)) ** 2)


def products(a, b, c, d):
    return jnp.sum(a @ b), jnp.sum(b @ a), b.T @ b, jnp.vdot(c, c), jnp.einsum("bik,bjk->bij", d, d), c @ c[:, :1], jnp.einsum("ij,ij->j", c, c)


def reductions(x, y, z):
    return (jnp.mean(x), x.sum(0), x.sum(1), x.max(0), x.min(1), jnp.prod(x, 0), jnp.all(x > 0), jnp.any(x > 0, 0), jnp.argmax(x), jnp.argmax(x, 0), jnp.argmin(x, 1),
            jnp.linalg.norm(y), jax.nn.logsumexp(y), jnp.var(y.astype(jnp.bfloat16), 1), y.sum((0, 2)), y.sum((1,)), jnp.cumsum(x, 0), jnp.cumsum(x, 1), jnp.cumprod(x, 1),
            lax.cumlogsumexp(x, 0), lax.cummax(x, 1), jnp.sum(jnp.cumsum(z)), jnp.argmax(z), jnp.sum(z.astype(jnp.float16)), jnp.bincount(jnp.argmax(x, 1), length=64))


def indices(x, rows, values):
    return (x[rows], x.at[rows].add(values), x.at[rows].max(values), x.at[rows].set(values), jax.ops.segment_sum(values, rows, 32),
            jnp.take_along_axis(x, rows[None, :64] % 4, 1), jnp.sort(x[:64]), lax.top_k(x[:64], 8)[0])


def noise(key, rbg, x):
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    drawn = jax.random.normal(jax.random.wrap_key_data(rbg, impl="rbg"), x.shape)
    return jnp.sum(jnp.where(keep, x / 0.9, 0) * drawn)


def main():
    i32, u32 = jnp.int32, jnp.uint32
    models = {
        "language_model": (language_model, [of(50257, 768), of(768, 2304), of(768, 768), of(768, 3072), of(3072, 768), of(4, 257, dtype=i32)]),
        "residual": (residual, [of(8, 112, 112, 32), of(3, 3, 32, 64), of(3, 3, 64, 64), of(5, 5, 1, 64), of(256, 1000)]),
        "patches": (patches, [of(4, 224, 224, 3), of(16, 16, 3, 768)]),
        "upsampled": (upsampled, [of(2, 32, 32, 64), of(4, 4, 64, 32)]),
        "lstm": (lstm, [of(256, 2048), of(512, 2048), of(40, 64, 256)]),
        "experts": (experts, [of(512, 256), of(256, 16), of(16, 256, 512), of(16, 512, 256)]),
        "products": (products, [of(4, 65536), of(65536, 4), of(4096, 4096), of(64, 7, 3000)]),
        "reductions": (reductions, [of(1000, 5000), of(96, 512, 64), of(1 << 20)]),
        "indices": (indices, [of(30000, 64), of(2000, dtype=i32), of(2000, 64)]),
        "noise": (noise, [of(2, dtype=u32), of(4, dtype=u32), of(512, 1024)]),
    }
    for name, (f, args) in models.items():
        print("graph", name)
        print(jax.jit(f, keep_unused=True).lower(*args).as_text(), end="")
        print("end")


main()
