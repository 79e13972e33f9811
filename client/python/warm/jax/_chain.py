# SPDX-License-Identifier: Apache-2.0
"""Short forms of a model: what XLA is given shrinks with the number of different layers.

    chain([m0, m1, … m15], x)     m0 … m15 alike:  stack their parameters, lax.scan over them
                                  else:            m15(… m1(m0(x)))
    Packed.of(params)             192 arrays of 2 dtypes ──▶ 2 flat arrays; a pytree like any other

Both say the same to JAX in fewer operations. The operations on each element are the same ones, but
XLA fuses shorter programs otherwise, and where it then contracts a product and a sum into one
rounding, last bits may differ: within 1e-5 of the largest element for float32 is what the tests hold
it to, and most programs agree bit for bit.

Any thread; no state.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
from jax import tree_util

# ---- chain ----


class _Module(NamedTuple):
    """One link, taken apart: apply(variables, x)."""

    apply: Callable[..., Any]
    variables: Any


def _taken_apart(module: Any) -> _Module:
    if isinstance(module, tuple) and len(module) == 2 and callable(module[0]):
        return _Module(*module)
    if not callable(module):
        raise TypeError("a module of a chain is callable, or a pair (function, parameters)")
    if tree_util.all_leaves([module]):  # a function, or an object that is no pytree
        return _Module(lambda _, x: module(x), None)
    return _Module(_call, module)


def _call(module: Any, x: Any) -> Any:
    return module(x)


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _type(leaf: Any) -> Tuple[Any, ...]:
    return tuple(leaf.shape), leaf.dtype, bool(getattr(leaf, "weak_type", False))


def _types(tree: Any) -> Optional[Tuple[Any, ...]]:
    """The structure with the types of its arrays; None if it holds anything else."""
    leaves, structure = tree_util.tree_flatten(tree)
    if not all(map(_is_array, leaves)):
        return None
    return (structure, *map(_type, leaves))


def _n_alike(modules: Sequence[_Module], types: Sequence[Any], first: int) -> int:
    """How many from the first on have one function and variables of one structure and types."""
    n = 1
    if types[first] is not None and len(types[first]) > 1:
        while (
            first + n < len(modules)
            and modules[first + n].apply is modules[first].apply
            and types[first + n] == types[first]
        ):
            n += 1
    return n


def _gives_what_it_takes(module: _Module, state: Any, x: Any, has_state: bool) -> bool:
    """That what it returns could be given to it again: then it can be the body of a scan."""
    arguments = (module.variables, state, x) if has_state else (module.variables, x)
    given = _types((x, state) if has_state else x)
    return given is not None and _types(jax.eval_shape(module.apply, *arguments)) == given


def _stack(trees: Sequence[Any]) -> Any:
    return tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *trees)


def _unstack(tree: Any, n: int) -> List[Any]:
    return [tree_util.tree_map(lambda leaf: leaf[i], tree) for i in range(n)]


def chain(modules: Sequence[Any], x: Any, *, states: Optional[Sequence[Any]] = None) -> Any:
    """x through all modules, one after another: modules[-1](… modules[0](x)).

    A module is a pytree that can be called (as Equinox makes them), or a pair (function, parameters)
    for function(parameters, x). Modules that follow one another, have the same function or type,
    parameters of the same structure, shapes and dtypes, and return what they take, are one lax.scan;
    all others are called one by one, as a loop would. Sound for functions whose result depends on
    their arguments alone, as everything under jax.jit must.

    With `states`, one for each module, function(parameters, state, x) returns (x, new state), and
    chain returns (x, the list of new states).
    """
    links = [_taken_apart(m) for m in modules]
    has_state = states is not None
    if has_state and len(states or ()) != len(links):
        raise ValueError("a chain needs one state for each module")
    given: List[Any] = list(states) if states is not None else [None] * len(links)
    types = [_types((link.variables, s)) for link, s in zip(links, given)]
    new_states: List[Any] = []
    at = 0
    while at < len(links):
        n = _n_alike(links, types, at)
        if n > 1 and _gives_what_it_takes(links[at], given[at], x, has_state):
            x, made = _scan(links[at : at + n], given[at : at + n], x, has_state)
        else:
            n = 1
            x, made = _apply(links[at].apply, links[at].variables, given[at], x, has_state)
            made = [made]
        new_states += made
        at += n
    return (x, new_states) if has_state else x


def _apply(apply: Any, variables: Any, state: Any, x: Any, has_state: bool) -> Tuple[Any, Any]:
    if has_state:
        x, state = apply(variables, state, x)
        return x, state
    return apply(variables, x), None


def _scan(links: Sequence[_Module], states: Sequence[Any], x: Any, has_state: bool) -> Any:
    apply = links[0].apply
    stacked = _stack([(link.variables, state) for link, state in zip(links, states)])

    def body(x: Any, link: Any) -> Any:
        return _apply(apply, link[0], link[1], x, has_state)

    x, made = jax.lax.scan(body, x, stacked)
    return x, _unstack(made, len(links))


# ---- packed ----


class _Layout(NamedTuple):
    """Where each leaf of the original went. Equal layouts make equal pytrees."""

    structure: Any
    # of each leaf: its dtype's name and its shape, or None: it is among `others`
    places: Tuple[Optional[Tuple[str, Tuple[int, ...]]], ...]


def _dtype_to_pack(leaf: Any) -> Optional[str]:
    """None: not an array, a random key, or one whose dtype gives way to others."""
    if not _is_array(leaf) or getattr(leaf, "weak_type", False):
        return None
    is_plain = getattr(leaf.dtype, "kind", "") in "biufcV" and hasattr(leaf.dtype, "itemsize")
    return str(leaf.dtype) if is_plain and not str(leaf.dtype).startswith("key<") else None


@tree_util.register_pytree_node_class
class Packed:
    """A pytree's arrays, those of one dtype one after another in one flat array.

        params = Packed.of(params)                               # once
        grads = jax.grad(lambda p: loss(p.unpack(), x, y))(params)  # Packed, too
        params = jax.tree.map(lambda p, g: p - 0.03 * g, params, grads)

    An optimizer whose update is elementwise is then one operation for each dtype rather than one for
    each array, and so is its state. Not for what treats arrays apart (a norm for each layer).
    Leaves that are no arrays, and random keys, stay as they are.
    """

    def __init__(self, arrays: Dict[str, Any], others: Tuple[Any, ...], layout: _Layout) -> None:
        self.arrays = arrays  # by name of the dtype, each of one dimension
        self.others = others
        self._layout = layout

    @classmethod
    def of(cls, tree: Any) -> Packed:
        leaves, structure = tree_util.tree_flatten(tree)
        parts: Dict[str, List[Any]] = {}
        others: List[Any] = []
        places: List[Optional[Tuple[str, Tuple[int, ...]]]] = []
        for leaf in leaves:
            dtype = _dtype_to_pack(leaf)
            if dtype is None:
                others.append(leaf)
                places.append(None)
            else:
                parts.setdefault(dtype, []).append(jnp.ravel(leaf))
                places.append((dtype, tuple(leaf.shape)))
        arrays = {d: jnp.concatenate(parts[d]) for d in sorted(parts)}
        return cls(arrays, tuple(others), _Layout(structure, tuple(places)))

    def unpack(self) -> Any:
        """The pytree that it was made of, with the values that it has now."""
        taken: Dict[str, int] = {d: 0 for d in self.arrays}
        others = iter(self.others)
        leaves: List[Any] = []
        for place in self._layout.places:
            if place is None:
                leaves.append(next(others))
                continue
            dtype, shape = place
            size = 1
            for extent in shape:
                size *= extent
            flat = self.arrays[dtype][taken[dtype] : taken[dtype] + size]
            leaves.append(jnp.reshape(flat, shape))
            taken[dtype] += size
        return tree_util.tree_unflatten(self._layout.structure, leaves)

    def tree_flatten(self) -> Tuple[Tuple[Any, ...], Hashable]:
        return (self.arrays, self.others), self._layout

    @classmethod
    def tree_unflatten(cls, layout: Any, children: Any) -> Packed:
        return cls(*children, layout)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{d}[{getattr(a, 'size', '?')}]" for d, a in self.arrays.items())
        return f"Packed({sizes}, of {len(self._layout.places)})"
