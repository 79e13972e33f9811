# SPDX-License-Identifier: Apache-2.0
"""Kernels that Triton's own key does not tell apart, and settings with which nothing may be kept. Each pair of kernels
runs in both orders, in fresh processes with fresh folders: what a process gets is what it gets without warm.
"""

import json
import os
import sys
import unittest

import kit

PROGRAM = """if True:
    import hashlib, importlib.util, json, os, sys
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    def digests(path):
        spec = importlib.util.spec_from_file_location("kernels", path)
        m = sys.modules["kernels"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(m)
        names = m.k.arg_names
        signature = {n: "*fp32" if n == "p" else "constexpr" for n in names}
        constants = {(names.index(n),): v for n, v in dict(n=128, **getattr(m, "C", {})).items() if n in names}
        source = getattr(m, "SOURCE", ASTSource)(m.k, signature, constants)
        made = triton.compile(source, target=getattr(m, "TARGET", GPUTarget("cuda", 90, 32)), options=getattr(m, "OPTIONS", None))
        return {name: hashlib.sha256(data if isinstance(data, bytes) else str(data).encode()).hexdigest()
                for name, data in made.asm.items()}

    print(json.dumps([digests(path) for path in sys.argv[1:]]))
"""
HEAD = "import triton, triton.language as tl\n"
BODY = """
@triton.jit
def k(p, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(p + i, {})
"""


def kernel(value, before=""):
    return HEAD + before + BODY.format(value)


X = "tl.load(p + i)"
ADMIT = {"TRITON_ALLOW_NON_CONSTEXPR_GLOBALS": "1"}
EXTERN = """from triton.language import core
def my(x, _semantic=None):
    f32 = core.dtype("fp32")
    return core.extern_elementwise("libdevice", "", [x], {(f32,): ("<__nv_sinf|__nv_cosf>", f32)}, True, _semantic=_semantic)
"""
GLUON = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource as SOURCE
L = gl.constexpr(LAYOUT)
@gluon.jit
def k(p, n: gl.constexpr):
    i = gl.arange(0, n, layout=L)
    gl.store(p + i, gl.load(p + i) * 2)
"""
PRINTS = kernel(X).replace("    i =", "    tl.static_print('compiled')\n    i =")
# What is read, with its two values in < | >.
PAIRS = {
    "a dtype": kernel(X + ".to(DT)", "DT = tl.<float16|bfloat16>"),
    "the dtype of an annotation": kernel(X + ".to(DT)", "DT = tl.<float16|bfloat16>").replace("    i =", "    a: DT = 1\n    i ="),
    "another name of a function": kernel(f"F({X})", "F = tl.<exp|sin>"),
    "an attribute of a module": kernel(X + " * M.S", "import types\nM = types.ModuleType('M'); M.S = <2.0|3.0>"),
    "an attribute of Triton's module": kernel(X + " * tl.S", "tl.S = <2.0|3.0>"),
    "the default of a helper": kernel(f"h({X})", """G = tl.constexpr(<2|3>)
@triton.jit
def h(x, s: tl.constexpr = G): return x * s"""),
    "what a helper's helper reads": kernel(f"h({X})", """DT = tl.<float16|bfloat16>
@triton.jit
def g(x): return x.to(DT)
@triton.jit
def h(x): return g(x)"""),
    "the closure of a constexpr function": kernel(X + " * f(n)", """
def make(t):
    @triton.constexpr_function
    def f(n): return t * n
    return f
f = make(<2|3>)"""),
    "what a constexpr function reads of its surroundings": kernel(X + " * f(n)", """import os
os.environ["S"] = "<2|3>"
@triton.constexpr_function
def f(n): return int(os.environ["S"])"""),
    "a constant's type": kernel(X + " * (2 if f == 'True' else 3)").replace("constexpr):", "constexpr, f: tl.constexpr):")
                         + "C = {'f': <True|'True'>}\n",
    "a builtin of the program": kernel(f"my({X})", EXTERN + "my = core.extern(my)"),
    "a builtin of the program, by a helper": kernel(f"h({X})", EXTERN + """my = core.extern(my)
@triton.jit
def h(x): return my(x)"""),
    "a method of an object as a builtin": kernel(f"my({X})", """from triton.language import core
class Q:
    def __init__(self, v): self.v = v
    def f(self, x, _semantic=None): return x.__add__(self.v, _semantic=_semantic)
my = core.builtin(Q(<2|3>).f)"""),
    "an attribute of a module of Python": kernel(X + " * f(n)", """import math
math.mine = <2|3>
@triton.constexpr_function
def f(n): return math.mine"""),
    "an attribute of Triton's module, by a constexpr function": kernel(X + " * f(n)", """
triton.mine = <2|3>
@triton.constexpr_function
def f(n): return triton.mine"""),
    "the name that the program gives": kernel(X).replace("@triton.jit", "@triton.jit(repr=lambda s: '<one|two>')"),
    "an attribute of a function": kernel(f"h({X}) * h.s", """
@triton.jit
def h(x): return x + 1
h.s = tl.constexpr(<2|3>)"""),
    "an attribute of a constexpr function": kernel(X + " * f(n)", """
@triton.constexpr_function
def f(n): return n * f.s
f.s = <2|3>"""),
    "an attribute by its text": kernel(X + " * getattr(M, 'S')", "import types\nM = types.ModuleType('M'); M.S = <2.0|3.0>"),
    "an attribute by a text that is computed": kernel(X + " * f(n)", """import operator, types
M = types.ModuleType('M'); M.S = <2.0|3.0>
@triton.constexpr_function
def f(n): return operator.attrgetter("".join(["S"]))(M)"""),
    "a layout of Gluon": GLUON.replace("LAYOUT", "gl.BlockedLayout([<1|2>], [32], [4], [0])"),
}  # fmt: skip
# With one of these, nothing of the process is kept.
REPLACED = {
    "a function of Triton that was replaced": kernel(f"tl.softmax({X})", """
@triton.jit
def mine(x): return x * <2|3>
tl.softmax = mine"""),
    "a method that a program gave tensors": kernel(f"{X}.mine()", EXTERN + "core.tensor.mine = core.extern(my)"),
    "a function that a program put into Triton": kernel(f"tl.mine({X})", EXTERN + "tl.mine = core.extern(my)"),
    "an attribute that a program gave tensors": kernel(f"{X} * i.mine", "tl.tensor.mine = tl.constexpr(<2|3>)"),
    "a stage that was replaced": kernel(X + " * 2", """from triton.backends.nvidia.compiler import CUDABackend as B
real = B.make_ttir
def make_ttir(*arguments):
    module = real(*arguments)
    if <False|True>: module.set_attr("my.attribute", triton._C.libtriton.ir.builder(module.context).get_unit_attr())
    return module
B.make_ttir = staticmethod(make_ttir)"""),
}  # fmt: skip
ADMITTED = {
    "a number": kernel(X + " * S", "S = <2.0|3.0>"),
    "a number that a local hides later": kernel("y", "S = <2.0|3.0>").replace("    tl.st", f"    y = {X} * S\n    S = 4.0\n    tl.st"),
    "what a function of Python reads": kernel(X + " * f(n)", """TABLE = {128: <2|3>}
@triton.constexpr_function
def f(n): return TABLE[n]"""),
}  # fmt: skip
SWAPPED = {
    "a function of Triton in the place of another": kernel(f"tl.exp({X})", "<# as it is|tl.exp = tl.sin>"),
    "a method of a class in C++": kernel(f"{X} * {X}", """from triton._C.libtriton import ir
<# as it is|ir.builder.create_fmul = ir.builder.create_fadd>"""),
}
SWAPPED_LATE = {  # in a module that Triton loads when it first compiles
    "a method of a class in the place of another": kernel(f"{X} * {X}", """from triton.language.semantic import TritonSemantic
<# as it is|TritonSemantic.mul = TritonSemantic.add>"""),
}
PATCH = """
real = {0}.parse
def parse(*of):
    tree = real(*of)
    for node in __import__("ast").walk(tree):
        if getattr(node, "value", 0) == 77: node.value = <2|3>
    return tree
"""
MINE = """from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
class Mine(CUDABackend):
    @staticmethod
    def supports_target(target): return target.backend == "mine"
    def make_ptx(self, *arguments): return super().make_ptx(*arguments) + "\\n// <one|two>"
backends["mine"] = type(backends["nvidia"])(Mine, backends["nvidia"].driver)
TARGET = GPUTarget("mine", 90, 32)"""
TEXT = """
@triton.jit
def h(x): return x * 77
"""
# Triton makes the key of a function once, and what the function is changes behind it; classes of the program say nothing.
STALE = {
    "a global that is another function": kernel(f"h({X})", """
@triton.jit
def h(x): return x + 1
@triton.jit
def g(x): return x + 2""") + "k.cache_key\n<# as it is|h = g>\n",
    "a source": kernel(X + " * 77") + "k.cache_key\nk._src = k._src.replace('77', '<2|3>')\n",
    "a helper's source": kernel(f"h({X})", TEXT) + "k.cache_key\nh._src = h._src.replace('77', '<2|3>')\n",
    "a method of a function": kernel(X + " * 77") + PATCH.format("k") + "k.parse = parse\n",
    "a method of a helper": kernel(f"h({X})", TEXT) + PATCH.format("h") + "h.parse = parse\n",
    "a class of functions": kernel(X + " * 77").replace("@triton.jit\n", "") + PATCH.format("triton.JITFunction")
                            + "k = type('Mine', (triton.JITFunction,), {'parse': parse})(k)\n",
    "a class of sources": kernel(X) + BODY.replace("k(", "k2(").format(X + " * <2|3>")
                          + "class SOURCE(triton.compiler.ASTSource):\n    def make_ir(self, *arguments):\n"
                            "        self.fn = k2\n        return super().make_ir(*arguments)\n",
    "a backend of the program": kernel(X, MINE),
    "a library that changes behind its digest": kernel(f"my({X})", """import os
from triton.language import core
LIBRARY = os.path.splitext(__file__)[0] + ".ll"
def write(by):
    with open(LIBRARY, "w") as f: f.write(f"define float @f(float %x) {{ %y = fadd float %x, {by} ret float %y }}")
write("1.0")
__import__("triton.backends.nvidia.compiler").backends.nvidia.compiler.file_hash(LIBRARY)
write("<1.0|2.0>")
OPTIONS = {"extern_libs": {"x": LIBRARY}}
@core.extern
def my(x, _semantic=None):
    f32 = core.dtype("fp32")
    return core.extern_elementwise("x", "", [x], {(f32,): ("f", f32)}, True, _semantic=_semantic)"""),
}  # fmt: skip
PATCHED = {
    "the source of a function of Triton": kernel(X + " * tl.cdiv(i, 7)",
                                                "tl.cdiv._unsafe_update_src(tl.cdiv._src.replace('- 1', '- <1|3>'))"),
}  # fmt: skip
LINES = {
    "a comment": kernel(X, "# <|one\n# more>"),
    "joined lines": kernel(X + " * 3", "").replace("    tl.store", "    x = 1<\n    |; >tl.store"),
    "another place in the line": kernel(X, "").replace("i = tl", "i = <|   >tl"),
    "more decorators": kernel(X, "def same(f): return f").replace("jit\n", "jit\n<|@same\n>"),
    "another column": HEAD + "if True:\n" + "".join(f"<  |    >{line}\n" for line in BODY.format(X).strip().split("\n")),
}


def sides(text):
    """Returns the two variants of a text."""
    out = ["", ""]
    while text:
        head, _, rest = text.partition("<")
        pair, _, text = rest.partition(">")
        for i in (0, 1):
            out[i] += head + (pair.split("|")[i] if pair else "")
    return out


class Keys(kit.TestCase):
    def run_in(self, daemon, folder, texts, warm=True, **settings):
        """Compiles kernels, each in a file that has always the same name and time."""
        paths = []
        for i, text in enumerate(texts):
            paths.append(os.path.join(folder, f"k{i}.py"))
            with open(paths[-1], "w") as f:
                f.write(text)
            os.utime(paths[-1], (10**9, 10**9))
        with kit.Folder() as cache:
            return kit.result(daemon.run(PROGRAM, *paths, warm=warm, TRITON_CACHE_DIR=cache,
                                         PYTHONDONTWRITEBYTECODE="1", **settings))

    def check(self, pairs, **settings):
        variants = [[sides(text)[i] for text in pairs.values()] for i in (0, 1)]
        with kit.Daemon() as daemon, kit.Folder() as folder:
            plain = [self.run_in(daemon, folder, texts, warm=False, **settings) for texts in variants]
            for name, *two in zip(pairs, *plain):
                self.assertNotEqual(*two, name)
            for order in ((0, 1), (1, 0)):
                daemon.warm("clear", "--yes")
                for i in order:
                    seen = self.run_in(daemon, folder, variants[i], **settings)
                    for name, one, expected in zip(pairs, seen, plain[i]):
                        with self.subTest(name, order=order):
                            self.assertEqual(one, expected)

    def test_what_a_kernel_reads_beside_its_source_counts(self):
        self.check(PAIRS)
        self.check(REPLACED)

    def test_a_builtin_of_the_program_and_a_layout_of_gluon_are_hits(self):
        texts = [sides(PAIRS[name])[0] for name in ("a builtin of the program", "a layout of Gluon")]
        with kit.Daemon() as daemon, kit.Folder() as folder:
            first = self.run_in(daemon, folder, texts)
            hits = daemon.stats("hits")
            self.assertEqual(self.run_in(daemon, folder, texts), first)
            self.assertGreaterEqual(daemon.stats("hits") - hits, 2)

    def test_a_kernel_that_prints_while_it_is_compiled_prints_each_time(self):
        with kit.Daemon() as daemon, kit.Folder() as folder:
            path = os.path.join(folder, "k.py")
            with open(path, "w") as f:
                f.write(PRINTS)
            for _ in range(2):
                with kit.Folder() as cache:
                    made = daemon.run(PROGRAM, path, TRITON_CACHE_DIR=cache)
                    self.assertIn("compiled", made.stdout)

    def test_functions_of_triton_in_the_place_of_others_count(self):
        self.check(SWAPPED)
        self.check(SWAPPED_LATE)

    def test_what_changes_behind_tritons_key_or_says_nothing_in_it_is_not_kept(self):
        self.check(STALE)
        self.check(PATCHED)

    def test_globals_that_a_setting_admits_count(self):
        self.check(ADMITTED, **ADMIT)

    def test_the_line_table_of_an_edited_kernel_is_its_own(self):
        self.check(LINES)

    def test_a_kernel_that_reads_nothing_special_is_a_hit(self):
        text = kernel(X + " * S + h(1)", """S = tl.constexpr(2)
@triton.jit
def h(x): return x + 1""")
        with kit.Daemon() as daemon, kit.Folder() as folder:
            cold = self.run_in(daemon, folder, [text])
            hits = daemon.stats("hits")
            self.assertEqual(self.run_in(daemon, folder, [text]), cold)
            self.assertGreater(daemon.stats("hits"), hits)
            names = [row["name"] for row in json.loads(daemon.warm("ls", "--kind", "triton", "--json"))]
            self.assertRegex(" ".join(names), r"^triton:2:[A-Z0-9]+:k\.json$")


class Off(kit.TestCase):
    TEXT = kernel(X + " * 2")

    def entries(self, daemon):
        rows = json.loads(daemon.warm("ls", "--json"))
        return [row["name"] for row in rows if (row["name"] or "").startswith(("triton:", "triton-stages:"))]

    def check(self, expected, text=TEXT, **settings):
        """Checks that with these settings nothing is kept, and nothing of another run is taken."""
        with kit.Daemon() as daemon, kit.Folder() as folder:
            keys = Keys()
            made = keys.run_in(daemon, folder, [text], WARM_SESSION="off", **settings)
            self.assertEqual(self.entries(daemon), [])
            self.assertIn(expected, daemon.warm("why", "--session", "off"))
            keys.run_in(daemon, folder, [self.TEXT])
            hits = daemon.stats("kinds")["triton"]["hits"]
            self.assertEqual(keys.run_in(daemon, folder, [text], **settings), made)
            self.assertEqual(daemon.stats("kinds")["triton"]["hits"], hits)

    def test_an_edited_kernel_is_never_kept(self):
        with kit.Folder() as folder, kit.Daemon() as daemon:
            keys = Keys()
            dump = os.path.join(folder, "dump")
            os.mkdir(os.path.join(folder, "src"))
            keys.run_in(daemon, os.path.join(folder, "src"), [self.TEXT], warm=False, TRITON_KERNEL_DUMP="1", TRITON_DUMP_DIR=dump)
            for root, _, files in os.walk(dump):
                for name in files:
                    path = os.path.join(root, name)
                    if not name.endswith(".ttir"):
                        os.unlink(path)
                        continue
                    with open(path) as f:
                        text = f.read()
                    self.assertIn("2.000000e+00", text)
                    with open(path, "w") as f:
                        f.write(text.replace("2.000000e+00", "9.900000e+01"))
            over = {"TRITON_KERNEL_OVERRIDE": "1", "TRITON_OVERRIDE_DIR": dump}
            src = os.path.join(folder, "src")

            def run(warm, **settings):
                with kit.Folder() as cache:
                    ran = daemon.run(PROGRAM, os.path.join(src, "k0.py"), warm=warm, TRITON_CACHE_DIR=cache, **settings)
                    return kit.result(ran)

            plain, edited = run(False), run(False, **over)
            self.assertNotEqual(plain, edited)
            for order in ((over, {}), ({}, over)):
                daemon.warm("clear", "--yes")
                for settings in order:
                    self.assertEqual(run(True, **settings), edited if settings else plain)

    def test_always_compile_neither_gets_nor_puts(self):
        self.check("triton.knobs.compilation.always_compile", TRITON_ALWAYS_COMPILE="1")

    def test_while_triton_dumps_nothing_is_kept_or_taken(self):
        for setting in ("TRITON_KERNEL_DUMP", "MLIR_ENABLE_DUMP", "NVPTX_ENABLE_DUMP", "LLVM_IR_ENABLE_DUMP"):
            with self.subTest(setting), kit.Folder() as folder:
                self.check("not kept: ", TRITON_DUMP_DIR=folder, **{setting: "1"})
                dumped = [name for _, _, files in os.walk(folder) for name in files]
                self.assertEqual("k.ttir" in dumped, setting == "TRITON_KERNEL_DUMP")

    def test_a_hook_for_the_stages_keeps_kernels_out(self):
        hook = """from triton import knobs
knobs.runtime.add_stages_inspection_hook = lambda *arguments: None if arguments else ("", "")
"""
        self.check("add_stages_inspection_hook", hook + self.TEXT)


if __name__ == "__main__":
    unittest.main()
