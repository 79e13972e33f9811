# SPDX-License-Identifier: Apache-2.0
"""Results of XLA's autotuning go from process to process with WARM_XLA_AUTOTUNE=1. The files are made up, because XLA
writes them only on a GPU: a stand-in for its compile does what XLA does with that folder, and then XLA compiles for
the CPU."""

import json

import kit

# XLA on a GPU: for each fusion a file of a name that its key gives, read if it is there, else measured and written.
PROGRAM = """if True:
    import json, os, sys
    import jax, jax.numpy as jnp
    from jax._src import compiler
    from jaxlib import xla_client
    power, folder_of_user, fails = int(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["fails"]
    seen, measured, modes, calls = [], [], [], []
    real = compiler.backend_compile_and_load
    def autotuned(backend, module, devices, options, callbacks):
        if "model" in str(module.operation.attributes["sym_name"]):
            debug = options.executable_build_options.debug_options
            autotune(debug.xla_gpu_per_fusion_autotune_cache_dir, debug.xla_gpu_experimental_autotune_cache_mode)
        return real(backend, module, devices, options, callbacks)
    def autotune(folder, mode):
        calls.append(folder)
        if not folder:
            return
        modes.append(str(mode))
        os.makedirs(os.path.join(folder, "tmp"), exist_ok=True)
        open(os.path.join(folder, ".hidden"), "w").write("no result")
        for fusion in ("base", f"power{power}"):
            path = os.path.join(folder, fusion + ".textproto")
            if fails and os.path.exists(path):
                raise RuntimeError("XLA cannot read " + path)
            (seen if os.path.exists(path) else measured).append(fusion)
            open(path, "w").write("version: 3 " + fusion)
    compiler.backend_compile_and_load = autotuned
    jax.devices()
    from warm.jax import _cache
    _cache._autotunes = lambda platform: _cache._autotune.is_wanted()
    if folder_of_user != "-":
        jax.config.update("jax_compilation_cache_dir", folder_of_user)
    def model(x):
        return (x ** power).sum()
    print(float(jax.jit(model)(jnp.asarray([2.0] * 8))))
    print(json.dumps({"seen": seen, "measured": measured, "modes": modes, "calls": calls}))
"""


class Autotuning(kit.TestCase):
    def setUp(self):
        self.daemon = kit.Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)

    def run_power(self, power, *more, user="-", wanted="1"):
        ran = self.daemon.run(PROGRAM, str(power), user, *more, WARM_XLA_AUTOTUNE=wanted)
        self.assertEqual(float(ran.stdout.splitlines()[0]), 8.0 * 2.0**power)
        return kit.result(ran)

    def entries(self):
        return json.loads(self.daemon.warm("ls", "--kind", "autotune", "--json"))

    def test_a_changed_model_measures_only_its_new_fusions(self):
        first = self.run_power(2)
        self.assertEqual((first["seen"], first["measured"]), ([], ["base", "power2"]))
        second = self.run_power(3)
        self.assertEqual((second["seen"], second["measured"]), (["base"], ["power3"]))
        self.assertIn("UPDATE", second["modes"][0])
        self.assertEqual(len(self.entries()), 1)
        self.assertEqual(self.run_power(3)["calls"], [], "the executable itself is a hit")

    def test_it_is_off_by_default(self):
        seen = self.run_power(2, wanted=None)
        self.assertEqual((seen["calls"], self.entries()), ([""], []))

    def test_a_folder_of_the_user_stays(self):
        with kit.Folder() as folder:
            calls = self.run_power(2, user=folder)["calls"]
        self.assertTrue(calls and all(call.startswith(folder) for call in calls), calls)

    def test_files_that_xla_refuses_cost_a_second_compile(self):
        self.run_power(2)
        seen = self.run_power(3, "fails")
        self.assertEqual(seen["calls"][-1], "")

    def test_an_entry_that_is_none_and_names_with_paths_are_left_out(self):
        import zlib

        self.run_power(2)
        key = self.entries()[0]["name"]
        evil = zlib.compress(json.dumps({"../evil": "x", ".rc": "x", "ok": 3, "base.textproto": "y"}).encode())
        for value, seen in ((b"no archive", []), (evil, ["base"])):
            with kit.Folder() as folder:
                path = folder + "/value"
                with open(path, "wb") as f:
                    f.write(value)
                self.daemon.warm("put", key, path)
            self.assertEqual(self.run_power(4 + len(seen))["seen"], seen)


if __name__ == "__main__":
    kit.main()
