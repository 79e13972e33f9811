# SPDX-License-Identifier: Apache-2.0
"""JAX's plugin for NVIDIA GPUs on the stand-in for a driver, as far as it gets: it opens the driver, counts devices, and
then NVIDIA's runtime asks the driver for tables of functions that are not documented. JAX itself does not even load the
plugin on a machine without /dev/nvidia0, so the program does."""

import os
import subprocess

import kit
from transparent import Transparent

CLIENT = """
import os
import jax_plugins.xla_cuda13 as plugin
from jaxlib import xla_client
xla_client.load_pjrt_plugin_dynamically("cuda", os.path.join(os.path.dirname(plugin.__file__), "xla_cuda_plugin.so"))
xla_client.initialize_pjrt_plugin("cuda")
try:
    print(xla_client.make_c_api_client("cuda", {}, None).devices())
except Exception as e:
    print(e)
"""


class Driver(Transparent):
    def test_a_client_of_the_plugin(self):
        if not kit.REAL_DRIVER:
            subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o",
                            os.path.join(self.daemon.folder, "libnvidia-ml.so.1"),
                            os.path.join(kit.ROOT, "tests/fakecuda/libnvidia-ml.c")], check=True)
        self.check(CLIENT, needs=(r"\?cuDeviceGetAttribute",))


if __name__ == "__main__":
    kit.main()
