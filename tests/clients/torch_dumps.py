# SPDX-License-Identifier: Apache-2.0
"""PyTorch while it dumps what it compiles: a hit would print and write nothing."""

import unittest

import kit

PROGRAM = """if True:
    import torch
    import torch._inductor.config as inductor
    {}
    print(torch.compile(lambda x: (x.sin() * 2).sum())(torch.arange(8.)))
"""


class Dumps(kit.TestCase):
    def graphs(self, daemon):
        return daemon.stats("kinds").get("fx-graph", {"puts": 0, "hits": 0})

    def run_one(self, daemon, before="", **settings):
        with kit.Folder() as folder:
            ran = daemon.run(PROGRAM.format(before), TORCHINDUCTOR_CACHE_DIR=folder, WARM_SESSION="dump",
                             TORCH_COMPILE_DEBUG_DIR=folder, **settings)
            return ran.stdout + ran.stderr

    def test_while_torch_dumps_nothing_is_kept_or_taken(self):
        with kit.Daemon() as daemon:
            log = {"TORCH_LOGS": "output_code"}
            self.assertIn("Output code", self.run_one(daemon, **log))
            self.assertEqual(self.graphs(daemon)["puts"], 0)
            self.assertIn("TORCH_LOGS=output_code", daemon.warm("why", "--session", "dump"))
            self.run_one(daemon)
            self.assertGreater(self.graphs(daemon)["puts"], 0)
            hits = self.graphs(daemon)["hits"]
            self.assertIn("Output code", self.run_one(daemon, **log))
            self.run_one(daemon, "inductor.trace.enabled = True")
            self.assertEqual(self.graphs(daemon)["hits"], hits)
            self.run_one(daemon)
            self.assertGreater(self.graphs(daemon)["hits"], hits)


if __name__ == "__main__":
    unittest.main()
