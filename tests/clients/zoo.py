# SPDX-License-Identifier: Apache-2.0
"""Small models of Flax, Equinox, Haiku and plain JAX, as users write them, with a loss each.

MODELS[name]() returns (loss, parameters, rest): loss(parameters, *rest) is a scalar. Whatever is random has a seed.
"""
import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

random = np.random.default_rng(0)
key = jax.random.PRNGKey(0)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def words(*shape, of=40):
    return random.integers(0, of, shape).astype(np.int32)


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


# ---- Flax ----


class Block(nn.Module):
    """A block of a transformer; `post` puts the norms behind, as BERT has them."""

    heads: int = 2
    causal: bool = False
    post: bool = False
    rate: float = 0.0

    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(x[..., 0]) if self.causal else None
        fixed = self.rate == 0
        attention = nn.MultiHeadDotProductAttention(self.heads, dropout_rate=self.rate, deterministic=fixed)
        mlp = nn.Sequential([nn.Dense(4 * x.shape[-1]), nn.gelu, nn.Dense(x.shape[-1])])
        drop = nn.Dropout(self.rate, deterministic=fixed)
        if self.post:
            x = nn.LayerNorm()(x + drop(attention(x, mask=mask)))
            return nn.LayerNorm()(x + drop(mlp(x)))
        x = x + attention(nn.LayerNorm()(x), mask=mask)
        return x + mlp(nn.LayerNorm()(x))


class Gpt2(nn.Module):
    layers: int

    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(40, 16)
        x = embed(tokens) + nn.Embed(12, 16)(jnp.arange(tokens.shape[1]))
        for _ in range(self.layers):
            x = Block(causal=True)(x)
        return embed.attend(nn.LayerNorm()(x))


def gpt2(layers):
    model, tokens = Gpt2(layers), words(2, 9)
    return lambda p, t: cross_entropy(model.apply(p, t[:, :-1]), t[:, 1:]), model.init(key, tokens[:, :-1]), [tokens]


class Bert(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(40, 16)(tokens)
        x = Block(post=True, rate=0.1)(x)
        return nn.Dense(40)(jnp.tanh(nn.Dense(16)(x)))


def bert():
    model, tokens, labels, kept = Bert(), words(2, 8), words(2, 8), random.integers(0, 2, (2, 8)).astype(bool)
    def loss(p, tokens, labels, kept, seed):
        each = optax.softmax_cross_entropy_with_integer_labels(model.apply(p, tokens, rngs={"dropout": seed}), labels)
        return jnp.sum(jnp.where(kept, each, 0)) / jnp.maximum(jnp.sum(kept), 1)
    return loss, model.init({"params": key, "dropout": key}, tokens), [tokens, labels, kept, np.asarray([3, 4], np.uint32)]


class Residual(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.Conv(8, (3, 3), strides=2, use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=False)(y))
        y = nn.BatchNorm(use_running_average=False)(nn.Conv(8, (3, 3), feature_group_count=2)(y))
        y = nn.relu(y + nn.Conv(8, (1, 1), strides=2)(x))
        y = nn.max_pool(y, (3, 3), strides=(2, 2), padding="SAME")
        return nn.Dense(5)(nn.GroupNorm(2)(y).mean((1, 2)))


def resnet():
    model, images, labels = Residual(), normal(4, 12, 12, 3), words(4, of=5)
    all_of = model.init(key, images)
    def loss(p, stats, x, y):
        logits, new = model.apply({"params": p, "batch_stats": stats}, x, mutable=["batch_stats"])
        return cross_entropy(logits, y) + 1e-4 * sum(jnp.sum(a) for a in jax.tree_util.tree_leaves(new))
    return loss, all_of["params"], [all_of["batch_stats"], images, labels]


class Vit(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(16, (4, 4), strides=4)(x)
        x = x.reshape(x.shape[0], -1, 16)
        x = jnp.concatenate([jnp.broadcast_to(self.param("class", nn.initializers.normal(), (1, 1, 16)), (x.shape[0], 1, 16)), x], 1)
        x = x + self.param("places", nn.initializers.normal(), x.shape[1:])
        return nn.Dense(5)(nn.LayerNorm()(Block()(x))[:, 0])


def vit():
    model, images, labels = Vit(), normal(2, 12, 12, 3), words(2, of=5)
    return lambda p, x, y: cross_entropy(model.apply(p, x), y), model.init(key, images), [images, labels]


# ---- Equinox ----


class Llama(eqx.Module):
    q: eqx.nn.Linear
    kv: eqx.nn.Linear
    out: eqx.nn.Linear
    gate: eqx.nn.Linear
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    norms: list
    rope: eqx.nn.RotaryPositionalEmbedding

    def __init__(self):
        k = iter(jax.random.split(key, 6))
        linear = lambda a, b: eqx.nn.Linear(a, b, use_bias=False, key=next(k))
        self.q, self.kv, self.out = linear(16, 16), linear(16, 8), linear(16, 16)
        self.gate, self.up, self.down = linear(16, 24), linear(16, 24), linear(24, 16)
        self.norms = [eqx.nn.RMSNorm(16, use_bias=False), eqx.nn.RMSNorm(16, use_bias=False)]
        self.rope = eqx.nn.RotaryPositionalEmbedding(4)

    def __call__(self, x):
        h = jax.vmap(self.norms[0])(x)
        heads = lambda y, n: jax.vmap(self.rope, 1, 1)(y.reshape(-1, n, 4))
        q, (k, v) = heads(jax.vmap(self.q)(h), 4), jnp.split(jax.vmap(self.kv)(h), 2, -1)
        k, v = jnp.repeat(heads(k, 1), 4, 1), jnp.repeat(v.reshape(-1, 1, 4), 4, 1)
        scores = jnp.einsum("qhd,khd->hqk", q, k) / 2
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, jnp.finfo(scores.dtype).min)
        a = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores.astype(jnp.float32)).astype(x.dtype), v)
        x = x + jax.vmap(self.out)(a.reshape(x.shape))
        h = jax.vmap(self.norms[1])(x)
        return x + jax.vmap(self.down)(jax.nn.silu(jax.vmap(self.gate)(h)) * jax.vmap(self.up)(h))


def of_equinox(model, loss, rest):
    """Returns a loss of the arrays of a module, which are its parameters."""
    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    return lambda p, *rest: loss(eqx.combine(p, static), *rest), arrays, rest


def llama(dtype):
    narrow = lambda t: jax.tree_util.tree_map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, t)
    return of_equinox(narrow(Llama()), lambda m, x, y: jnp.mean((jax.vmap(m)(x).astype(jnp.float32) - y) ** 2),
                      [jnp.asarray(normal(2, 6, 16), dtype), normal(2, 6, 16)])


class Vae(eqx.Module):
    encoder: eqx.nn.MLP
    decoder: eqx.nn.MLP

    def __call__(self, x, seed):
        mean, log_variance = jnp.split(self.encoder(x), 2)
        z = mean + jnp.exp(log_variance / 2) * jax.random.normal(seed, mean.shape)
        divergence = -jnp.sum(1 + log_variance - mean ** 2 - jnp.exp(log_variance)) / 2
        return jnp.sum(optax.sigmoid_binary_cross_entropy(self.decoder(z), jax.nn.sigmoid(x))) + divergence


def vae():
    a, b = jax.random.split(key)
    model = Vae(eqx.nn.MLP(12, 8, 16, 1, jax.nn.softplus, key=a), eqx.nn.MLP(4, 12, 16, 1, jnp.tanh, key=b))
    return of_equinox(model, lambda m, x, seed: jnp.mean(jax.vmap(m)(x, jax.random.split(seed, 3))), [normal(3, 12), np.asarray([1, 2], np.uint32)])


class Experts(eqx.Module):
    gate: eqx.nn.Linear
    up: jax.Array
    down: jax.Array

    def __call__(self, x):
        weights, which = lax.top_k(jax.nn.softmax(self.gate(x)), 2)
        hidden = jax.nn.silu(jnp.einsum("d,edh->eh", x, self.up[which]))
        return jnp.einsum("e,ehd,eh->d", weights / weights.sum(), self.down[which], hidden)


def experts():
    model = Experts(eqx.nn.Linear(8, 4, key=key), jnp.asarray(normal(4, 8, 12) / 3), jnp.asarray(normal(4, 12, 8) / 3))
    def loss(m, x):
        load = jax.vmap(lambda r: jax.nn.softmax(m.gate(r)))(x).mean(0)
        return jnp.mean((jax.vmap(m)(x) - jnp.roll(x, 1, 0)) ** 2) + 0.01 * jnp.sum(load ** 2)
    return of_equinox(model, loss, [normal(6, 8)])


class Unet(eqx.Module):
    layers: list

    def __init__(self):
        k = jax.random.split(key, 4)
        self.layers = [eqx.nn.Conv2d(2, 4, 3, padding=1, key=k[0]), eqx.nn.Conv2d(4, 8, 3, padding=1, key=k[1]),
                       eqx.nn.ConvTranspose2d(8, 4, 2, stride=2, key=k[2]), eqx.nn.Conv2d(8, 2, 3, padding=1, key=k[3])]

    def __call__(self, x):
        a = jax.nn.silu(eqx.nn.GroupNorm(2, 4)(self.layers[0](x)))
        b = jax.nn.silu(self.layers[1](eqx.nn.AvgPool2d(2, 2)(a)))
        c = jnp.concatenate([self.layers[2](b), a])
        return self.layers[3](c) + jax.image.resize(b[:2], x.shape, "nearest")


def unet():
    return of_equinox(Unet(), lambda m, x, y: jnp.mean((jax.vmap(m)(x) - y) ** 2), [normal(2, 2, 8, 8), normal(2, 2, 8, 8)])


# ---- Haiku ----


def of_haiku(f, *rest):
    model = hk.without_apply_rng(hk.transform(f))
    return lambda p, *rest: model.apply(p, *rest), model.init(key, *rest), list(rest)


def lstm():
    def f(x, y):
        core = hk.DeepRNN([hk.LSTM(6), hk.GRU(5), hk.Linear(3)])
        out, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
        return jnp.mean(optax.huber_loss(out, y))
    return of_haiku(f, normal(7, 2, 4), normal(7, 2, 3))


def diffusion():
    def f(x, seed):
        a, b = jax.random.split(seed)
        t = jax.random.randint(a, (x.shape[0],), 0, 10)
        kept = jnp.cumprod(1 - jnp.linspace(1e-3, 0.2, 10))[t][:, None]
        noise = jax.random.normal(b, x.shape)
        angle = t[:, None] * jnp.exp(-jnp.arange(4.0))
        h = jnp.concatenate([jnp.sqrt(kept) * x + jnp.sqrt(1 - kept) * noise, jnp.sin(angle), jnp.cos(angle)], -1)
        return jnp.mean((hk.nets.MLP([16, 16, x.shape[1]], activation=jax.nn.swish)(h) - noise) ** 2)
    return of_haiku(f, normal(5, 6), np.asarray([5, 6], np.uint32))


def ppo():
    def f(states, actions, old, advantages, returns):
        h = hk.nets.MLP([16, 16], activation=jnp.tanh, activate_final=True)(states)
        logits, value = hk.Linear(4)(h), hk.Linear(1)(h)[:, 0]
        log = jax.nn.log_softmax(logits)
        ratio = jnp.exp(jnp.take_along_axis(log, actions[:, None], 1)[:, 0] - old)
        gain = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        policy = -jnp.mean(jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain))
        return policy + 0.5 * jnp.mean((value - returns) ** 2) + 0.01 * jnp.mean(jnp.sum(jnp.exp(log) * log, -1))
    return of_haiku(f, normal(8, 5), words(8, of=4), normal(8) / 4 - 1.4, normal(8), normal(8))


def transformer():
    def f(tokens, labels):
        x = hk.Embed(40, 12)(tokens)
        x = x + hk.MultiHeadAttention(3, 4, w_init=hk.initializers.VarianceScaling(1.0), model_size=12)(x, x, x)
        x = hk.LayerNorm(-1, True, True)(x)
        x = hk.Conv1D(12, 3)(x) + hk.RMSNorm(-1)(x)
        return cross_entropy(hk.Linear(40)(hk.max_pool(x, (1, 2, 1), (1, 2, 1), "SAME")), labels)
    return of_haiku(f, words(2, 6), words(2, 3))


# ---- plain JAX ----


def dropped():
    """Drops by the key rbg, and clips the gradient of an embedding's scatter."""
    p = dict(table=normal(30, 8), out=normal(8, 30) / 3, scale=normal(8))
    def loss(p, tokens, seed):
        seed = jax.random.wrap_key_data(seed, impl="rbg")
        x = p["table"][tokens] * p["scale"]
        x = jnp.where(jax.random.bernoulli(seed, 0.8, x.shape), x / 0.8, 0)
        x = lax.associative_scan(lambda a, b: a * 0.5 + b, x, axis=1)
        return cross_entropy(x[:, :-1] @ p["out"], tokens[:, 1:]) + jnp.sum(jax.scipy.special.gammaln(jnp.abs(p["scale"]) + 1)) * 1e-2
    return loss, p, [words(3, 7, of=30), np.asarray([1, 2, 3, 4], np.uint32)]


def contrastive():
    """Two towers with a temperature, and the loss of CLIP."""
    p = dict(a=normal(6, 8), b=normal(5, 8), t=np.float32(0.3))
    def loss(p, x, y):
        unit = lambda v: v / jnp.linalg.norm(v, axis=-1, keepdims=True)
        logits = unit(x @ p["a"]) @ unit(jax.nn.elu(y @ p["b"])).T * jnp.exp(p["t"])
        each = jnp.arange(len(x))
        return (cross_entropy(logits, each) + cross_entropy(logits.T, each)) / 2
    return loss, p, [normal(4, 6), normal(4, 5)]


def recurrence():
    """A state space: a scan with exponents, its remat, and a running norm."""
    p = dict(a=normal(4), b=normal(3, 4), c=normal(4, 3))
    @jax.checkpoint
    def step(c, x, p):
        h = jnp.exp(-jax.nn.softplus(p["a"])) * c[0] + x @ p["b"]
        return (h, jnp.maximum(c[1], jnp.sum(h * h))), h @ p["c"]
    def loss(p, xs):
        (h, peak), ys = lax.scan(lambda c, x: step(c, x, p), (jnp.zeros((2, 4)), jnp.float32(0)), xs)
        return jnp.mean((ys[:-1] - xs[1:]) ** 2) + 1e-3 * peak + jnp.sum(h) * 1e-3
    return loss, p, [normal(6, 2, 3)]


def graph_network():
    """Attention along edges: a softmax of each node's, by sums and maxima of segments."""
    p = dict(message=normal(8, 6) / 2, update=normal(10, 4) / 2, read=normal(4, 1), attention=normal(8, 1))
    def loss(p, x, source, target, y):
        e = jnp.concatenate([x[source], x[target]], -1)
        s = (e @ p["attention"])[:, 0]
        s = jnp.exp(s - jax.ops.segment_max(s, target, 9)[target])
        s = s / (jax.ops.segment_sum(s, target, 9)[target] + 1e-6)
        m = jax.ops.segment_sum(jax.nn.relu(e @ p["message"]) * s[:, None], target, 9)
        h = jnp.tanh(jnp.concatenate([x, m], -1) @ p["update"])
        return jnp.mean((jax.ops.segment_sum(h, jnp.arange(9) // 3, 3, indices_are_sorted=True) @ p["read"] - y) ** 2)
    return loss, p, [normal(9, 4), words(20, of=9), words(20, of=9), normal(3, 1)]


def quantized():
    """An autoencoder with a book of codes, whose gradients go straight through; its convolutions are by tiles."""
    p = dict(encoder=normal(3, 3, 3, 40) / 5, book=normal(12, 40), decoder=normal(3, 3, 40, 3) / 9)
    def loss(p, x):
        z = lax.conv_general_dilated(x, p["encoder"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        far = jnp.sum(z ** 2, -1, keepdims=True) - 2 * z @ p["book"].T + jnp.sum(p["book"] ** 2, -1)
        q = p["book"][jnp.argmin(far, -1)]
        y = lax.conv_transpose(z + lax.stop_gradient(q - z), p["decoder"], (2, 2), "SAME")
        return jnp.mean((y - x) ** 2) + jnp.mean((lax.stop_gradient(z) - q) ** 2) + jnp.mean((z - lax.stop_gradient(q)) ** 2) / 4
    return loss, p, [normal(20, 16, 16, 3)]


MODELS = {
    "gpt2_block": lambda: gpt2(1), "gpt2_4": lambda: gpt2(4), "bert": bert, "resnet": resnet, "vit": vit,
    "llama": lambda: llama(jnp.float32), "llama_bf16": lambda: llama(jnp.bfloat16), "vae": vae, "experts": experts, "unet": unet,
    "lstm": lstm, "diffusion": diffusion, "ppo": ppo, "transformer": transformer,
    "dropped": dropped, "contrastive": contrastive, "recurrence": recurrence, "graph_network": graph_network, "quantized": quantized,
}
