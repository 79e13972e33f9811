# SPDX-License-Identifier: Apache-2.0
"""Unmodified JAX programs with their compilation cache in the daemon: which of them hit or miss, and
what happens when something is wrong. JAX's own events count the hits and misses.

Some changes leave a program the same, but miss with JAX's own keys. With ours they hit:
  in the program   a function's name, a lambda, keys of arguments and of results, a namedtuple or tuple
                   as result, the name of an inner jit (SAME)
  flags            one at its default, of another backend, two kinds of dump (SURROUNDINGS_SAME);
                   an argument of the program that begins with --xla (the first test)
  options          the cache's folder, a link to it, XLA's caches off, terse logs (SURROUNDINGS_SAME);
                   compiler options at their defaults (SAME)
  devices          more of them than the program uses (SURROUNDINGS_SAME)
Other programs miss: another factor or batch, donation, another constant that is closed over, a callback
(OTHER). So does the same mathematics in another form: another order of statements or of a product's
operands, a jit of a jit, + 0.0, * 1.0 (WRITTEN)."""

import concurrent.futures
import json
import os
import unittest

import kit

# Prints a result's digest and JAX's own counts. Sizes are small, because only the found entry matters.
PROGRAM = '''
import hashlib, json, os, sys
import numpy as np
import jax, jax.numpy as jnp
import jax.monitoring
counts = {}
def count(name, **_):
    name = name.rsplit("/", 1)[-1]
    counts[name] = counts.get(name, 0) + 1
jax.monitoring.register_event_listener(count)

params = {"w0": np.full((8, 8), .1, "f"), "w1": np.full((8, 8), .2, "f")}
x, y = np.ones((4, 8), "f"), np.zeros((4, 8), "f")

def loss(params, x, y):
    h = jax.nn.relu(x @ params["w0"] + 1)
    return jnp.mean((h @ params["w1"] - y) ** 2)

def step(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return value, jax.tree.map(lambda p, g: p - .03 * g, params, grads)

def report(result):
    data = b"".join(np.asarray(v).tobytes() for v in jax.tree.leaves(result))
    print(json.dumps({"digest": hashlib.sha256(data).hexdigest(),
                      "hits": counts.get("cache_hits", 0),
                      "misses": counts.get("cache_misses", 0)}))
'''
STEP = PROGRAM + "report(jax.jit(step)(params, x, y))\n"

# The same program with other names, another file and other lines.
RENAMED = '''
# another file
''' + (STEP.replace("params", "weights").replace("loss", "objective").replace("step", "train")
       .replace('"w0"', '"layer_0"').replace('"w1"', '"layer_1"'))

# Each variant runs with a cache that has only the bases, and stores nothing. Those of SAME must hit.
VARIANTS = PROGRAM + '''
def base(params, x, y):
    h = jax.nn.relu(x @ params["w0"] + 1)
    return jnp.sum((h @ params["w1"] - y) ** 2) * .03

def renamed_function(params, x, y):
    h = jax.nn.relu(x @ params["w0"] + 1)
    return jnp.sum((h @ params["w1"] - y) ** 2) * .03

def renamed_arguments(p, a, b):
    hidden = jax.nn.relu(a @ p["w0"] + 1)
    return jnp.sum((hidden @ p["w1"] - b) ** 2) * .03

def swapped_product(params, x, y):
    h = jax.nn.relu(x @ params["w0"] + 1)
    return .03 * jnp.sum((h @ params["w1"] - y) ** 2)

def inner_jit(params, x, y):
    @jax.jit
    def layer(x):
        return jax.nn.relu(x @ params["w0"] + 1)
    return jnp.sum((layer(x) @ params["w1"] - y) ** 2) * .03

def inner_jit_renamed(params, x, y):
    @jax.jit
    def dense(x):
        return jax.nn.relu(x @ params["w0"] + 1)
    return jnp.sum((dense(x) @ params["w1"] - y) ** 2) * .03

def scoped(params, x, y):
    with jax.named_scope("mine"):
        return base(params, x, y)

def dead_code(params, x, y):
    jnp.sin(x)
    return base(params, x, y)

def two_base(params, x, y):
    a = jnp.sin(x) @ params["w0"]
    b = jnp.cos(y) @ params["w1"]
    return a - b

def two_swapped(params, x, y):
    b = jnp.cos(y) @ params["w1"]
    a = jnp.sin(x) @ params["w0"]
    return a - b

def tree_base(params, x, y):
    return {"a": x @ params["w0"], "b": x @ params["w1"]}

def tree_keys(params, x, y):
    return {"first": x @ params["w0"], "second": x @ params["w1"]}

def tree_tuple(params, x, y):
    return x @ params["w0"], x @ params["w1"]

import collections
Pair = collections.namedtuple("Pair", "a b")
def tree_named(params, x, y):
    return Pair(x @ params["w0"], x @ params["w1"])

# Truly other programs.
def other_factor(params, x, y):
    h = jax.nn.relu(x @ params["w0"] + 1)
    return jnp.sum((h @ params["w1"] - y) ** 2) * .02

def other_constant(params, x, y):
    return base(params, x, y + np.arange(8, dtype="f"))

def other_constant_2(params, x, y):
    return base(params, x, y + np.arange(1, 9, dtype="f"))

def printing(params, x, y):
    jax.debug.print("{}", x[0, 0])
    return base(params, x, y)

# Programs that XLA's algebra makes equal, but keys do not.
def plus_zero(params, x, y):
    return base(params, x, y) + 0.0

def times_one(params, x, y):
    return base(params, x, y) * 1.0

jit = jax.jit
keyed = {"k_" + k: v for k, v in params.items()}
def base_keyed(params, x, y):
    return base({k[2:]: v for k, v in params.items()}, x, y)

BASES = [(jit(base), params, x, y), (jit(two_base), params, x, y), (jit(tree_base), params, x, y),
         (jit(other_constant), params, x, y), (jit(inner_jit), params, x, y)]
SAME = dict(
    function=(jit(renamed_function), params, x, y),
    arguments=(jit(renamed_arguments), params, x, y),
    function_of_no_name=(jit(lambda p, x, y: base(p, x, y)), params, x, y),
    name_of_an_inner_jit=(jit(inner_jit_renamed), params, x, y),
    named_scope=(jit(scoped), params, x, y),
    dead_code=(jit(dead_code), params, x, y),
    keys_of_the_result=(jit(tree_keys), params, x, y),
    tuple_as_result=(jit(tree_tuple), params, x, y),
    namedtuple_as_result=(jit(tree_named), params, x, y),
    keys_of_arguments=(jit(base_keyed), keyed, x, y),
)
OTHER = dict(
    factor=(jit(other_factor), params, x, y),
    batch=(jit(base), params, np.ones((5, 8), "f"), np.zeros((5, 8), "f")),
    donation=(jit(two_base, donate_argnums=1), params, x, y),
    closure_constant=(jit(other_constant_2), params, x, y),
    callback=(jit(printing), params, x, y),
)
if jax.__version_info__ >= (0, 4, 38):
    def with_options(fast):
        return jit(base, compiler_options={"xla_cpu_enable_fast_math": fast}), params, x, y
    SAME["options_that_are_defaults"], OTHER["options"] = with_options(False), with_options(True)
WRITTEN = dict(
    operands_of_a_product=(jit(swapped_product), params, x, y),
    jit_of_jit=(jit(jit(base)), params, x, y),
    order_of_statements=(jit(two_swapped), params, x, y),
    plus_zero=(jit(plus_zero), params, x, y),
    times_one=(jit(times_one), params, x, y),
)

def run(f, *arguments):
    """Returns True if it was a hit."""
    counts.clear()
    jax.block_until_ready(f(*arguments))
    jax.effects_barrier()
    return counts.get("cache_hits", 0) == counts.get("compile_requests_use_cache", 0)

if sys.argv[1] == "fill":
    for f, *arguments in BASES:
        run(f, *arguments)
else:
    print(json.dumps({kind: {name: run(*call) for name, call in calls.items()}
                      for kind, calls in (("same", SAME), ("other", OTHER), ("written", WRITTEN))}))
'''

# Settings with which XLA makes the same code: they must hit.
SURROUNDINGS_SAME = {
    "a flag that has its default": dict(XLA_FLAGS="--xla_cpu_enable_fast_math=false"),
    "a flag of another backend": dict(XLA_FLAGS="--xla_gpu_autotune_level=0"),
    "how constants are dumped": dict(XLA_FLAGS="--xla_dump_large_constants=true"),
    "a schedule that is dumped": dict(XLA_FLAGS="--xla_dump_latency_hiding_schedule=true"),
    "terse logs": dict(JAX_COMPILER_DETAILED_LOGGING_MIN_OPS="1000000"),
    "more devices than are used": dict(XLA_FLAGS="--xla_force_host_platform_device_count=4"),
    "a cache folder": dict(JAX_COMPILATION_CACHE_DIR="{folder}/one"),
    "another cache folder": dict(JAX_COMPILATION_CACHE_DIR="{folder}/two"),
    "a link to a cache folder": dict(JAX_COMPILATION_CACHE_DIR="{folder}/link"),
    "no caches of XLA": dict(JAX_COMPILATION_CACHE_DIR="{folder}/three",
                             JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES="none"),
}
SURROUNDINGS_OTHER = {
    "fast math": dict(XLA_FLAGS="--xla_cpu_enable_fast_math=true"),
    "precision": dict(JAX_DEFAULT_MATMUL_PRECISION="highest"),
}


def outcome(process):
    return json.loads(process.stdout.splitlines()[-1])


def two_at_a_time(run, cases):
    """Runs the cases of a dictionary, which store nothing. Returns pairs of a name and the result of `run`."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(zip(cases, pool.map(run, cases.values())))


def jax_version(daemon):
    found = daemon.run("import jax; print(*jax.__version_info__)", warm=False)
    return tuple(map(int, found.stdout.split()[:2]))


class JaxCase(kit.TestCase):
    def hit(self, process, expected=None):
        found = outcome(process)
        self.assertEqual(found["misses"], 0, process.stderr)
        self.assertGreaterEqual(found["hits"], 1, process.stderr)
        if expected is not None:
            self.assertEqual(found["digest"], outcome(expected)["digest"])

    def missed(self, process, expected=None):
        found = outcome(process)
        self.assertGreaterEqual(found["misses"], 1, process.stderr)
        if expected is not None:
            self.assertEqual(found["digest"], outcome(expected)["digest"])


class Keys(JaxCase):
    def test_another_process_with_other_names_in_another_folder_hits_with_the_same_bits(self):
        with kit.Daemon() as daemon, kit.Folder() as elsewhere:
            plain = daemon.run(STEP, warm=False)
            self.missed(daemon.run(STEP), plain)
            path = os.path.join(elsewhere, "other.py")
            with open(path, "w") as f:
                f.write(RENAMED)
            self.hit(daemon.run([kit.sys.executable, path, "--xlarge-model"], cwd=elsewhere), plain)

    def test_variants_hit_exactly_where_the_program_is_the_same(self):
        with kit.Daemon() as daemon:
            daemon.run(VARIANTS, "fill")
            found = json.loads(daemon.run(VARIANTS, "try", WARM_READONLY=1).stdout.splitlines()[-1])
        self.assertEqual({n: True for n in found["same"]}, found["same"])
        self.assertEqual({n: False for n in found["other"]}, found["other"])
        self.assertEqual({n: False for n in found["written"]}, found["written"])

    def test_surroundings_hit_exactly_where_xla_makes_the_same_code(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(STEP)
            os.symlink(daemon.folder, os.path.join(daemon.folder, "link"))

            def run(settings):
                filled = {k: v.format(folder=daemon.folder) for k, v in settings.items()}
                return daemon.run(STEP, WARM_READONLY=1, **filled)

            for name, process in two_at_a_time(run, SURROUNDINGS_SAME):
                with self.subTest(name):
                    self.hit(process, plain)
            for name, process in two_at_a_time(run, SURROUNDINGS_OTHER):
                with self.subTest(name):
                    self.missed(process)

    def test_options_that_name_files_to_read_keep_gpu_executables_out(self):
        program = '''
import jax
from jax._src import compiler
from warm import _library
from warm.jax import _keys
options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
_keys.options_bytes(options, "cpu")      # which does not read it
try:
    _keys.options_bytes(options, "cuda")
except _library.Refused as e:
    print(e)
'''
        with kit.Daemon() as daemon:
            said = daemon.run(program, XLA_FLAGS="--xla_gpu_load_autotune_results_from=/tuned").stdout
            self.assertIn("autotune", said)
            self.assertEqual(daemon.run(program).stdout, "")

    def test_the_key_takes_no_longer_than_jaxs_own(self):
        program = PROGRAM + '''
import statistics, time
from jax._src import cache_key, compilation_cache, compiler, xla_bridge
from warm.jax import _keys
deep = {f"w{i:03}": np.ones((8, 8), "f") for i in range(64)}
def chain(p, x):
    for k in sorted(p):
        x = jax.nn.relu(x @ p[k])
    return x.sum()
module = jax.jit(jax.grad(chain)).lower(deep, x).compiler_ir()
backend, devices = xla_bridge.get_backend(), np.array(jax.devices()[:1])
options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
def ours():
    _keys.name_of(module, _keys.module_bytes(module), devices, options, backend, cache_key, "zlib")
def theirs():
    cache_key.get(module, devices, options, backend)
def once(f):
    start = time.process_time()
    f()
    return time.process_time() - start
ours(), theirs()
pairs = [(once(ours), once(theirs)) for _ in range(15)]
print(json.dumps([statistics.median(p) for p in zip(*pairs)]))
'''
        with kit.Daemon() as daemon:
            ours, theirs = json.loads(daemon.run(program).stdout)
        self.assertLess(ours, theirs * 1.5)  # half as much again, because the machine does other work, too


class Why(JaxCase):
    def test_it_names_the_operation_and_the_option_that_differ(self):
        program = PROGRAM + """
def step(x):
    for i in range(20):
        x = jnp.WHAT(x) * float(i + 1)
    return x
jax.jit(step)(x)
"""
        with kit.Daemon() as daemon:
            daemon.run(program.replace("WHAT", "tanh"))
            daemon.run(program.replace("WHAT", "sin"), WARM_SESSION="sine")
            told = daemon.warm("why", "--session", "sine")
            self.assertRegex(told, "differs from jit_step of .*: stablehlo.tanh \u2192 stablehlo.sine, line [0-9]+, and 19 more")
            daemon.run(program.replace("WHAT", "sin"), WARM_SESSION="flag",
                       XLA_FLAGS="--xla_cpu_enable_fast_min_max=true")
            told = daemon.warm("why", "--session", "flag")
            self.assertIn("option XLA_FLAGS: (none) \u2192 --xla_cpu_enable_fast_min_max=true", told)


class Unseen(JaxCase):
    def test_tracebacks_and_locations_show_no_file_of_ours(self):
        program = PROGRAM + '''
jax.config.update("jax_explain_cache_misses", True)
jax.numpy.sin(x).block_until_ready()
print(jax.jit(step).lower(params, x, y).as_text(debug_info=True))
jax.jit(step)(params, x, y)
jax.jit(step)(params, x[:2], y[:2])
jax.jit(lambda a: a @ a.reshape(3, 5))(x)
'''
        with kit.Daemon() as daemon:
            for _ in range(2):  # a miss, then a hit
                plain, with_it = daemon.run_both(program, check=False)
                self.assertNotIn("_foresight.py", with_it.stdout + with_it.stderr)
                self.assertNotIn(os.path.join("warm", "jax"), with_it.stdout + with_it.stderr)
                self.assertIn("reshape", with_it.stderr)
                self.assertEqual(with_it.stderr.count("File "), plain.stderr.count("File "))


class Together(JaxCase):
    def eight(self, program, plain):
        with kit.Daemon() as daemon:
            plain = daemon.run(plain, warm=False)
            running = [daemon.spawn(program) for _ in range(8)]
            done = [(p.communicate(timeout=kit.RUN_S), p.returncode) for p in running]
            found = [json.loads(out.splitlines()[-1]) for (out, _), code in done]
            self.assertEqual([code for _, code in done], [0] * 8)
            self.assertEqual({f["digest"] for f in found}, {outcome(plain)["digest"]})
            self.assertEqual(sum(f["misses"] for f in found), 1)
            return found

    def test_eight_processes_compile_once(self):
        self.assertEqual(sum(f["hits"] for f in self.eight(STEP, STEP)), 7)

    def test_eight_processes_with_warm_jax_jit_compile_once(self):
        self.eight(PROGRAM + """
import warm.jax
report(warm.jax.jit(warm.jax.value_and_grad(loss))(params, x, y))
""", PROGRAM + "report(jax.jit(jax.value_and_grad(loss))(params, x, y))\n")


class Faults(JaxCase):
    def test_off_readonly_and_recache(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(STEP, WARM_DISABLE=1)
            self.assertEqual(outcome(plain)["misses"], 0)  # JAX has no cache at all
            self.missed(daemon.run(STEP, WARM_READONLY=1), plain)
            self.missed(daemon.run(STEP), plain)
            self.missed(daemon.run(STEP, WARM_RECACHE=1), plain)
            self.hit(daemon.run(STEP, WARM_READONLY=1), plain)

    def test_without_a_daemon_the_program_runs_as_ever(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(STEP, warm=False)
            daemon.kill()
            path = os.path.join(kit.BUILD, "share", "warm", "python")
            process = daemon.run(STEP, warm=False, PYTHONPATH=path)
            self.assertEqual(outcome(process)["digest"], outcome(plain)["digest"])
            self.assertNotIn("Traceback", process.stderr)

    def test_a_daemon_that_dies_and_one_that_hangs_do_no_harm(self):
        dying = PROGRAM + '''
import signal
jax.jit(lambda x: x + 2)(x)
os.kill(int(sys.argv[1]), getattr(signal, sys.argv[2]))
report(jax.jit(step)(params, x, y))
'''
        with kit.Daemon() as daemon:
            plain = daemon.run(STEP, warm=False)
            found = daemon.run(dying, str(daemon.process.pid), "SIGSTOP", WARM_TIMEOUT_MS=500)
            self.assertEqual(outcome(found)["digest"], outcome(plain)["digest"])
            daemon.resume()
            found = daemon.run(dying, str(daemon.process.pid), "SIGKILL")
            self.assertEqual(outcome(found)["digest"], outcome(plain)["digest"])

    def test_damaged_and_swapped_entries_heal(self):
        damage = '''
import sys, warm
from warm.jax._entry import decode
names = [n for n in sys.argv[2:]]
values = [warm.get(n) for n in names]
whole = values[0]
assert decode(names[0], whole), "what was damaged last is not healed"
bad = {"cut": whole[: len(whole) // 2], "empty": b"", "noise": bytes(range(256)) * 8,
       "flipped": whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
       "head": whole.replace(b"targets", b"tarquets"), "swapped": values[1]}[sys.argv[1]]
assert warm.put(names[0], bad, kind="executable")
'''
        other = PROGRAM + "report(jax.jit(lambda x: jnp.sin(x) @ x.T)(x))\n"
        with kit.Daemon() as daemon:
            plain = daemon.run(STEP)
            first = self.names(daemon)
            daemon.run(other)
            second = self.names(daemon) - first
            names = [*first, *second]
            for kind in ("cut", "empty", "noise", "flipped", "head", "swapped"):
                with self.subTest(kind):
                    daemon.run(damage, kind, *names)
                    process = daemon.run(STEP)
                    self.missed(process, plain)
                    self.assertNotIn("Error reading", process.stderr)
            self.hit(daemon.run(STEP), plain)

    def names(self, daemon):
        rows = json.loads(daemon.warm("ls", "--json", "--kind", "executable"))
        return {r["name"] for r in rows if r["name"].startswith("jax:1:")}

    def test_custom_calls_that_are_not_there_are_no_crash(self):
        """An entry with a target that nobody registered is not loaded: the program is compiled anew."""
        change = '''
import hashlib, json, sys, warm
from warm.jax import _entry
value = warm.get(sys.argv[1])
entry = _entry.decode(sys.argv[1], value)
entry = entry._replace(targets=entry.targets + ["no_such_target_ffi"])
assert warm.put(sys.argv[1], _entry.encode(sys.argv[1], entry), kind="executable")
'''
        eigen = PROGRAM + "report(jax.jit(jnp.linalg.eigh)(np.eye(4, dtype='f') + 1))\n"
        with kit.Daemon() as daemon:
            plain = daemon.run(eigen)
            (name,) = self.names(daemon)
            found = daemon.run("import sys, warm\n"
                               "print(warm.get(sys.argv[1]).split(b'\\n')[0].decode())", name)
            self.assertIn("lapack_ssyevd_ffi", found.stdout)
            self.hit(daemon.run(eigen), plain)
            daemon.run(change, name)
            self.missed(daemon.run(eigen), plain)

    def test_another_processor_misses(self):
        other = "from warm.jax import _keys\n_keys.processor = lambda: 'x86_64-other'\n" + STEP
        with kit.Daemon() as daemon:
            plain = daemon.run(STEP)
            self.missed(daemon.run(other), plain)

    def test_custom_partitioning_is_never_stored_and_why_says_so(self):
        program = PROGRAM + '''
from jax.experimental.custom_partitioning import custom_partitioning
@custom_partitioning
def partitioned(x):
    return x * 3
partitioned.def_partition(
    infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding,
    partition=lambda mesh, args, result: (mesh, lambda x: x * 3, args[0].sharding,
                                          (args[0].sharding,)),
    **({"sharding_rule": "i j -> i j"} if jax.__version_info__ >= (0, 5) else {}))
mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
report(jax.jit(partitioned, in_shardings=where, out_shardings=where)(x))
'''
        two = dict(XLA_FLAGS="--xla_force_host_platform_device_count=2")
        with kit.Daemon() as daemon:
            plain = daemon.run(program, warm=False, **two)
            for _ in range(2):
                found = daemon.run(program, **two)
                self.assertEqual(outcome(found)["digest"], outcome(plain)["digest"])
                self.assertEqual(outcome(found)["hits"], 0)
            self.assertEqual(self.names(daemon), set())
            self.assertIn("may hold addresses of this process", daemon.warm("why", "--last"))

    CALLBACKS = PROGRAM + '''
factor, tag, order = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def host(v):
    return np.asarray(v) * factor
def other(v):
    return np.asarray(v) + factor
first, second = (host, other) if order == "forth" else (other, host)
def called(x):
    jax.debug.print(tag + " {}", x[0, 0])
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(second, shape, jax.pure_callback(first, shape, x)) + 1
report(jax.jit(called)(x))
'''

    def test_a_program_with_callbacks_is_loaded_with_those_of_its_own_process(self):
        with kit.Daemon() as daemon:
            seen = {}
            for case in (("2", "one", "forth"), ("3", "two", "forth"), ("3", "two", "back")):
                plain, found = daemon.run_both(self.CALLBACKS, *case)
                self.assertEqual(outcome(found)["digest"], outcome(plain)["digest"])
                self.assertIn(case[1] + " 1.0", found.stdout)
                seen[case] = outcome(found)
            if jax_version(daemon) < (0, 7):
                self.assertEqual(self.names(daemon), set())  # it holds addresses
                return
            hits = [found["hits"] for found in seen.values()]
            self.assertEqual(hits, [0, 1, 1])
            self.assertEqual(len(self.names(daemon)), 1)

    SERIALIZED = PROGRAM + '''
import gc
from jax.experimental.serialize_executable import deserialize_and_load, serialize
called = jax.jit(step)
if len(sys.argv) > 1:
    called(params, x, y)
compiled = called.lower(params, x, y).compile()
del called
gc.collect()
again = deserialize_and_load(*serialize(compiled), execution_devices=jax.devices()[:1])
report((compiled(params, x, y), again(params, x, y)))
'''

    def test_a_loaded_executable_can_be_serialized(self):
        with kit.Daemon() as daemon:
            plain = daemon.run(self.SERIALIZED, warm=False)
            daemon.run(STEP)
            for case in ([], ["called"]):
                self.hit(daemon.run(self.SERIALIZED, *case), plain)

    def test_executables_that_the_program_drops_are_dropped(self):
        program = '''if True:
            from warm.jax import _serialize
            class Executable: pass
            kept = Executable()
            _serialize.note(kept, "kept")
            for i in range(1000):
                _serialize.note(Executable(), str(i))
            assert id(kept) in _serialize._loaded and len(_serialize._loaded) <= 64
        '''
        with kit.Daemon() as daemon:
            daemon.run(program)

    def test_addresses_of_compiled_kernels_are_never_stored(self):
        """A custom call like those of Enzyme's lower-jit. It is not registered here, so it cannot run. But
        its module must get no name."""
        program = PROGRAM + '''
from jax._src import compilation_cache
jax.jit(lambda x: x + 1)(x)
find, keys = compilation_cache.get_cache_key, []
def get_cache_key(*a, **k):
    keys.append(find(*a, **k))
    return keys[-1]
compilation_cache.get_cache_key = get_cache_key
for target in ("enzymexla_compile_cpu", "enzymexla_compile_gpu_with_error", "some_other"):
    call = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(x.shape, x.dtype))
    try:
        jax.jit(call)(x)
    except Exception:
        pass
print(json.dumps([k.split(":")[0].split("jit")[0] for k in keys]))
'''
        with kit.Daemon() as daemon:
            self.assertEqual(json.loads(daemon.run(program).stdout), ["warm-never-"] * 2 + ["jax"])
            self.assertEqual(len(self.names(daemon)), 1)  # the entry of x + 1

    def test_the_users_own_cache_folder_stays_in_use(self):
        with kit.Daemon() as daemon, kit.Folder() as folder:
            settings = dict(JAX_COMPILATION_CACHE_DIR=folder,
                            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
            plain = daemon.run(STEP, warm=False, **settings)
            self.assertTrue(any(n.endswith("-cache") for n in os.listdir(folder)))
            self.hit(daemon.run(STEP, **settings), plain)  # from the folder, which also fills the daemon
            self.hit(daemon.run(STEP), plain)


if __name__ == "__main__":
    unittest.main()
