# SPDX-License-Identifier: Apache-2.0
"""A digest of a traced function: equal for equal jaxprs, whatever their names and source positions.

Hashed: the equations in their order, with primitives, parameters, types and literals, and the contents
of constants. Not hashed: names of variables and of inner jits, source information. Unknown is raised for
an effect, and for a parameter of a type that is not listed here. It is also raised for a primitive that JAX
does not define: its name does not show how it is lowered and differentiated.

A differentiated function is more than its jaxpr: custom_jvp and custom_vjp bring rules, which are Python
functions that JAX calls later. JAX's own rules count by module, name and line (JAX's version is in the
key), and by their closures. All other rules raise Unknown.

Any thread; no state.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import sys
import types
from typing import Any, Dict, List, Set

import numpy as np

from warm.jax import _rules
from warm.jax._keys import Unknown

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
# Parameters that only name something for people.
_NAMES = {("jit", "name"), ("pjit", "name"), ("closed_call", "name"), ("core_call", "name")}
_RULES = frozenset(("jvp_jaxpr_fun", "jvp_jaxpr_thunk", "fwd_jaxpr_thunk", "bwd", "fwd"))
_CONTEXT = ("compute_type", "threefry_partitionable", "xla_metadata")
_MAX_CALLABLE_DEPTH = 64


def _is_jax(module: Any) -> bool:
    return isinstance(module, str) and (module == "jax" or module.startswith(("jax.", "jaxlib.")))


class _Primitives:
    """The set of primitives of JAX's own modules. They count by identity, because any program can choose any
    name. A test looks into the most likely modules first, and into each module once."""

    def __init__(self) -> None:
        self._found: Set[Any] = set()
        self._seen: Set[str] = set()

    def _unseen(self) -> List[str]:
        names = [n for n in list(sys.modules) if n not in self._seen and _is_jax(n)]
        return sorted(names, key=lambda n: not n.startswith("jax._src.lax."))

    def __contains__(self, primitive: Any) -> bool:
        from jax._src import core

        if primitive in self._found:
            return True
        for name in self._unseen():
            self._seen.add(name)
            values = list(vars(sys.modules[name]).values())
            self._found.update(v for v in values if isinstance(v, core.Primitive))
            if primitive in self._found:
                return True
        return False


_primitives = _Primitives()


def _aval_text(a: Any) -> str:
    if not hasattr(a, "shape") or not hasattr(a, "dtype"):
        raise Unknown(f"a value of type {type(a).__qualname__}")
    sharding = getattr(a, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    where = "" if sharding is None or getattr(mesh, "empty", False) else str(sharding)
    weak = bool(getattr(a, "weak_type", False))
    dtype = str(a.dtype)
    if not isinstance(a.dtype, np.dtype):  # a random key: lowering calls functions of its kind
        dtype += _rules._text(tuple(getattr(a.dtype, "_impl", (a.dtype,))))
    return f"{dtype}\0{a.shape}\0{weak}\0{where}"


class Digest:
    """A digest of everything that add() got; hexdigest() returns it."""

    def __init__(self, differentiates: bool) -> None:
        self._hash = hashlib.sha256()
        self._differentiates = differentiates
        self._jaxprs: Dict[int, bytes] = {}
        self._rules: Dict[int, bytes] = {}
        self._avals: Dict[int, str] = {}
        self._alive: List[Any] = []  # objects whose id() is in _jaxprs, _rules or _avals

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def add(self, value: Any) -> None:
        self._value(value)

    def _inner(self) -> Digest:
        inner = Digest(self._differentiates)
        inner._jaxprs, inner._rules, inner._alive = self._jaxprs, self._rules, self._alive
        inner._avals = self._avals
        return inner

    def _text(self, *parts: str) -> None:
        text = "\0".join(parts)
        self._hash.update(f"{len(text)}:{text}".encode("utf-8", "surrogateescape"))

    # ---- values of parameters ----

    def _value(self, v: Any) -> None:
        if isinstance(v, enum.Enum):
            self._text("enum", type(v).__qualname__, v.name)
        elif isinstance(v, _SIMPLE):
            self._text(type(v).__name__, repr(v))
        elif isinstance(v, (tuple, list)):
            self._text(type(v).__qualname__, str(len(v)))
            for item in v:
                self._value(item)
        elif isinstance(v, dict):
            self._text("dict", str(len(v)))
            for key in sorted(v, key=repr):
                self._value(key)
                self._value(v[key])
        elif isinstance(v, (frozenset, set)):
            self._text("set", *sorted(map(repr, v)))
        elif hasattr(v, "jaxpr") and hasattr(v, "consts"):  # these have .eqns, too
            self._jaxpr(v.jaxpr, v.consts)
        elif hasattr(v, "eqns"):
            self._jaxpr(v, ())
        else:
            self._object(v)

    def _object(self, v: Any) -> None:
        if isinstance(v, (np.dtype, type)):
            self._text("type", getattr(v, "name", None) or f"{v.__module__}.{v.__qualname__}")
        elif isinstance(v, (np.ndarray, np.generic)) or type(v).__name__ == "ArrayImpl":
            self._array(v)
        elif type(v).__name__ == "UnspecifiedValue":
            self._text("unspecified")
        elif type(v).__name__ in ("Mesh", "AbstractMesh") and getattr(v, "empty", False):
            self._text("no mesh")
        elif type(v).__module__.startswith("jax.") and hasattr(v, "__dataclass_fields__"):
            self._text(type(v).__qualname__)
            for name in v.__dataclass_fields__:
                self._value(getattr(v, name))
        elif hasattr(v, "shape") and hasattr(v, "dtype"):
            self._aval(v)
        else:
            raise Unknown(f"a parameter of type {type(v).__module__}.{type(v).__qualname__}")

    def _array(self, v: Any) -> None:
        dtype = str(v.dtype)
        if dtype.startswith("key<"):
            raise Unknown("a constant that is a random key")
        a = np.asarray(v)
        self._text("array", dtype, str(a.shape), str(bool(getattr(v, "weak_type", False))))
        self._hash.update(np.ascontiguousarray(a).tobytes())

    def _aval(self, a: Any) -> None:
        text = self._avals.get(id(a))
        if text is None:
            text = self._avals[id(a)] = _aval_text(a)
            self._alive.append(a)
        self._text("aval", text)

    # ---- equations ----

    def _jaxpr(self, jaxpr: Any, consts: Any) -> None:
        if not consts and id(jaxpr) in self._jaxprs:
            self._hash.update(self._jaxprs[id(jaxpr)])
            return
        inner = self._inner()
        inner._body(jaxpr, consts)
        found = inner._hash.digest()
        if not consts:
            self._jaxprs[id(jaxpr)] = found
            self._alive.append(jaxpr)
        self._hash.update(found)

    def _body(self, jaxpr: Any, consts: Any) -> None:
        if jaxpr.effects:
            raise Unknown("effects")
        numbers: Dict[Any, int] = {}
        self._text("jaxpr", str(len(jaxpr.constvars)), str(len(jaxpr.invars)))
        for var in (*jaxpr.constvars, *jaxpr.invars):
            numbers[var] = len(numbers)
            self._aval(var.aval)
        for const in consts:
            self._value(const)
        for eqn in jaxpr.eqns:
            self._equation(eqn, numbers)
        for atom in jaxpr.outvars:
            self._atom(atom, numbers)

    def _atom(self, atom: Any, numbers: Dict[Any, int]) -> None:
        if hasattr(atom, "val"):
            self._aval(atom.aval)
            self._value(atom.val)
        else:
            self._text("var", str(numbers[atom]))

    def _equation(self, eqn: Any, numbers: Dict[Any, int]) -> None:
        primitive = eqn.primitive.name
        if eqn.primitive not in _primitives:
            raise Unknown(f"a primitive that JAX does not define: {primitive}")
        self._text("eqn", primitive, str(len(eqn.invars)), str(len(eqn.outvars)))
        for atom in eqn.invars:
            self._atom(atom, numbers)
        for name in sorted(eqn.params):
            if (primitive, name) in _NAMES:
                continue
            self._text(name)
            value = eqn.params[name]
            if name in _RULES and primitive.startswith("custom_"):
                if self._differentiates:
                    Rule(self).add(value)
            elif name == "out_trees" or name == "debug_info":
                self._text(str(value) if name == "out_trees" and not callable(value) else "")
            else:
                self._value(value)
        self._context(getattr(eqn, "ctx", None))
        for var in eqn.outvars:
            numbers[var] = len(numbers)
            self._aval(var.aval)

    def _context(self, context: Any) -> None:
        """Adds the settings of the trace: compute type, random numbers, metadata."""
        found = [getattr(context, name, None) for name in _CONTEXT]
        if found == [None, True, None]:  # nearly always
            self._text("context")
            return
        for name, value in zip(_CONTEXT, found):
            if not isinstance(value, (*_SIMPLE, dict)):
                raise Unknown(f"a context with {name}")
            self._value(value)


class Rule:
    """One of JAX's own rules of differentiation, with all functions that it consists of."""

    def __init__(self, digest: Digest) -> None:
        self.digest = digest
        self.seen: Dict[int, int] = {}

    def add(self, v: Any, depth: int = 0) -> None:
        text = self.digest._text
        if isinstance(v, _SIMPLE) or isinstance(v, (enum.Enum, np.dtype)):
            self.digest._value(v)
            return
        if id(v) in self.seen:
            text("again", str(self.seen[id(v)]))
            return
        self.seen[id(v)] = len(self.seen)
        if depth > _MAX_CALLABLE_DEPTH:
            raise Unknown("a deep rule")
        if isinstance(v, types.FunctionType):
            self._function(v, depth + 1)
        elif isinstance(v, types.MethodType):
            self._all("method", (v.__func__, v.__self__), depth)
        elif isinstance(v, functools.partial):
            self._all("partial", (v.func, v.args, v.keywords), depth)
        elif isinstance(v, (tuple, list)):
            self._all(f"sequence {len(v)}", v, depth)
        elif isinstance(v, dict):
            keys = sorted(v, key=repr)
            self._all("dict", [*keys, *(v[k] for k in keys)], depth)
        else:
            self._object(v, depth)

    def _all(self, what: str, values: Any, depth: int) -> None:
        self.digest._text(what)
        for value in values:
            self.add(value, depth + 1)

    def _function(self, f: Any, depth: int) -> None:
        module = f.__globals__.get("__name__")  # wraps() copies __module__ from another function
        if not isinstance(module, str) or not _is_jax(module):
            raise Unknown(f"a rule that {module} defines")
        line = str(f.__code__.co_firstlineno)
        self.digest._text("function", module, f.__qualname__, line)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if name in ("cells", "sentinel", "store", "stores"):
                continue  # a cached value, and not an input
            self.digest._text(name)
            self.add(cell.cell_contents, depth)
        for value in (f.__defaults__, f.__kwdefaults__):
            self.add(value, depth)

    def _custom(self, v: Any, depth: int) -> None:
        """Adds a function with a rule, such as jax.nn.relu: all calls share the rule."""
        digest = self.digest
        if id(v) not in digest._rules:
            inner = Rule(digest._inner())
            inner.seen[id(v)] = 0
            parts = {n: a for n, a in vars(v).items() if not n.startswith("__")}
            inner._all(type(v).__name__, [parts[n] for n in sorted(parts)], depth)
            digest._rules[id(v)] = inner.digest._hash.digest()
            digest._alive.append(v)
        digest._hash.update(digest._rules[id(v)])

    def _object(self, v: Any, depth: int) -> None:
        kind = type(v).__name__
        if kind == "WrappedFun":
            parts = [getattr(v, n, None) for n in ("f", "transforms", "params", "in_type")]
            self._all(kind, parts, depth)
        elif kind in ("custom_jvp", "custom_vjp") and _is_jax(type(v).__module__):
            self._custom(v, depth)
        elif kind == "PjitFunction":
            self._all(kind, (v.__wrapped__,), depth)
        elif kind in ("DebugInfo", "Store", "EqualStore", "DynamicJaxprTrace"):
            self.digest._text(kind)  # the place of the trace, not its content
        elif kind == "PyTreeDef" or isinstance(v, inspect.Signature):
            self.digest._text(kind, str(v))
        elif isinstance(v, type) or isinstance(v, types.BuiltinFunctionType):
            self.digest._text("name", str(v.__module__), v.__qualname__)
        else:
            self.digest._value(v)  # arrays, jaxprs, types of values; else Unknown
