# SPDX-License-Identifier: Apache-2.0
"""What AOTAutograd makes of a program on its way to Inductor: the joint graph of the program and its
gradients, and the forward and the backward that this is cut into."""

import torch
from torch._dynamo.utils import detect_fake_mode
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._inductor.compile_fx import compile_fx_inner, partition_fn
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V

import program
from program import Unfit


class Joint:
    """The joint graph of a program."""

    def __init__(self, whole):
        inputs = [v.requires_grad_() if v.is_floating_point() else v for v in program.fill(whole.inputs, 0)]
        with torch.enable_grad():
            made = aot_export_joint_simple(whole.module(), inputs, trace_joint=True,
                                           decompositions=select_decomp_table())
        self.program, self.outputs = program.read(made), len(whole.results)

    def inputs(self, draw):
        return program.fill(self.program.inputs, draw)

    def cut(self, joint):
        """The modules of the forward and the backward."""
        module = joint.module()
        with V.set_fake_mode(detect_fake_mode(given(module))):
            return partition_fn(module, given(module), num_fwd_outputs=self.outputs)

    def compiled(self, joint):
        forward, backward = self.cut(joint)
        run, back = compiled(forward), compiled(backward, True)

        def both(given):
            saved = run(given)
            return (*saved[:self.outputs],
                    *back(inputs_of(backward, forward, saved, self.program.inputs, given)))
        return both


class Forward:
    def __init__(self, joint):
        self.joint, module = joint, joint.cut(joint.program)[0]
        self.program = program.read(module)

    def inputs(self, draw):
        return self.joint.inputs(draw)[:len(self.program.inputs)]

    def compiled(self, forward):
        return compiled(forward.module())


class Backward:
    def __init__(self, joint):
        self.joint = joint
        self.forward, self.backward = joint.cut(joint.program)
        self.program = program.read(self.backward)

    def inputs(self, draw):
        given = self.joint.inputs(draw)
        torch.manual_seed(draw)
        saved = self.forward(*given[:len(self.forward.graph.find_nodes(op="placeholder"))])
        made = inputs_of(self.backward, self.forward, saved, self.joint.program.inputs, given)
        if any(v.stride() != like.stride for v, like in zip(made, self.program.inputs)):
            raise Unfit
        return made

    def compiled(self, backward):
        return compiled(backward.module(), True)


def compiled(module, backward=False):
    """A graph as Inductor compiles it, of as many inputs as it has or more."""
    inputs = given(module)
    with V.set_fake_mode(detect_fake_mode(inputs)):
        call = compile_fx_inner(module, inputs, is_backward=backward)
    return lambda given: call(list(given[:len(inputs)]))


def given(module):
    """The inputs of a graph, as the compiler knows them."""
    return [n.meta["val"] for n in module.graph.find_nodes(op="placeholder")]


def inputs_of(backward, forward, saved, names, given):
    """What the backward takes: tangents that are given and what the forward gave, found by name."""
    found = dict(zip((v.name for v in names), given))
    found.update((n.name, v) for n, v in zip(forward.graph.output_node().args[0], saved)
                 if isinstance(n, torch.fx.Node))
    return [found[n.name] for n in backward.graph.find_nodes(op="placeholder")]
