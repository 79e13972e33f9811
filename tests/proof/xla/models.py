# SPDX-License-Identifier: Apache-2.0
"""Steps of training of random networks, as people write them in JAX: layers that are functions of their own
or not, mixed precision, recomputation, a scan over equal layers, optimizers."""

import run  # before JAX, of which it says where it runs
import jax
import jax.numpy as jnp
from jax import lax

SIZES = {"cpu": ((2, 4, 8), (3, 7, 16)), "cuda": ((2, 4, 8), (3, 7, 16), (8, 32, 128), (4, 256, 64))}
CLASSES = 10
HEADS = 2


class Network:
    """Loss and optimizer, of the same choices whenever they are traced."""

    def __init__(self, random, platform):
        self.random = random
        self.batch, self.length, self.width = self.one_of(SIZES[platform])
        self.low = self.one_of((jnp.float32, jnp.float32, jnp.bfloat16, jnp.float16))
        self.seed = int(random.integers(1 << 31))
        self.mask, self.moments = self.chance(0.5), int(random.integers(3))
        self.block = [self.one_of((self.dense, self.gated, self.attention, self.attention, self.mix,
                                   self.normal, self.rms, self.experts, self.drop))
                      for _ in range(int(random.integers(1, 5)))]
        self.layers, self.how = int(random.integers(1, 4)), self.one_of(("plain", "jit", "scan", "remat"))
        self.act = self.one_of((jax.nn.relu, jax.nn.gelu, jax.nn.silu, jnp.tanh, jax.nn.softplus,
                                jax.nn.leaky_relu, jax.nn.elu))
        self.loss_of = self.one_of((self.cross, self.cross, self.square, self.huber))

    def one_of(self, things):
        return things[int(self.random.integers(len(things)))]

    def chance(self, part):
        return self.random.random() < part

    def traced(self):
        """A step, or what is computed of it alone."""
        what = self.one_of((self.step, self.step, self.loss, self.gradients, self.logits))
        weights = {f"{i}.{name}": jax.ShapeDtypeStruct(shape, jnp.float32)
                   for i in range(1 if self.how == "scan" else self.layers)
                   for name, shape in self.shapes().items()}
        if self.how == "scan":
            weights = {k: jax.ShapeDtypeStruct((self.layers, *v.shape), v.dtype)
                       for k, v in weights.items()}
        weights["embedding"] = jax.ShapeDtypeStruct((CLASSES, self.width), jnp.float32)
        weights["head"] = jax.ShapeDtypeStruct((self.width, CLASSES), jnp.float32)
        tokens = jax.ShapeDtypeStruct((self.batch, self.length), jnp.int32)
        given = (weights, tokens) if what != self.step else (weights, [weights] * self.moments, tokens)
        return jax.jit(what).trace(*given)

    def shapes(self):
        n = self.width
        return {"wide": (n, 4 * n), "narrow": (4 * n, n), "gate": (n, 4 * n), "q": (n, n), "k": (n, n),
                "v": (n, n), "out": (n, n), "scale": (n,), "shift": (n,), "bias": (4 * n,),
                "kernel": (3, n, n), "route": (n, 2)}

    # ---- layers ----

    def dense(self, w, x):
        return x + self.act(x @ w["wide"] + w["bias"]) @ w["narrow"]

    def gated(self, w, x):
        return x + (self.act(x @ w["gate"]) * (x @ w["wide"])) @ w["narrow"]

    def attention(self, w, x):
        def heads(v):
            return v.reshape(*v.shape[:2], HEADS, -1)
        q, k, v = heads(x @ w["q"]), heads(x @ w["k"]), heads(x @ w["v"])
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(q.shape[-1]).astype(x.dtype)
        if self.mask:
            seen = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
            scores = jnp.where(seen, scores, jnp.finfo(scores.dtype).min)
        part = jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(x.dtype)
        return x + jnp.einsum("bhts,bshd->bthd", part, v).reshape(x.shape) @ w["out"]

    def mix(self, w, x):
        return x + lax.conv_general_dilated(x, w["kernel"], (1,), "SAME",
                                            dimension_numbers=("NWC", "WIO", "NWC"))

    def normal(self, w, x):
        mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5) * w["scale"] + w["shift"]

    def rms(self, w, x):
        wide = x.astype(jnp.float32)
        return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(
            x.dtype) * w["scale"]

    def experts(self, w, x):
        part = jax.nn.softmax(x @ w["route"], axis=-1)
        best, index = lax.top_k(part, 1)
        picked = jax.nn.one_hot(index[..., 0], 2, dtype=x.dtype) * best
        return x + picked[..., :1] * (x @ w["q"]) + picked[..., 1:] * self.act(x @ w["k"])

    def drop(self, w, x):
        keep = jax.random.bernoulli(jax.random.fold_in(jax.random.key(0), x.shape[-1]), 0.9, x.shape)
        return jnp.where(keep, x / 0.9, 0).astype(x.dtype)

    # ---- the network ----

    def layer(self, w, x):
        for part in self.block:
            x = part(w, x)
        return x

    def logits(self, weights, tokens):
        low = {k: v.astype(self.low) for k, v in weights.items()}
        x, layer = low["embedding"][tokens], self.layer
        layer = {"jit": jax.jit, "remat": jax.checkpoint}.get(self.how, lambda f: f)(layer)

        def of(i):
            return {k.split(".", 1)[1]: v for k, v in low.items() if k.startswith(f"{i}.")}
        if self.how == "scan":
            x, _ = lax.scan(lambda x, w: (layer(w, x), None), x, of(0))
        else:
            for i in range(self.layers):
                x = layer(of(i), x)
        return (x @ low["head"]).astype(jnp.float32)

    def loss(self, weights, tokens):
        return self.loss_of(self.logits(weights, tokens)[:, :-1], tokens[:, 1:])

    def cross(self, given, wanted):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(given), wanted[..., None], -1))

    def square(self, given, wanted):
        return jnp.mean(jnp.square(given - jax.nn.one_hot(wanted, CLASSES)))

    def huber(self, given, wanted):
        off = jnp.abs(given - jax.nn.one_hot(wanted, CLASSES))
        return jnp.sum(jnp.where(off < 1, 0.5 * off * off, off - 0.5))

    def gradients(self, weights, tokens):
        return jax.value_and_grad(self.loss)(weights, tokens)

    def step(self, weights, moments, tokens):
        loss, found = jax.value_and_grad(self.loss)(weights, tokens)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(found)))
        found = jax.tree.map(lambda g: g * jnp.minimum(1, 1 / (norm + 1e-6)), found)
        change = found
        if moments:
            first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], found)
            moments, change = [first, *moments[1:]], first
        if len(moments) > 1:
            second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, moments[1], found)
            moments = [first, second]
            change = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + 1e-8), first, second)
        return jax.tree.map(lambda w, c: w - 1e-3 * (c + 0.01 * w), weights, change), moments, loss
