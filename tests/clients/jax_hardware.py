# SPDX-License-Identifier: Apache-2.0
"""Entries of JAX for a GPU name it: `warm ls --arch sm_90` finds them. The devices are made up; the rest is JAX on the
CPU."""

import json

import kit

# JAX compiles for the CPU, and says of its devices what argument 1 says.
PROGRAM = """if True:
    import sys, types
    import jax, jax.numpy as jnp
    from warm import _hardware
    from warm.jax import _cache
    import numpy as np
    capability, kind = sys.argv[1:]
    device = types.SimpleNamespace(device_kind=kind)
    if capability:
        device.compute_capability = capability
    devices = np.array([device, device])
    _cache._hardware_of = lambda _, platform: _hardware.of_jax(devices, "cuda")
    print(jax.jit(lambda x: jnp.sin(x) + 1)(jnp.ones(8)).sum())
"""
H100 = "NVIDIA H100 80GB HBM3"


class Hardware(kit.TestCase):
    def hardware(self, daemon, *filters):
        return {row["arch"] for row in json.loads(daemon.warm("ls", "--kind", "executable", "--json", *filters))}

    def test_the_target_and_the_device_find_entries(self):
        with kit.Daemon() as daemon:
            daemon.run(PROGRAM, "9.0", H100)
            self.assertEqual(self.hardware(daemon), {f"sm_90 {H100}"})
            self.assertEqual(self.hardware(daemon, "--arch", "sm_90"), {f"sm_90 {H100}"})
            self.assertEqual(self.hardware(daemon, "--arch", f"sm_90 {H100}"), {f"sm_90 {H100}"})
            self.assertEqual(self.hardware(daemon, "--arch", "sm_9"), set())
            key = json.loads(daemon.warm("ls", "--kind", "executable", "--json"))[0]["key"]
            self.assertIn(f"sm_90 {H100}", daemon.warm("show", key))
            daemon.warm("evict", "--arch", "sm_90")
            self.assertEqual(self.hardware(daemon), set())

    def test_devices_that_tell_less(self):
        for capability, kind, hardware in (("gfx90a", "AMD Instinct MI250", "gfx90a AMD Instinct MI250"),
                                           ("12.0", "RTX", "sm_120 RTX"), ("", "Some GPU", "cuda")):
            with kit.Daemon() as daemon:
                daemon.run(PROGRAM, capability, kind)
                self.assertEqual(self.hardware(daemon), {hardware})


if __name__ == "__main__":
    kit.main()
