# SPDX-License-Identifier: Apache-2.0
"""Short forms of a model: the size of XLA's program depends only on the number of different layers.

    chain([m0, m1, … m15], x)    m0 … m15 alike: stack their parameters, lax.scan over them
                                 otherwise:      m15(… m1(m0(x)))
    Stack.of([m0, m1, … m15])    16 × 4 arrays ──▶ 4 arrays of one more dimension, for chain
    Packed.of(params)            192 arrays of 2 dtypes ──▶ 2 flat arrays; a pytree like any other

Both express the same computation by fewer operations. The operations on each element are the same, but
XLA fuses shorter programs in another way. If it then rounds a product and a sum only once, last bits may
differ. The tests allow 1e-5 of the largest element for float32; most programs agree bit for bit.

Any thread; no state.
"""

from __future__ import annotations

import itertools
import math
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
    """Returns the structure with the types of its arrays; None if it holds anything else."""
    leaves, structure = tree_util.tree_flatten(tree)
    if not all(map(_is_array, leaves)):
        return None
    return (structure, *map(_type, leaves))


def _n_alike(modules: Sequence[_Module], types: Sequence[Any], first: int) -> int:
    """Counts the modules from the first on with the same function, structure and types."""
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
    """Returns True if the module's result has the type of its argument, as the body of a scan must."""
    arguments = (module.variables, state, x) if has_state else (module.variables, x)
    given = _types((x, state) if has_state else x)
    try:
        return given is not None and _types(jax.eval_shape(module.apply, *arguments)) == given
    except Exception:  # the module reads values, or has a fault: the plain calls will report it
        return False


def _stack(trees: Sequence[Any]) -> Any:
    return tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *trees)


def _unstack(tree: Any, n: int) -> List[Any]:
    return [tree_util.tree_map(lambda leaf: leaf[i], tree) for i in range(n)]


@tree_util.register_pytree_node_class
class Stack:
    """Modules that are alike. Corresponding arrays of all modules form one array.

        params = Stack.of(modules)     # once, outside of the training loop
        y = chain(params, x)           # in the loss
    """

    def __init__(self, apply: Callable[..., Any], variables: Any, n: int) -> None:
        self.apply = apply
        self.variables = variables  # arrays: [n, …]
        self.n = n

    @classmethod
    def of(cls, modules: Sequence[Any]) -> Any:
        """Returns the stack. If the modules are not alike, returns the list of modules, which chain takes, too."""
        links = [_taken_apart(m) for m in modules]
        types = [_types(link.variables) for link in links]
        if not links or _n_alike(links, types, 0) < len(links) or types[0] in (None, ()):
            return list(modules)
        return cls(links[0].apply, _stack([link.variables for link in links]), len(links))

    def unstack(self) -> List[Any]:
        """Returns the original modules with their present values."""
        each = _unstack(self.variables, self.n)
        return each if self.apply is _call else [(self.apply, variables) for variables in each]

    def tree_flatten(self) -> Tuple[Tuple[Any, ...], Hashable]:
        return (self.variables,), (self.apply, self.n)

    @classmethod
    def tree_unflatten(cls, about: Any, children: Any) -> Stack:
        return cls(about[0], children[0], about[1])


def chain(modules: Any, x: Any, *, states: Optional[Sequence[Any]] = None) -> Any:
    """Returns x after all modules, one after another: modules[-1](… modules[0](x)).

    `modules` is a sequence or a Stack. A module is a pytree that can be called (as Equinox makes
    them), or a pair (function, parameters) for function(parameters, x). Modules that follow one
    another become one lax.scan on three conditions. They have the same function or type. Their
    parameters have the same structure, shapes and dtypes. The result has the type of x. All others are
    called one by one, as in a loop. This is sound for functions whose result depends on their arguments
    alone, as jax.jit also requires.

    With `states`, one for each module, function(parameters, state, x) returns (x, new state), and
    chain returns (x, the list of new states).
    """
    has_state = states is not None
    given: List[Any] = list(states or ())
    n_modules = modules.n if isinstance(modules, Stack) else len(modules)
    if has_state and len(given) != n_modules:
        raise ValueError("a chain needs one state for each module")
    given = given if has_state else [None] * n_modules
    if isinstance(modules, Stack):
        if _stack_can_scan(modules, given, x, has_state):
            x, made = _scan(modules.apply, modules.variables, given, x, has_state)
            return (x, made) if has_state else x
        modules = modules.unstack()
    x, made = _chain([_taken_apart(m) for m in modules], given, x, has_state)
    return (x, made) if has_state else x


def _stack_can_scan(stack: Stack, states: Sequence[Any], x: Any, has_state: bool) -> bool:
    first = _Module(stack.apply, _unstack(stack.variables, 1)[0])
    types = [_types(s) for s in states]
    alike = types[0] is not None and all(t == types[0] for t in types)
    return alike and _gives_what_it_takes(first, states[0], x, has_state)


def _chain(links: Sequence[_Module], states: Sequence[Any], x: Any, has_state: bool) -> Any:
    types = [_types((link.variables, s)) for link, s in zip(links, states)]
    new_states: List[Any] = []
    at = 0
    while at < len(links):
        n = _n_alike(links, types, at)
        if n > 1 and _gives_what_it_takes(links[at], states[at], x, has_state):
            variables = _stack([link.variables for link in links[at : at + n]])
            x, made = _scan(links[at].apply, variables, states[at : at + n], x, has_state)
        else:
            n = 1
            x, state = _apply(links[at].apply, links[at].variables, states[at], x, has_state)
            made = [state]
        new_states += made
        at += n
    return x, new_states


def _apply(apply: Any, variables: Any, state: Any, x: Any, has_state: bool) -> Tuple[Any, Any]:
    if has_state:
        x, state = apply(variables, state, x)
        return x, state
    return apply(variables, x), None


def _scan(apply: Any, variables: Any, states: Sequence[Any], x: Any, has_state: bool) -> Any:
    def body(x: Any, link: Any) -> Any:
        return _apply(apply, link[0], link[1], x, has_state)

    x, made = jax.lax.scan(body, x, (variables, _stack(states)))
    return x, _unstack(made, len(states))


# ---- packed ----


class _Layout(NamedTuple):
    """The place of each leaf of the original. Equal layouts make equal pytrees."""

    structure: Any
    # for each leaf the name of its dtype, and its shape; None for a leaf in `others`
    places: Tuple[Optional[Tuple[str, Tuple[int, ...]]], ...]


def _dtype_to_pack(leaf: Any) -> Optional[str]:
    """Returns the dtype; None for other objects, random keys, and weakly typed arrays."""
    if not _is_array(leaf) or getattr(leaf, "weak_type", False):
        return None
    is_plain = getattr(leaf.dtype, "kind", "") in "biufcV" and hasattr(leaf.dtype, "itemsize")
    return str(leaf.dtype) if is_plain and not str(leaf.dtype).startswith("key<") else None


@tree_util.register_pytree_node_class
class Packed:
    """A pytree whose arrays of one dtype form one flat array.

        params = Packed.of(params)                               # once
        grads = jax.grad(lambda p: loss(p.unpack(), x, y))(params)  # Packed, too
        params = jax.tree.map(lambda p, g: p - 0.03 * g, params, grads)

    An optimizer with an elementwise update then needs one operation for each dtype instead of one for
    each array, and its state becomes as short. Packed is not for optimizers that treat arrays apart, for
    example by a norm for each layer. Leaves that are no arrays, and random keys, stay as they are.

    Each leaf is a slice in the compiled program. XLA on the CPU takes longer over 64 slices than it saves
    on 64 updates. So Packed pays together with Stack, which leaves few leaves.
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
        """Returns the original pytree with its present values."""
        parts = {dtype: iter(self._split(dtype)) for dtype in self.arrays}
        others = iter(self.others)
        leaves = [
            next(others) if place is None else jnp.reshape(next(parts[place[0]]), place[1])
            for place in self._layout.places
        ]
        return tree_util.tree_unflatten(self._layout.structure, leaves)

    def _split(self, dtype: str) -> List[Any]:
        """Splits an array by one operation, whose gradient is one concatenation. The gradient of slices
        would be a sum of arrays of the whole size, one for each slice."""
        sizes = [math.prod(p[1]) for p in self._layout.places if p is not None and p[0] == dtype]
        ends = list(itertools.accumulate(sizes))
        parts: List[Any] = jnp.split(self.arrays[dtype], ends[:-1])
        return parts

    def tree_flatten(self) -> Tuple[Tuple[Any, ...], Hashable]:
        return (self.arrays, self.others), self._layout

    @classmethod
    def tree_unflatten(cls, layout: Any, children: Any) -> Packed:
        arrays, others = children
        return cls(arrays, others, layout)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{d}[{getattr(a, 'size', '?')}]" for d, a in self.arrays.items())
        return f"Packed({sizes}, of {len(self._layout.places)})"
