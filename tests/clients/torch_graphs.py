# SPDX-License-Identifier: Apache-2.0
"""Which graphs of PyTorch are kept, by what a program adds to torch, and what `warm why` says of the others."""

import os

import kit

# Operators of the program itself. The graphs that Dynamo makes are the same for each FACTOR.
OPERATORS = """if True:
    import hashlib, sys
    import torch
    from torch._inductor import decomposition, lowering
    factor, kind = int(sys.argv[1]), (torch.float32, torch.float64)[int(sys.argv[1]) % 2]
    library = torch.library.Library("mine", "DEF")
    for name in ("composite", "lowered", "decomposed"):
        library.define(f"{name}(Tensor x) -> Tensor")
    library.impl("composite", lambda x: x.sin() * factor, "CompositeImplicitAutograd")
    for name in ("lowered", "decomposed"):
        library.impl(name, lambda x: x + factor, "CPU")
        library.impl(name, torch.empty_like, "Meta")
    lowering.register_lowering(torch.ops.mine.lowered.default)(lambda x: lowering.mul(x, factor))
    decomposition.decompositions[torch.ops.mine.decomposed.default] = lambda x: x.cos() * factor

    @torch.library.custom_op("mine::derived", mutates_args=())
    def derived(x: torch.Tensor) -> torch.Tensor:
        return x * 2
    derived.register_fake(torch.empty_like)
    derived.register_autograd(lambda ctx, gradient: gradient * factor)

    @torch.library.custom_op("mine::typed", mutates_args=())
    def typed(x: torch.Tensor) -> torch.Tensor:
        return x.to(kind) / 3
    typed.register_fake(lambda x: torch.empty_like(x, dtype=kind))

    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made
        def __tensor_flatten__(self):
            return ["inner"], None
        @staticmethod
        def __tensor_unflatten__(inner, *_):
            return Wrapped(inner["inner"])
        @classmethod
        def __torch_dispatch__(cls, function, types, args, kwargs=None):
            return Wrapped(function(*(getattr(a, "inner", a) for a in args), **(kwargs or {})) * factor)

    def called(x):
        return [torch.ops.mine.composite(x * 2), torch.ops.mine.lowered(x) - 1, torch.ops.mine.decomposed(x) - 1,
                torch.ops.mine.typed(x).double() * 5]
    x, y = torch.arange(8.), torch.arange(8., requires_grad=True)
    results = torch.compile(called)(x) + [torch.compile(lambda x: torch.ops.mine.composite(x * 3))(x)]
    results += [torch.compile(lambda x: torch.ops.mine.typed(x + 1).double() * 5)(x)]
    torch.compile(lambda x: torch.ops.mine.derived(x.sin()).sum())(y).backward()
    results += [torch.compile(lambda x: x.sin() + 1)(Wrapped(x)).inner, y.grad]
    print(hashlib.sha256(b"".join(r.numpy().tobytes() for r in results)).hexdigest())
"""


# What a program adds to torch itself, and settings: after each, the same graph gives 3 cos(x) + 1.
ADDITIONS = """if True:
    import sys
    import torch
    import torch._inductor.pattern_matcher as patterns
    from torch._inductor import compile_fx, lowering
    from torch._inductor.fx_passes import joint_graph, post_grad
    added, aten = sys.argv[1], torch.ops.aten
    x = torch.arange(8.) / 8
    plain, changed = x.tan() + 1, x.cos() * 3 + 1

    def kernel(x):
        with torch._C._AutoDispatchBelowAutograd():
            return aten.cos(x) * 3

    def inner(gm, *arguments, **options):
        for node in gm.graph.nodes:
            if node.target == aten.tan.default:
                node.target = aten.cos.default
            if node.target == aten.add.Tensor:
                node.args = (gm.graph.create_node("call_function", aten.mul.Tensor, (node.args[0], 3)), 1)
                node.prepend(node.args[0])
        gm.recompile()
        return compile_fx.compile_fx_inner(gm, *arguments, **options)

    backend = "inductor"
    if added == "kernel":
        library = torch.library.Library("aten", "IMPL")
        library.impl("tan", kernel, "AutogradCPU")
    elif added == "py_impl":
        aten.tan.default.py_impl(torch._C.DispatchKey.AutogradCPU)(kernel)
    elif added == "lowering":
        lowering.lowerings[aten.tan.default] = lambda x: lowering.mul(lowering.lowerings[aten.cos.default](x), 3)
    elif added == "pattern":
        @patterns.register_graph_pattern(patterns.CallFunction(aten.tan.default, patterns.KeywordArg("x")),
                                         pass_dict=post_grad.pass_patterns[1])
        def replace(match, x):
            match.replace_by_example(lambda x: aten.cos(x) * 3, [x])
    elif added == "replacement":
        patterns.register_replacement(lambda x: torch.tan(x) + 1, lambda x: torch.cos(x) * 3 + 1, [x],
                                      patterns.fwd_only, joint_graph.patterns)
    elif added == "decomposition":
        table = {**compile_fx.select_decomp_table(), aten.tan.default: lambda x: aten.cos(x) * 3}
        backend = lambda gm, inputs: compile_fx.compile_fx(gm, inputs, decompositions=table)
    elif added == "compiler":
        backend = lambda gm, inputs: compile_fx.compile_fx(gm, inputs, inner_compile=inner)
    found = torch.compile(lambda x: torch.tan(x) + 1, backend=backend)(x)
    print(torch.allclose(found, changed), torch.allclose(found, plain))
"""
VECTORS = """if True:
    import hashlib
    import torch
    found = torch.compile(lambda x: (x.sin() * x.exp()).sum(-1))(torch.arange(64 * 67.).view(64, 67) / 4288)
    print(hashlib.sha256(found.numpy().tobytes()).hexdigest())
"""
ATTENTION = """if True:
    import hashlib, sys
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    torch.manual_seed(0)
    x = torch.randn(1, 2, 16, 8)
    with sdpa_kernel(getattr(SDPBackend, sys.argv[1])):
        found = torch.compile(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x) + 1)(x)
    print(hashlib.sha256(found.numpy().tobytes()).hexdigest())
"""


class Operators(kit.TestCase):
    def run_alone(self, daemon, *argv, **more):
        with kit.Folder() as folder:
            return daemon.run(*argv, OMP_NUM_THREADS="1", TORCHINDUCTOR_CACHE_DIR=folder, **more).stdout.strip()

    def test_what_a_program_adds_to_torch_counts(self):
        with kit.Daemon() as daemon:
            self.assertEqual(self.run_alone(daemon, ADDITIONS, "nothing"), "False True")
            for added in ("kernel", "py_impl", "lowering", "pattern", "replacement", "decomposition", "compiler"):
                with self.subTest(added):
                    self.assertEqual(self.run_alone(daemon, ADDITIONS, added), "True False")
            self.assertIn("its own inner_compile", daemon.warm("why", "--last"))
            self.assertEqual(self.run_alone(daemon, ADDITIONS, "nothing"), "False True")

    def test_vector_instructions_count(self):
        """Code for other vector instructions does not compile, or writes beyond its tensors."""
        scalar = {"ATEN_CPU_CAPABILITY": "default"}
        with kit.Daemon() as daemon:
            self.run_alone(daemon, VECTORS)
            found = self.run_alone(daemon, VECTORS, **scalar)
            self.assertEqual(found, self.run_alone(daemon, VECTORS, warm=False, **scalar))
            self.assertEqual(found, self.run_alone(daemon, VECTORS, **scalar))

    def test_the_kernels_that_attention_may_use_count(self):
        with kit.Daemon() as daemon:
            found = {name: self.run_alone(daemon, ATTENTION, name) for name in ("FLASH_ATTENTION", "MATH")}
            self.assertEqual(found["MATH"], self.run_alone(daemon, ATTENTION, "MATH", warm=False))
            hits = daemon.stats("hits")
            self.assertEqual(found["MATH"], self.run_alone(daemon, ATTENTION, "MATH"))
            self.assertGreater(daemon.stats("hits"), hits)

    def test_operators_of_the_program_count_by_what_they_do(self):
        with kit.Daemon() as daemon:
            def run(factor, folder, **more):
                return daemon.run(OPERATORS, factor, OMP_NUM_THREADS="1",
                                  TORCHINDUCTOR_CACHE_DIR=os.path.join(daemon.folder, folder), **more).stdout
            run("2", "first")
            found = run("3", "second")
            self.assertEqual(found, run("3", "third", warm=False))
            hits = daemon.stats("hits")
            self.assertEqual(found, run("3", "fourth"))
            self.assertGreater(daemon.stats("hits"), hits)


class Why(kit.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(kit.Daemon())

    def test_why_names_the_reason_why_torch_keeps_a_graph_from_its_caches(self):
        program = """if True:
            import torch
            torch._inductor.config.post_grad_custom_post_pass = lambda graph: None
            print(torch.compile(lambda x: x.view(-1))(torch.zeros(2, 2)).shape)
        """
        with kit.Folder() as folder:
            settings = dict(TORCHINDUCTOR_CACHE_DIR=folder, TORCHINDUCTOR_VEC_ISA_OK="1")
            plain, ours = self.daemon.run_both(program, **settings)
            self.assertEqual((ours.stdout, ours.stderr), (plain.stdout, plain.stderr))
            why = self.daemon.warm("why", "--last")
        self.assertIn("a graph of TorchInductor", why)
        self.assertIn("custom", why)

    def test_why_names_a_difference_that_only_the_key_of_autograd_has(self):
        """Only that key has the name of a parameter. The graphs behind it are in the cache."""
        model = """if True:
            import torch
            class Model(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first = torch.nn.Linear(4, 4)
                def forward(self, x):
                    return self.first(x).relu()
            torch.compile(Model())(torch.ones(2, 4)).sum().backward()
        """
        why = self.second_of(model, model.replace("first", "other"))
        self.assertIn("(backward)", why)
        self.assertRegex(why, "option aot_config: .*first.* → .*other")
        self.assertNotIn("(fx-graph)", why)

    def test_why_names_an_input_that_lies_in_other_order(self):
        program = """if True:
            import torch
            torch.compile(lambda x: x.sin())(torch.ones(3, 4).t())
        """
        why = self.second_of(program, program.replace("3, 4).t()", "4, 3)"))
        self.assertIn("(fx-graph)", why)
        self.assertEqual(why.count("differs from"), 2, "both keys")
        self.assertNotIn("cold", why)

    def test_why_names_an_option_that_is_no_plain_value(self):
        program = """if True:
            import torch
            torch._inductor.config.aot_inductor.metadata = {"made": "here"}
            torch.compile(lambda x: x.cos())(torch.ones(3, 4))
        """
        why = self.second_of(program, program.replace('"here"', '"there"'))
        self.assertRegex(why, "option .*aot_inductor.metadata.*: .*here.* → .*there")
        self.assertNotIn("cold", why)

    def test_why_names_the_sizes_that_a_kept_graph_is_for(self):
        program = """if True:
            import torch
            def f(x):
                if x.shape[0] > 10:
                    pass
                return x.sin()
            torch.compile(f, dynamic=True)(torch.ones(20, 3))
        """
        why = self.second_of(program, program.replace("20, 3", "5, 3"))
        self.assertIn("a graph of AOTAutograd", why)
        self.assertRegex(why, "the stored graph is only for 11 <=")

    def second_of(self, *programs):
        """Returns what `why` says of the second of two programs, which run in folders of their own."""
        for program in programs:
            with kit.Folder() as folder:
                ended = self.daemon.run(program, TORCHINDUCTOR_CACHE_DIR=folder, TORCHINDUCTOR_VEC_ISA_OK="1")
                self.assertEqual(ended.stderr, "")
        return self.daemon.warm("why", "--last")


if __name__ == "__main__":
    kit.main()
