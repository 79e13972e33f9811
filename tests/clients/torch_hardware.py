# SPDX-License-Identifier: Apache-2.0
"""Entries of PyTorch in a process with CUDA name its device: `warm ls --arch sm_90` finds them. What the adapter sees
of torch.cuda is made up, and the graph is for the CPU: nothing is kept of a program that replaces torch's functions."""

import json

import kit

PROGRAM = """if True:
    import json, sys, types
    import torch
    if sys.argv[1]:
        import warm._hardware
        cuda = types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 0, get_device_properties=lambda _:
                                     types.SimpleNamespace(major=9, minor=0, name=sys.argv[1]))
        made_up = types.SimpleNamespace(cuda=cuda, version=types.SimpleNamespace(hip=None))
        warm._hardware.sys = types.SimpleNamespace(modules={"torch": made_up})
    f = torch.compile(lambda x: torch.sin(x) * 2 + 1)
    print(float(f(torch.ones(8)).sum()))
    from torch._dynamo.utils import counters
    print(json.dumps({"hits": counters["inductor"]["fxgraph_cache_hit"]}))
"""
H100 = "NVIDIA H100 80GB HBM3"


class Hardware(kit.TestCase):
    def graphs(self, daemon, *filters):
        rows = json.loads(daemon.warm("ls", "--kind", "fx-graph", "--json", *filters))
        return sorted(row["arch"] for row in rows)

    def run_on(self, daemon, device):
        """Runs the program in a fresh home. Returns its hits."""
        with kit.Folder() as folder:
            return kit.result(daemon.run(PROGRAM, device, TORCHINDUCTOR_CACHE_DIR=folder,
                                         TORCHINDUCTOR_VEC_ISA_OK="1"))["hits"]

    def test_the_device_is_in_the_entry(self):
        with kit.Daemon() as daemon:
            self.assertEqual(self.run_on(daemon, H100), 0)
            self.assertEqual(self.graphs(daemon, "--arch", "sm_90"), [f"sm_90 {H100}"])
            self.assertEqual(self.run_on(daemon, H100), 1)

    def test_without_cuda_no_hardware_is_named(self):
        with kit.Daemon() as daemon:
            self.run_on(daemon, "")
            self.assertEqual(self.graphs(daemon), [""])


if __name__ == "__main__":
    kit.main()
