# SPDX-License-Identifier: Apache-2.0
"""What a compile of torch reads, beside the graph and torch's own files. This is the whole list.

    source                          kept by torch in            a change is seen by     what follows
    ------------------------------  --------------------------  ----------------------  ----------------------------
    decompositions, lowerings,      containers of the modules   identity of all values  not kept, unless the catalogue
    fallbacks, patterns, passes,    in _PACKAGES, and of their  (_marks.py), then their of this build has each entry
    meta and fake kernels, kernels  classes and objects         digests (_tables.py)    (_catalogue.py)
    of higher-order operators,
    devices' code generators
    kernels in Python for torch's   OpOverload.py_kernels; the  the same; hooks of the  the same
    operators                       dispatcher                  dispatcher's modules
    kernels in C++                  the dispatcher              libraries that are      not kept, if an operator of
                                                                loaded and register     torch has another dump
    constants in containers         the same modules            their digests           the same
    the containers that cached      functools.lru_cache         the same                the same
    functions have returned
    functions, classes, constants   the modules, their classes  their code; then        not kept, unless the catalogue
    of torch, sympy, Triton and     and objects                 versions of the         has each of them
    Python's own library                                        dictionaries
                                                                (_functions.py)
    code, defaults, bases that      the functions and classes   audit events            not kept, while it is another
    are changed in place            themselves                  (_in_place.py)
    what functions enclose          cells, lists, dictionaries  identity, at each       read again, as above
                                                                graph (_marks.py)
    operators under their names     torch.ops                   their names; methods    not kept
                                                                of one alone; tags;
                                                                hooks of what gives
                                                                them their functions
    Inductor's handlers             virtualized.threadlocal     their classes, and      not kept
                                                                functions they got
    how keys have an object         copyreg.dispatch_table      its functions           not kept
    config modules                  CONFIGS                     their values            in the key; a function of the
                                                                                        program: not kept
    switches of torch.backends,     torch._C; this thread's     SWITCHES, PRECISIONS,   in the key
    sympy's; denormal numbers       global_parameters; its CPU  SYMPY; a division
    settings of Triton, arguments   knobs, the environment;     _triton_reads.py        in the key; with those that
      of its autotuners             the kernels of a graph                              override or dump: not kept
    all of these, when a backward   as above                    digests of both         not kept with its forward
    pass is compiled at its first                                                       pass, if they differ
    run
    hooks of saved tensors, modes   the thread                  torch's own key and     –
                                                                Dynamo's graph
    compilers, decompositions that  AOTConfig, compile_fx's     identity                not kept
    a backend gives compile_fx      frame
    functions in a graph            its nodes, and those of     _operators.py           not kept
                                    each graph inside of it
    operators of others in a graph  all of these tables         membership              in the key; with a value that
                                                                                        is not torch's: not kept
    how arguments share memory      storages, offsets           _operators.py           in the key
    bounds of sizes that vary       ShapeEnv                    the same                in the key
    what a rank has of DTensors     the process                 rank, groups, parts     in the key
    this rank and its groups, for   the process                 settings of passes that     a graph with collectives:
    passes over collectives                                     read them (_settings.py)    not kept
    values of frozen parameters     attributes of the graph     their digests           in the key
    annotations of a graph          meta of nodes and bodies    their text              in the key; an object: not kept

What Dynamo reads (its tables, trace rules, frames) counts by the graph that it makes of it, and torch's keys have
this graph. Tables of caches, statistics and names of types are in _CACHES: nothing that they hold reaches a graph.
"""

from __future__ import annotations

import collections
import functools
import gc
import sys
import types
from typing import Any, Iterator

from warm import _marks
from warm._operators import _TORCH, is_of_torch

_PACKAGES = tuple(
    f"torch.{name}."
    for name in (
        "_inductor _functorch _decomp _refs _prims _prims_common _higher_order_ops _subclasses _library "
        "_meta_registrations _ops library fx.node fx.passes fx.experimental.proxy_tensor fx.experimental.sym_node "
        "fx.experimental.symbolic_shapes utils.flop_counter utils._python_dispatch _dynamo.device_interface "
        "_export.wrappers distributed.tensor distributed._functional_collectives"
    ).split()
)
_CACHES = frozenset(
    "cached_ops cache_stats._stats FxGraphCachePickler._pickleable_type_cache supported_vec_isa_list _registered_caches "
    "SUPPORTED_PARAM_TYPES SUPPORTED_RETURN_TYPES OPDEFS OPDEF_TO_LIB _OPAQUE_TYPES _OPAQUE_TYPES_BY_NAME "
    "FxCompile._compile_stats _HEURISTIC_CACHE KernelSideTable.id_to_kernel KernelSideTable.kernel_to_id "
    "KernelSideTable.constant_args kernel_side_table.id_to_kernel kernel_side_table.kernel_to_id "
    "kernel_side_table.constant_args _keep_alive _FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT PyCodeCache.modules "
    "PyCodeCache.linemaps counters CppPythonBindingsCodeCache._loaded_module_names _inductor_post_to_pre_grad_nodes "
    "_inductor_kernel_stack_trace _inductor_triton_kernel_to_post_grad_node_info _inductor_pre_grad_node_stack_trace".split()
)
_CACHE_NAMES = ("cache", "_member_map_", "_value2member_map_", "_member_names_")  # the last part of a cache's name

_OWNERS = ("torch._inductor.lowering", "torch._inductor.decomposition")  # `warm why` names tables by these

CONFIGS = ("torch._inductor.config", "torch._inductor.config_comms", "torch._functorch.config", "torch._dynamo.config",
           "torch.fx.experimental._config", "torch.compiler.config", "torch.distributed.config",
           "torch._export.config")  # fmt: skip

# Switches that choose operators or code while torch compiles: the getter in torch._C, and its value as torch sets it.
# What FxGraphHashDetails has (deterministic modes, precision of matmul, the default dtype) is not here.
SWITCHES: dict[str, Any] = {
    "_get_cudnn_enabled": True,
    "_get_cudnn_benchmark": False,
    "_get_cudnn_deterministic": False,
    "_get_cudnn_allow_tf32": True,
    "_get_mkldnn_enabled": True,
    "_get_mkldnn_deterministic": False,
    "_get_onednn_allow_tf32": False,
    "_get_nnpack_enabled": True,
    "_get_flash_sdp_enabled": True,
    "_get_mem_efficient_sdp_enabled": True,
    "_get_math_sdp_enabled": True,
    "_get_cudnn_sdp_enabled": True,
    "_get_overrideable_sdp_enabled": True,
    "_get_fa3_sdp_enabled": False,
    "_get_math_sdp_allow_fp16_bf16_reduction": False,
    "_get_float32_matmul_precision": "highest",
    "_get_cublas_allow_fp16_accumulation": False,
    "_get_cpu_allow_fp16_reduced_precision_reduction": False,
    "_get_miopen_immediate": False,
    "_is_view_replay_enabled": False,
    "_get_backcompat_broadcast_warn": False,
    "_is_grad_layout_enforcement_enabled": True,
}

# How exactly matmul, convolutions and RNNs compute float32: what torch sets. None of torch's keys has all of these.
PRECISIONS = {("generic", "all"): "none", ("cuda", "conv"): "tf32", ("cuda", "rnn"): "tf32",
              **{(backend, op): "none" for backend in ("cuda", "mkldnn") for op in ("all", "matmul")},
              **{("mkldnn", op): "none" for op in ("conv", "rnn")}}  # fmt: skip

SYMPY = {"evaluate": True, "distribute": True, "exp_is_pow": False}  # its settings, each as sympy sets it

SDP_ORDER = [1, 2, 0, 3, 4]  # of the kernels of scaled_dot_product_attention

kernels: dict[str, Any] = {}  # what Python gave the dispatcher: functions by "namespace::name/key"
bound: dict[int, tuple[Any, str]] = {}  # functions that the dispatcher gave for operators of torch, with their names, by id


def inside(value: Any) -> Any:
    return value.patterns if type(value).__name__ == "PatternMatcherPass" else value


def _is_container(value: Any) -> bool:
    return isinstance(value, (dict, list, set, collections.deque)) or type(value).__name__ == "OrderedSet"


_CACHED = type(functools.cache(len))
_DEPTH = 3  # of objects in objects in a class


def _returned(function: Any) -> Any:
    """Returns what a cached function without arguments has returned; None if it was not called."""
    caches = [held for held in gc.get_referents(function) if type(held) is dict and held is not vars(function)]
    found = [held[()] for held in caches if () in held]
    if found and type(found[0]).__name__ == "_lru_list_elem":  # of a maxsize: it refers to the arguments and the result
        found = gc.get_referents(found[0])
    return next(filter(_is_container, found), None)


def _holds(name: str, variable: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Returns the containers that a variable of a module holds: itself, what its class or object has, to some depth, or what it
    returned."""
    if _is_container(inside(value)):
        yield variable, value
    elif isinstance(value, _CACHED):
        yield f"{variable}()", _returned(value)
    elif isinstance(value, type):
        if value.__module__ == name:
            for k, v in list(vars(value).items()) if depth < _DEPTH else ():
                if not k.startswith("__"):
                    yield from _holds(name, f"{variable}.{k}", v, depth + 1)
    elif hasattr(type(value), "pattern_eq"):  # a part of a pattern: it counts in the passes that have it
        return
    elif str(type(value).__module__).startswith("torch.") and not isinstance(value, types.ModuleType):
        if depth < _DEPTH and type(value).__name__ not in ("OpOverload", "OpOverloadPacket"):  # those are in Operators
            for k, v in list(getattr(value, "__dict__", {}).items()):
                yield from _holds(name, f"{variable}.{k}", v, depth + 1)


def nested(value: Any, depth: int = 0) -> Iterator[Any]:
    """Returns a container, and those in it."""
    yield value
    for one in list(value.values()) if isinstance(value, dict) else list(value):
        one = inside(one)
        if depth < 4 and isinstance(one, (dict, list)):
            yield from nested(one, depth + 1)


def containers() -> dict[str, Any]:
    """Returns all containers of torch's modules that a compile may read, by the path that `at` takes."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for name, module in sorted(list(sys.modules.items()), key=lambda item: item[0] not in _OWNERS):
        if not (name + ".").startswith(_PACKAGES) or name in CONFIGS:
            continue
        for variable, value in list(vars(module).items()):
            for rest, one in _holds(name, variable, value) if not variable.startswith("__") else ():
                path, one = f"{name}:{rest}", inside(one)
                is_cache = rest in _CACHES or rest.rpartition(".")[2].endswith(_CACHE_NAMES)
                if _is_container(one) and id(one) not in seen and not is_cache:
                    seen.update(map(id, nested(one)))
                    found[path] = one
    return found


def at(path: str) -> Any:
    """Returns the container of a path, or None."""
    module, _, names = path.partition(":")
    value: Any = sys.modules.get(module)
    for name in names.removesuffix("()").split("."):
        value = vars(value).get(name) if hasattr(value, "__dict__") else None
    if names.endswith("()"):
        value = _returned(value) if isinstance(value, _CACHED) else None
    return inside(value)


def _inside(name: str, one: Any) -> Iterator[tuple[str, Any]]:
    """Returns what stands under a name: of "" (torch.ops) the namespaces of torch, of those the operators, of those the
    overloads; each with its name. Operators of higher order are objects of modules."""
    if name.count(".") == 2:
        return
    for rest, child in list(vars(one).items()):
        if name == "" and rest in _TORCH and rest != "higher_order" and isinstance(child, types.ModuleType):
            yield rest, child
        elif name and type(child).__name__ == ("OpOverload" if "." in name else "OpOverloadPacket"):
            yield f"{name}.{rest}", child


_OF_MODULES = frozenset("__name__ __doc__ __package__ __loader__ __spec__ name _dir".split())  # of a namespace's variables


def _strangers(name: str, one: Any) -> Iterator[tuple[str, Any]]:
    """Returns what stands where something of torch should: as _inside."""
    space = sys.modules["torch._ops"]._OpNamespace
    overloads = {rest or "default" for rest in getattr(one, "_overload_names", ()) if name.count(".") == 1}
    for rest, child in list(vars(one).items()):
        kind = type(child).__name__
        if name == "":
            is_torchs = rest not in _TORCH or rest == "higher_order" or (type(child) is space and child.name == rest)
        elif "." in name:
            is_torchs = rest not in overloads or kind in ("OpOverload", "TorchBindOpOverload")
        else:
            is_torchs = rest in _OF_MODULES or kind == "OpOverloadPacket"
        if not is_torchs:
            yield f"{name}.{rest}".lstrip("."), child


def all_operators() -> Iterator[tuple[str, Any]]:
    """Returns torch's operators and their overloads, with the names by which they are found."""
    todo = [("", sys.modules["torch"].ops)]
    for name, one in todo:  # which grows
        todo += _inside(name, one)
        if "." in name:
            yield name, one


class Operators:
    """torch's operators in this process, under the names by which they are found."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}  # and torch.ops, as "", with torch's namespaces
        self._watch = _marks.Watch()

    def changed(self) -> dict[str, Any]:
        """Returns the tables of kernels in Python of the operators that have changed since the last call; at first, of all."""
        todo = [(name, self._found[name]) for name in self._watch.changed()] or self._new([("", sys.modules["torch"].ops)])
        tables: dict[str, Any] = {}
        while todo:
            inside: list[tuple[str, Any]] = []
            for name, one in todo:
                if "." in name:
                    _look_at(name, one, tables)
                tables.update((f"torch.ops:{at} (replaced)", [type(child)]) for at, child in _strangers(name, one))
                inside += _inside(name, one)
            todo = self._new(inside)
        return tables

    def _new(self, named: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Returns those that were not found by these names before, and watches them."""
        new = [(name, one) for name, one in named if self._found.get(name) is not one]
        self._found.update(new)
        self._watch.add([name for name, _ in new], [vars(one) for _, one in new])
        return new


def _look_at(name: str, operator: Any, found: dict[str, Any]) -> None:
    """Adds the kernels of an operator that is found by a name; or, if it is another one or has own methods, itself."""
    held = vars(operator)
    if not _methods(type(operator)).isdisjoint(held) or not _is_bound(name, held):
        found[f"torch.ops:{name} (replaced)"] = [type(operator)]
    elif "py_kernels" in held:
        found[f"torch.ops:{name}"] = held["py_kernels"]
        found[f"torch.ops:{name} (by mode)"] = held.get("python_key_table", {})


def _is_bound(name: str, held: dict[str, Any]) -> bool:
    """Returns True if an operator, which has these attributes, is the one that the dispatcher has under the name by which it is
    found, and calls that."""
    space, packet, *overload = name.split(".")
    full = f"{space}::{packet}"
    if not overload:
        is_named = held.get("_qualified_op_name") == full
    else:
        schema, rest = held["_schema"], "" if overload[0] == "default" else overload[0]
        is_named = schema.name == full and schema.overload_name == rest and held["_overloadname"] == overload[0]
        full = f"{full}.{rest}" if rest else full
        is_named = is_named and held["_name"] == full
    calls = (bound.get(id(held[part]), (None, full))[1] for part in ("_op", "_op_dk") if part in held)
    return is_named and all(call == full for call in calls)


@functools.cache
def _methods(kind: type) -> frozenset[str]:
    return frozenset(name for base in kind.__mro__ for name, value in vars(base).items() if type(value) is types.FunctionType)


def leaves(value: Any, key: tuple[Any, ...] = (), depth: int = 0) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Returns the values of a container, and of those in it, with their keys. Order does not show."""
    if isinstance(value, dict):
        pairs: Any = [(key + (k,), v) for k, v in list(value.items())]
    else:
        pairs = [(key, v) for v in list(value)]
    for k, v in pairs:
        if k and k[-1] == "__builtins__":  # eval() puts it into its globals
            continue
        v = inside(v)
        if depth < 4 and isinstance(v, (dict, list)):
            yield from leaves(v, k, depth + 1)
        else:
            yield k, v


def is_of_others(key: Any, may_be_name: bool) -> bool:
    """Returns True for an operator of another namespace, or its name: graphs that call it are looked at (_operators.py)."""
    if type(key).__name__ in ("OpOverload", "OpOverloadPacket"):
        return str(key).partition(".")[0] not in _TORCH
    if may_be_name and isinstance(key, str) and "::" in key:
        return key.partition("::")[0] not in _TORCH
    return False


def is_empty(value: Any) -> bool:
    """Returns True for an entry that torch makes when it looks an operator up."""
    if type(value).__name__ != "SimpleOperatorEntry":
        return False
    fake = value.fake_impl
    held = (fake.kernels if hasattr(fake, "kernels") else fake.kernel,  # kernel before PyTorch 2.8
            value.torch_dispatch_rules._data, getattr(value, "effect", None), getattr(value, "symm_mem_args", None))  # fmt: skip
    return not (held[0] or held[1] or getattr(held[2], "_effect", None) or getattr(held[3], "_symm_mem_args", None))


_OF_OBJECTS = ("torch", "builtins", "functools", "typing", "sympy", "collections", "weakref", "operator", "_operator")
_CODE = (types.FunctionType, types.MethodType, functools.partial, type)


def is_foreign(value: Any) -> bool:
    """Returns True for a function, a class or a callable object of the program."""
    if isinstance(value, (*_CODE, types.BuiltinFunctionType)):
        return not is_of_torch(value)
    return callable(value) and str(type(value).__module__).partition(".")[0] not in _OF_OBJECTS


def is_read(value: Any) -> bool:
    """Returns True for a container with functions, operators, classes or objects of torch."""
    for key, one in leaves(value):
        for part in (*key, one):
            kind = type(part)
            if isinstance(part, _CODE) or str(kind.__module__).startswith("torch."):
                return True
    return False
