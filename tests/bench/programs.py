# SPDX-License-Identifier: Apache-2.0
"""The programs of time_programs.py: small users of libraries that compile. They need no GPU.

    python programs.py NAME

Runs one and prints a line of JSON: the digest of its results, and the CPU seconds after the imports.
time_programs.py copies this file to another folder, and there renames all names that end in `_n`.
"""

import hashlib
import json
import os
import resource
import sys

import numpy as np

PROGRAMS = {}
seen = hashlib.sha256()
began = 0.0


def program(f):
    PROGRAMS[f.__name__.rsplit("_", 1)[0].replace("_", " ")] = f
    return f


jit_program = program  # with the packages of jit.txt


def cpu_seconds():
    """Returns what this process used, with its children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def imports_end():
    global began
    began = cpu_seconds()


def show(*values):
    """Adds arrays, tensors or numbers to the digest."""
    for value in values:
        value = value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)
        seen.update(repr((value.shape, value.dtype.str)).encode() + np.ascontiguousarray(value).tobytes())


# ---- PyTorch ----

def torch_n():
    import torch
    torch.manual_seed(0)
    torch.set_num_threads(2)
    imports_end()
    return torch


def train_n(torch, model_n, loss_n, steps=3, lr=1e-3):
    """Trains with the whole step but the optimizer compiled, and shows the losses."""
    optimizer = torch.optim.AdamW(model_n.parameters(), lr=lr)
    compiled_n = torch.compile(loss_n)
    for _ in range(steps):
        optimizer.zero_grad()
        value_n = compiled_n(model_n)
        value_n.backward()
        optimizer.step()
        show(value_n)


def net_n(torch, *widths):
    """An MLP whose forward is here: dynamo compiles no frame of torch.nn itself, such as Sequential's."""
    class Net_n(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers_n = torch.nn.ModuleList(torch.nn.Linear(*ends) for ends in zip(widths, widths[1:]))

        def forward(self, x):
            for layer_n in self.layers_n[:-1]:
                x = torch.relu(layer_n(x))
            return self.layers_n[-1](x)
    return Net_n()


def tokens_n(torch, *shape):
    return torch.arange(int(np.prod(shape))).reshape(shape) % 97


@program
def mlp_training_n():
    torch = torch_n()
    model_n = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
    x_n, y_n = torch.randn(16, 32), torch.randn(16, 8)
    train_n(torch, model_n, lambda m: torch.nn.functional.mse_loss(m(x_n), y_n))


def gpt2_n(torch, layers=3):
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(n_layer=layers, n_head=2, n_embd=64, vocab_size=128, n_positions=128,
                                      resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def llama_n(layers=2):
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, num_attention_heads=2, hidden_size=64,
                                        intermediate_size=128, vocab_size=128, num_key_value_heads=2))


@program
def GPT_2_training_n():
    torch = torch_n()
    ids_n = tokens_n(torch, 2, 32)
    train_n(torch, gpt2_n(torch), lambda m: m(ids_n, labels=ids_n).loss)


@program
def GPT_2_generation_n():
    torch = torch_n()
    model_n = gpt2_n(torch, 2).eval()
    model_n.forward = torch.compile(model_n.forward)
    show(model_n.generate(tokens_n(torch, 1, 8), max_new_tokens=6, do_sample=False, pad_token_id=0))


@program
def Llama_dynamic_shapes_n():
    torch = torch_n()
    model_n = torch.compile(llama_n().eval(), dynamic=True)
    with torch.no_grad():
        for length_n in (16, 24, 33):
            show(model_n(tokens_n(torch, 1, length_n), use_cache=False).logits)


@program
def Llama_training_n():
    torch = torch_n()
    ids_n = tokens_n(torch, 2, 32)
    train_n(torch, llama_n(), lambda m: m(ids_n, labels=ids_n, use_cache=False).loss)


@program
def BERT_two_lengths_n():
    torch = torch_n()
    from transformers import BertConfig, BertForSequenceClassification
    model_n = torch.compile(BertForSequenceClassification(BertConfig(
        num_hidden_layers=2, num_attention_heads=2, hidden_size=64, intermediate_size=128,
        vocab_size=128)).eval())
    with torch.no_grad():
        for length_n in (12, 20, 28):
            show(model_n(tokens_n(torch, 2, length_n)).logits)


@program
def T5_training_n():
    torch = torch_n()
    from transformers import T5Config, T5ForConditionalGeneration
    model_n = T5ForConditionalGeneration(T5Config(
        num_layers=2, num_heads=2, d_model=64, d_kv=32, d_ff=128, vocab_size=128, dropout_rate=0,
        decoder_start_token_id=0, pad_token_id=0))
    ids_n = tokens_n(torch, 2, 16)
    train_n(torch, model_n, lambda m: m(input_ids=ids_n, labels=ids_n).loss, steps=2)


@program
def ViT_inference_n():
    torch = torch_n()
    from transformers import ViTConfig, ViTModel
    model_n = torch.compile(ViTModel(ViTConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=64,
                                               intermediate_size=128, image_size=32, patch_size=8)).eval())
    with torch.no_grad():
        show(model_n(torch.randn(2, 3, 32, 32)).last_hidden_state)


@program
def Hugging_Face_Trainer_n():
    torch = torch_n()
    from transformers import Trainer, TrainingArguments
    rows_n = [{"input_ids": row, "labels": row} for row in tokens_n(torch, 8, 16)]
    losses_n = []

    class Watched_n(Trainer):
        def training_step(self, *args, **more):
            value_n = super().training_step(*args, **more)
            losses_n.append(value_n)
            return value_n
    Watched_n(gpt2_n(torch, 2), TrainingArguments(
        os.environ["TMPDIR"], torch_compile=True, max_steps=3, per_device_train_batch_size=2, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True), train_dataset=rows_n).train()
    show(*losses_n)


@program
def accelerate_training_n():
    torch = torch_n()
    from accelerate import Accelerator
    from accelerate.utils import TorchDynamoPlugin
    accelerator_n = Accelerator(cpu=True, dynamo_plugin=TorchDynamoPlugin(backend="inductor"))
    model_n = gpt2_n(torch, 2)
    model_n, optimizer_n = accelerator_n.prepare(model_n, torch.optim.SGD(model_n.parameters(), lr=0.1))
    ids_n = tokens_n(torch, 2, 16)
    for _ in range(3):
        value_n = model_n(ids_n, labels=ids_n).loss
        accelerator_n.backward(value_n)
        optimizer_n.step()
        optimizer_n.zero_grad()
        show(value_n)


@program
def Lightning_training_n():
    torch = torch_n()
    import lightning

    class Module_n(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net_n = net_n(torch, 32, 64, 1)

        def training_step(self, batch, _):
            value_n = torch.nn.functional.mse_loss(self.net_n(batch[0]), batch[1])
            show(value_n)
            return value_n

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)
    data_n = torch.utils.data.TensorDataset(torch.randn(32, 32), torch.randn(32, 1))
    module_n = Module_n()
    module_n.net_n.compile()
    lightning.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, enable_model_summary=False).fit(
        module_n, torch.utils.data.DataLoader(data_n, batch_size=8))


@program
def ResNet_training_n():
    torch = torch_n()
    from transformers import ResNetConfig, ResNetForImageClassification
    model_n = ResNetForImageClassification(ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1],
                                                        layer_type="basic", num_labels=10))
    images_n, classes_n = torch.randn(2, 3, 32, 32), torch.tensor([1, 2])
    train_n(torch, model_n, lambda m: m(images_n, labels=classes_n).loss, steps=2)


@program
def MobileNet_inference_n():
    torch = torch_n()
    from transformers import MobileNetV2Config, MobileNetV2Model
    model_n = torch.compile(MobileNetV2Model(MobileNetV2Config(image_size=64, depth_multiplier=0.5)).eval())
    with torch.no_grad():
        show(model_n(torch.randn(1, 3, 64, 64)).last_hidden_state)


@program
def flex_attention_n():
    torch = torch_n()
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    q_n, k_n, v_n = (torch.randn(1, 2, 256, 64) for _ in range(3))
    mask_n = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device="cpu")
    with torch.no_grad():
        show(torch.compile(flex_attention)(
            q_n, k_n, v_n, score_mod=lambda s, b, h, q, k: s + 0.01 * (q - k), block_mask=mask_n))


@program
def torch_func_gradient_n():
    torch = torch_n()

    def energy_n(x):
        return (torch.sin(x) * torch.exp(-x * x)).sum() + torch.linalg.vector_norm(x)
    x_n = torch.randn(8, 16)
    show(torch.compile(torch.func.vmap(torch.func.grad(energy_n)))(x_n))


@program
def AOTInductor_package_n():
    torch = torch_n()
    model_n = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
    x_n = torch.randn(4, 16)
    with torch.no_grad():
        path_n = torch._inductor.aoti_compile_and_package(
            torch.export.export(model_n, (x_n,), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},)),
            package_path=os.path.join(os.environ["TMPDIR"], "package.pt2"))
        show(torch._inductor.aoti_load_package(path_n)(x_n))


@program
def load_inline_extension_n():
    torch = torch_n()
    from torch.utils.cpp_extension import load_inline
    module_n = load_inline("added", cpp_sources="""
        torch::Tensor add_twice(torch::Tensor a, torch::Tensor b)
        { TORCH_CHECK(a.sizes() == b.sizes(), "sizes"); return a + b + b; }""", functions=["add_twice"])
    show(module_n.add_twice(torch.ones(4), torch.arange(4.)))


@program
def cpp_extension_of_a_file_n():
    torch = torch_n()
    from torch.utils.cpp_extension import load
    path_n = os.path.join(os.path.dirname(os.path.abspath(__file__)), "swish.cpp")
    with open(path_n, "w") as f:
        f.write("""
            #include <torch/extension.h>
            torch::Tensor swish(torch::Tensor x, double b) { return x * torch::sigmoid(x * b); }
            PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("swish", &swish); }""")
    show(load("swish", [path_n], extra_cflags=["-O2"]).swish(torch.arange(8.), 1.5))


def rank_n(rank, world, file_n):
    torch = torch_n()
    torch.distributed.init_process_group("gloo", f"file://{file_n}", rank=rank, world_size=world)
    model_n = torch.nn.parallel.DistributedDataParallel(net_n(torch, 32, 64, 8))
    compiled_n, x_n = torch.compile(model_n), torch.randn(8, 32)
    for _ in range(2):
        compiled_n(x_n + rank).square().mean().backward()
    total_n = sum(p.grad.double().abs().sum() for p in model_n.parameters())
    torch.distributed.destroy_process_group()
    return total_n


@program
def DDP_four_ranks_n():
    import subprocess
    if "RANK" in os.environ:
        return show(rank_n(int(os.environ["RANK"]), 4, os.environ["RENDEZVOUS"]))
    file_n = os.path.join(os.environ["TMPDIR"], f"rendezvous-{os.getpid()}")
    ranks_n = [subprocess.Popen([sys.executable, *sys.argv], stdout=subprocess.PIPE, text=True,
                                env=dict(os.environ, RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE="4",
                                         RENDEZVOUS=file_n)) for i in range(4)]
    for one_n in ranks_n:
        out_n = one_n.communicate(timeout=600)[0]
        if one_n.returncode:
            raise SystemExit("a rank failed")
        seen.update(json.loads(out_n.splitlines()[-1])["digest"].encode())


# ---- JAX ----

def jax_n():
    import jax
    imports_end()
    return jax


def data_n(rows=16, columns=32):
    rng = np.random.default_rng(0)
    return rng.standard_normal((rows, columns)).astype("f"), rng.standard_normal((rows, 1)).astype("f")


def train_jax_n(step_n, params_n, state_n):
    """Takes three steps, and shows the losses."""
    for _ in range(3):
        params_n, state_n, value_n = step_n(params_n, state_n)
        show(value_n)


@program
def flax_training_n():
    jax = jax_n()
    import flax.linen as nn
    import optax

    class Net_n(nn.Module):
        @nn.compact
        def __call__(self, x):
            for width_n in (64, 64):
                x = nn.relu(nn.LayerNorm()(nn.Dense(width_n)(x)))
            return nn.Dense(1)(x)
    x_n, y_n = data_n()
    net_n, optimizer_n = Net_n(), optax.adam(1e-2)
    params_n = net_n.init(jax.random.key(0), x_n)
    state_n = optimizer_n.init(params_n)

    @jax.jit
    def step_n(params, state):
        value, grads = jax.value_and_grad(lambda p: ((net_n.apply(p, x_n) - y_n) ** 2).mean())(params)
        updates, state = optimizer_n.update(grads, state)
        return optax.apply_updates(params, updates), state, value
    train_jax_n(step_n, params_n, state_n)


@program
def flax_nnx_training_n():
    jax = jax_n()
    import optax
    from flax import nnx
    x_n, y_n = data_n()
    net_n = nnx.Sequential(nnx.Linear(32, 64, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(64, 1, rngs=nnx.Rngs(1)))
    optimizer_n = nnx.Optimizer(net_n, optax.sgd(0.1), wrt=nnx.Param)

    @nnx.jit
    def step_n(net, optimizer):
        value, grads = nnx.value_and_grad(lambda m: ((m(x_n) - y_n) ** 2).mean())(net)
        optimizer.update(net, grads)
        return value
    for _ in range(3):
        show(step_n(net_n, optimizer_n))


@program
def equinox_training_n():
    jax = jax_n()
    import equinox as eqx
    import optax
    x_n, y_n = data_n()
    net_n, optimizer_n = eqx.nn.MLP(32, 1, 64, 2, key=jax.random.key(0)), optax.adamw(1e-2)
    state_n = optimizer_n.init(eqx.filter(net_n, eqx.is_array))

    @eqx.filter_jit
    def step_n(net, state):
        value, grads = eqx.filter_value_and_grad(lambda m: ((jax.vmap(m)(x_n) - y_n) ** 2).mean())(net)
        updates, state = optimizer_n.update(grads, state, eqx.filter(net, eqx.is_array))
        return eqx.apply_updates(net, updates), state, value
    train_jax_n(step_n, net_n, state_n)


@program
def diffrax_gradient_n():
    jax = jax_n()
    import diffrax

    @jax.jit
    @jax.grad
    def loss_n(a):
        solution = diffrax.diffeqsolve(diffrax.ODETerm(lambda t, y, args: -args * y), diffrax.Tsit5(), 0., 1.,
                                       0.05, jax.numpy.ones(4), args=a,
                                       stepsize_controller=diffrax.PIDController(1e-4, 1e-4))
        return (solution.ys ** 2).sum()
    show(loss_n(jax.numpy.arange(1., 5.)))


@program
def numpyro_sampling_n():
    jax = jax_n()
    import numpyro
    from numpyro.infer import MCMC, NUTS
    x_n, y_n = data_n(32, 2)

    def model_n():
        weights = numpyro.sample("weights", numpyro.distributions.Normal(0, 1).expand([2]))
        numpyro.sample("seen", numpyro.distributions.Normal(x_n @ weights, 0.5), obs=y_n[:, 0])
    sampler_n = MCMC(NUTS(model_n), num_warmup=20, num_samples=20, progress_bar=False)
    sampler_n.run(jax.random.key(0))
    show(sampler_n.get_samples()["weights"])


@program
def keras_on_JAX_n():
    os.environ["KERAS_BACKEND"] = "jax"
    import keras
    keras.utils.set_random_seed(0)
    x_n, y_n = data_n()
    net_n = keras.Sequential([keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])
    net_n.compile("adam", "mse", jit_compile=True)
    show(net_n.fit(x_n, y_n, epochs=3, batch_size=8, verbose=0, shuffle=False).history["loss"])


@program
def scan_over_a_GRU_n():
    jax = jax_n()
    jnp = jax.numpy
    keys_n = jax.random.split(jax.random.key(0), 6)
    weights_n = [jax.random.normal(k, (32, 32)) * 0.1 for k in keys_n]

    @jax.jit
    @jax.value_and_grad
    def loss_n(w, x):
        def cell(h, v):
            z = jax.nn.sigmoid(v @ w[0] + h @ w[1])
            r = jax.nn.sigmoid(v @ w[2] + h @ w[3])
            return (1 - z) * h + z * jnp.tanh(v @ w[4] + (r * h) @ w[5]), None
        return (jax.lax.scan(cell, jnp.zeros(32), x)[0] ** 2).sum()
    value_n, grads_n = loss_n(weights_n, data_n()[0])
    show(value_n, *grads_n)


@program
def transformer_of_24_layers_n():
    jax = jax_n()
    jnp = jax.numpy
    weights_n = [[jax.random.normal(jax.random.key(4 * i + j), (32, 32)) * 0.1 for j in range(4)]
                 for i in range(24)]

    @jax.jit
    @jax.value_and_grad
    def loss_n(weights, x):
        for q, k, v, o in weights:
            x = x + jax.nn.softmax((x @ q) @ (x @ k).T) @ (x @ v) @ o
        return (x ** 2).mean()
    value_n, grads_n = loss_n(weights_n, data_n()[0])
    show(value_n, *grads_n[-1])


# ---- others ----

@program
def PyTensor_gradient_n():
    import pytensor
    import pytensor.tensor as pt
    pytensor.config.mode = "FAST_RUN"
    pytensor.config.linker = "cvm"
    x_n, w_n = pt.dmatrix("x"), pt.dvector("w")
    loss_n = pt.sum(pt.tanh(x_n @ w_n) ** 2) + pt.sum(pt.exp(-w_n ** 2))
    f_n = pytensor.function([x_n, w_n], [loss_n, pytensor.grad(loss_n, w_n)])
    show(*f_n(np.arange(12.).reshape(4, 3) / 12, np.arange(3.)))


@program
def CuPy_raw_kernel_n():
    import tempfile
    from cupy.cuda import compiler
    with tempfile.TemporaryDirectory() as scratch_n:
        for kind_n in ("float", "double"):
            code_n = f'extern "C" __global__ void saxpy({kind_n} a, const {kind_n} *x, {kind_n} *y, int n)' \
                     "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }"
            made_n, _ = compiler._NVRTCProgram(code_n, os.path.join(scratch_n, "kernel.cu"),
                                               method="cubin").compile(("-arch=sm_90",))
            seen.update(made_n)


@program
def Triton_softmax_n():
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    @triton.jit
    def softmax_n(x, out, n, BLOCK: tl.constexpr):
        row_n = tl.program_id(0)
        at_n = tl.arange(0, BLOCK)
        v_n = tl.load(x + row_n * n + at_n, at_n < n, other=-float("inf"))
        e_n = tl.exp(v_n - tl.max(v_n, 0))
        tl.store(out + row_n * n + at_n, e_n / tl.sum(e_n, 0), at_n < n)
    for size_n in (256, 1024, 4096):
        made_n = triton.compile(ASTSource(
            softmax_n, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
            {"BLOCK": size_n}), target=GPUTarget("cuda", 90, 32))
        seen.update(str(made_n.metadata.shared).encode())


@program
def tvm_ffi_inline_n():
    import tvm_ffi.cpp
    x_n = np.arange(64, dtype=np.float32)
    tvm_ffi.cpp.load_inline("scaled", functions="scale", cpp_sources="""
        void scale(tvm::ffi::TensorView x, double by) {
            TVM_FFI_ICHECK(x.ndim() == 1);
            auto *p = static_cast<float *>(x.data_ptr());
            for (int64_t i = 0; i < x.size(0); i++) p[i] *= by; }""").scale(tvm_ffi.from_dlpack(x_n), 1.5)
    show(x_n)


# ---- with the packages of jit.txt: compilers of kernels for GPUs, and of operators ----

def cuda_n():
    """Returns the CUDA toolkit of the packages. Adds what a link needs and they do not have."""
    import nvidia
    import subprocess
    home_n = os.path.join(nvidia.__path__[0], "cu13")
    for name_n, to_n in (("lib64", "lib"), ("lib/libcudart.so", "libcudart.so.13")):
        if not os.path.lexists(os.path.join(home_n, name_n)):
            os.symlink(to_n, os.path.join(home_n, name_n))
    stub_n = os.path.join(home_n, "lib", "stubs", "libcuda.so")
    if not os.path.exists(stub_n):
        os.makedirs(os.path.dirname(stub_n), exist_ok=True)
        subprocess.run(["gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-x", "c", "/dev/null", "-o", stub_n], check=True)
    os.environ["CUDA_HOME"] = home_n
    os.environ["PATH"] = f"{home_n}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    return home_n


def show_device_code(*paths):
    """Adds the code for GPUs that objects hold. nvcc's host code has names of temporary files."""
    import subprocess
    for path_n in paths:
        out_n = os.path.join(os.environ["TMPDIR"], "fatbin")
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.nv_fatbin", "--set-section-flags",
                        ".nv_fatbin=alloc,load,contents", path_n, out_n], check=True)
        with open(out_n, "rb") as f:
            data_n = f.read()
        if not data_n:
            raise SystemExit(f"{path_n} has no code for GPUs")
        seen.update(data_n)


def flashinfer_n(module, function, *args):
    """Builds a module of FlashInfer for sm_90a."""
    import importlib
    cuda_n()
    os.environ["FLASHINFER_CUDA_ARCH_LIST"] = "9.0a"
    make_n = getattr(importlib.import_module(f"flashinfer.jit.{module}"), function)
    imports_end()
    built_n = make_n(*args)
    built_n.build(verbose=False)
    show_device_code(built_n.jit_library_path)


@jit_program
def FlashInfer_silu_and_mul_n():
    flashinfer_n("activation", "gen_act_and_mul_module", "silu")


@jit_program
def FlashInfer_quantization_n():
    flashinfer_n("quantization", "gen_quantization_module")


@jit_program
def pyKeOps_gradient_n():
    torch = torch_n()
    from pykeops.torch import LazyTensor
    imports_end()
    x_n, y_n = torch.randn(100, 3, requires_grad=True), torch.randn(80, 3)
    far_n = (LazyTensor(x_n[:, None, :]) - LazyTensor(y_n[None, :, :])).square().sum(-1)
    sums_n = (-far_n).exp().sum(dim=1)
    sums_n.sum().backward()
    show(sums_n, x_n.grad)


@jit_program
def CuTe_DSL_two_sizes_n():
    import cutlass
    from cutlass import cute
    os.environ["CUTE_DSL_ARCH"] = "sm_90a"

    @cute.kernel  # its name is in the cubin, so it stays
    def series(x: cute.Tensor, y: cute.Tensor, a: cutlass.Float32):
        i_n = cute.arch.block_idx()[0] * cute.arch.block_dim()[0] + cute.arch.thread_idx()[0]
        sum_n = y[i_n]
        for power_n in cutlass.range_constexpr(48):
            sum_n += a * cute.math.exp(x[i_n] * power_n) * cute.math.sin(x[i_n] + power_n)
        y[i_n] = sum_n

    @cute.jit
    def launch(x: cute.Tensor, y: cute.Tensor, a: cutlass.Float32):
        series(x, y, a).launch(grid=(64, 1, 1), block=(128, 1, 1))
    imports_end()
    for size_n in (8192, 16384):
        x_n, y_n = (cute.runtime.make_fake_compact_tensor(cutlass.Float32, (size_n,), assumed_align=16)
                    for _ in range(2))
        show_module(cute.compile(launch, x_n, y_n, cutlass.Float32(2.0), options="--gpu-arch sm_90a"))


def show_module(made):
    seen.update(made.ir_module.operation.get_asm(enable_debug_info=False).encode())


@jit_program
def FlashAttention_4_forward_n():
    from unittest import mock
    os.environ.update(FLASH_ATTENTION_ARCH="sm_90", CUTE_DSL_ARCH="sm_90a", FLASH_ATTENTION_NUM_SMS="132")
    torch = torch_n()
    from cutlass import cute
    from torch._subclasses.fake_tensor import FakeTensorMode
    import flash_attn.cute.interface as attention_n
    imports_end()
    compile_n = cute.compile

    class Shown_n:
        def __getitem__(self, options):
            return self

        def __call__(self, *args, **more):
            made_n = compile_n(*args, **more)
            show_module(made_n)
            return made_n
    stream_n = mock.Mock(cuda_stream=0)
    with mock.patch.object(cute, "compile", Shown_n()), FakeTensorMode(), \
            mock.patch("torch.cuda.current_stream", lambda *a: stream_n), \
            mock.patch("torch.cuda.get_device_capability", lambda *a: (9, 0)):
        q_n, k_n, v_n = (torch.empty(1, 256, 4, 64, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        attention_n._flash_attn_fwd(q_n, k_n, v_n, causal=True, return_lse=True)


@jit_program
def cuTile_product_n():
    import io
    torch_n()  # cuTile imports it when it compiles
    import cuda.tile as ct
    from cuda.tile.compilation import (
        ArrayConstraint, CallingConvention, ConstantConstraint, KernelSignature, export_kernel)
    cuda_n()
    imports_end()

    @ct.kernel
    def product_n(a, b, out, T: ct.Constant[int]):
        row_n, column_n = ct.bid(0), ct.bid(1)
        sum_n = ct.full((T, T), 0, dtype=ct.float32)
        for k_n in range(ct.num_tiles(a, axis=1, shape=(T, T))):
            sum_n = ct.mma(ct.load(a, index=(row_n, k_n), shape=(T, T)),
                           ct.load(b, index=(k_n, column_n), shape=(T, T)), sum_n)
        ct.store(out, index=(row_n, column_n), tile=ct.astype(sum_n, ct.float16))
    matrix_n = ArrayConstraint(ct.float16, 2, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=[],
                               may_alias_internally=False, stride_constant=[None, 1], base_addr_divisible_by=16)
    for tile_n in (32, 64):
        out_n = io.BytesIO()
        export_kernel(product_n, [KernelSignature(
            parameters=[matrix_n] * 3 + [ConstantConstraint(tile_n)],
            calling_convention=CallingConvention.cutile_python_v1())], out_n, gpu_code="sm_100", output_format="cubin")
        show_code_n(out_n.getvalue())


def show_code_n(cubin):
    """Adds what a GPU executes of a cubin. Its line table has the path of the kernel's file, its symbols other names."""
    import struct
    at_n, size_n, count_n, names_n = struct.unpack_from("<Q10xHHH", cubin, 0x28)
    heads_n = [struct.unpack_from("<IIQQQQ", cubin, at_n + i * size_n) for i in range(count_n)]
    found_n = [cubin[head[4]:head[4] + head[5]] for head in heads_n
               if cubin[heads_n[names_n][4] + head[0]:].startswith((b".text.", b".nv.constant"))]
    if not found_n:
        raise SystemExit("a cubin without code")
    seen.update(b"".join(found_n))


def warp_n():
    import warp
    warp.config.quiet = True
    warp.init()
    imports_end()
    return warp


@jit_program
def Warp_on_a_CPU_n():
    wp = warp_n()

    @wp.kernel
    def spring_n(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), energy: wp.array(dtype=float)):
        i_n = wp.tid()
        f_n = -x[i_n] * (1.0 + 0.5 * wp.sin(wp.length(x[i_n]))) - 0.1 * v[i_n]
        wp.atomic_add(energy, 0, wp.dot(f_n, f_n) + wp.dot(v[i_n], v[i_n]))
    values_n = np.arange(192, dtype=np.float32).reshape(64, 3) / 192
    x_n, v_n = (wp.array(values_n * by, dtype=wp.vec3, requires_grad=True, device="cpu") for by in (1, 2))
    energy_n = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    with wp.Tape() as tape_n:
        wp.launch(spring_n, 64, inputs=[x_n, v_n, energy_n], device="cpu")
    tape_n.backward(energy_n)
    show(energy_n.numpy(), x_n.grad.numpy(), v_n.grad.numpy())


@jit_program
def Warp_ahead_of_time_n():
    wp = warp_n()

    @wp.kernel
    def rows_n(a: wp.array2d(dtype=float), x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i_n = wp.tid()
        sum_n = float(0.0)
        for j_n in range(a.shape[1]):
            sum_n += a[i_n, j_n] * wp.tanh(x[j_n])
        out[i_n] = sum_n
    folder_n = os.path.join(os.environ["TMPDIR"], "ahead")
    wp.compile_aot_module(sys.modules[__name__], device=None, arch=90, module_dir=folder_n)
    (name_n,) = (name for name in os.listdir(folder_n) if name.endswith(".cubin"))
    with open(os.path.join(folder_n, name_n), "rb") as f:
        show_code_n(f.read())


@jit_program
def CMake_with_CUDA_n():
    import subprocess
    home_n = cuda_n()
    here_n = os.path.dirname(os.path.abspath(__file__))
    texts_n = {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nproject(sums LANGUAGES CXX CUDA)\n"
                          "add_library(sums STATIC sum.cu run.cu name.cpp)\ntarget_include_directories(sums PRIVATE inc)\n",
        "inc/sum.h": "#pragma once\n#include <cuda_fp16.h>\nvoid sum(const float *x, float *out, int n);\n",
        "sum.cu": '#include "sum.h"\n__global__ void add(const float *x, float *out, int n) {\n'
                  "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                  "    if (i < n) atomicAdd(out, __half2float(__float2half(x[i])));\n}\n"
                  "void sum(const float *x, float *out, int n) { add<<<(n + 127) / 128, 128>>>(x, out, n); }\n",
        "run.cu": '#include "sum.h"\n__global__ void zero(float *p) { *p = 0; }\n'
                  "void run(const float *x, float *out, int n) { zero<<<1, 1>>>(out); sum(x, out, n); }\n",
        "name.cpp": "#include <string>\nstd::string name() { return \"sums\"; }\n"}
    for name_n, text_n in texts_n.items():
        path_n = os.path.join(here_n, "project", name_n)
        os.makedirs(os.path.dirname(path_n), exist_ok=True)
        with open(path_n, "w") as f:
            f.write(text_n)
    build_n = os.path.join(os.environ["TMPDIR"], "build")
    imports_end()
    for command_n in (["cmake", "-G", "Ninja", "-S", os.path.join(here_n, "project"), "-B", build_n,
                       "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CUDA_ARCHITECTURES=90",
                       f"-DCMAKE_CUDA_COMPILER={home_n}/bin/nvcc"], ["cmake", "--build", build_n]):
        subprocess.run(command_n, check=True, stdout=sys.stderr)
    show_device_code(*(os.path.join(build_n, f"CMakeFiles/sums.dir/{name}.cu.o") for name in ("run", "sum")))


if __name__ == "__main__":
    name = sys.argv[1]
    PROGRAMS[name]()
    print(json.dumps({"digest": seen.hexdigest(), "seconds": cpu_seconds() - began}))
