# SPDX-License-Identifier: Apache-2.0
"""Trains models by kernels/examples/train.py on a GPU or on the CPU, and prints the losses: test_train.c compares them.
Arrays of other libraries come and go by __cuda_array_interface__, and what does not fit is refused."""
import array
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kernels/examples"))
import train
import warm.graph


class Other:
    """An array of another library, which has only the interface."""

    def __init__(self, a, on_gpu):
        self.a = a
        name = "__cuda_array_interface__" if on_gpu else "__array_interface__"
        self.__dict__[name] = getattr(a, name)


def refused(kind, words, *arguments):
    try:
        step(*arguments)
    except kind as e:
        assert words in str(e), e
    else:
        raise AssertionError(words)


device = "cpu" if sys.argv[1] == "cpu" else int(sys.argv[1])
arch = "sm_90" if device == "cpu" else warm.graph._arch_of(device)
for model in sys.argv[2:]:
    bundle = train.compile_step(model, arch)
    losses = list(train.train(warm.graph.load(bundle, device), model))
    print(json.dumps({"model": model, "kernels": bundle.kernels, "hits": bundle.hits, "losses": losses},
                     separators=(",", ":")))
step = warm.graph.load(train.compile_step("mlp_1_16_1", arch), device)
list(train.train(step, "mlp_1_16_1"))
zeros = [[0] * 49, 0, [0] * 49, [0] * 49]
x, y = (step.array([1] * 128, t) for t in step.arguments[4:])
parameters, count, *_ = step(*zeros, Other(x, step.on_gpu), y)
assert parameters.shape == (49,) and count.tolist() == 1, count.tolist()
again = step(parameters, count, *zeros[2:], x, Other(y, step.on_gpu))
assert again[1].tolist() == 2
refused(TypeError, "the graph has 6 arguments, not 5", *zeros, x)
refused(TypeError, "argument 0, 49xf32: it is <f4[128, 1], not 49xf32", x, *zeros[1:], x, y)
refused(ValueError, "argument 2, 49xf32: it has 1 numbers", parameters, 0, [1], zeros[3], x, y)
refused(ValueError, "argument 1, i32: 1.5 is no element of i32", parameters, 1.5, *zeros[2:], x, y)
host = array.array("f", bytes(4 * 128))
if step.on_gpu:
    refused(TypeError, "array has neither DLPack nor __cuda_array_interface__", *zeros, host, y)
else:
    step(*zeros, host, y)
    refused(TypeError, "it is d[128], not 128x1xf32", *zeros, array.array("d", host), y)
del x, y, parameters, count, again
taken = len(step._memory)
list(train.train(step, "mlp_1_16_1"))
assert len(step._memory) == taken, "memory of results is not used again"
