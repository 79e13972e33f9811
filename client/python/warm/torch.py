# SPDX-License-Identifier: Apache-2.0
"""torch's remote caches on the daemon: FX graphs, AOTAutograd, autotune results, dynamo's PGO.

torch has four remote caches of one form: a RemoteCache puts JSON into a backend of bytes. torch has one
backend, Redis. Backend takes its place, and decides which processes wait:

    FX graph     if many processes ask for one key at once, one compiles under a lease, and the others
                 wait. Between its get and its put torch does nothing but compile. If the graph has
                 collectives, the ranks talk to each other while they compile it, so no process waits.
    all others   answered at once. torch puts an AOTAutograd entry when it compiles the backward, perhaps
                 after the user's forward ran with its collectives. A waiter would then block the ranks
                 that compute. Instead, the daemon gives all ranks of a job the same answer.

Nothing here raises, because an exception of a put would end the training.

A value is JSON, {"data": base64 of a pickle, "time_taken_ms": 123}. It is stored as eight bytes of magic
and the pickle, with the time as the entry's cost, so that equal pickles are stored once. The daemon does
the same for clients that speak Redis (daemon/pytorch/torch_value.h).
"""

from __future__ import annotations

import binascii
import functools
import importlib.machinery
import os
import pkgutil
import re
import sys
import threading
import time
import weakref
from types import ModuleType
from typing import Any

from warm import _catalogue, _client, _dumps, _forms, _hardware, _identity, _operators, _settings

_LEASED, _AUTOGRAD = "pt2:fx-graph", "pt2:autograd"
_GRAPHS = (_LEASED, _AUTOGRAD)
_CHECKED = ":checked"  # ends a graph's name: what comes over RESP was not checked, and must not be taken
_HEAD = b'{"data": "'
_TAIL = re.compile(rb'", "time_taken_ms": (0|[1-9][0-9]{0,8})\}$')
_COST = re.compile(rb'"time_taken_ms": ([0-9]{1,9})')
_STORED = b"\0torch1\n"
_PICKLE = b"\x80"  # the first byte of every pickle since protocol 2


def unwrap(value: bytes) -> tuple[bytes, int]:
    """Returns the stored form of a value, and its cost in ms. If wrap() could not restore the value byte
    for byte, the stored form is the value itself."""
    tail = _TAIL.search(value, max(0, len(value) - 40))
    if not tail or not value.startswith(_HEAD):
        cost = _COST.search(value[-1024:])
        return value, int(cost.group(1)) if cost else 0
    text = value[len(_HEAD) : tail.start()]
    try:
        payload = binascii.a2b_base64(text)
    except binascii.Error:
        return value, 0
    if not payload.startswith(_PICKLE) or binascii.b2a_base64(payload, newline=False) != text:
        return value, 0
    return _STORED + payload, int(tail.group(1))


def wrap(stored: bytes, cost_ms: int) -> bytes:
    if not stored.startswith(_STORED):
        return stored
    text = binascii.b2a_base64(memoryview(stored)[len(_STORED) :], newline=False)
    return b'%s%s", "time_taken_ms": %d}' % (_HEAD, text, cost_ms)


def _is_graph(key: str, stored: bytes) -> bool:
    """Returns False if a value under a graph's name is no graph. torch would use any unpickled object as a
    graph, and the program would end. A pickle begins with its object's class."""
    if not key.startswith(_GRAPHS):
        return True
    return stored.startswith(_HEAD) or (stored.startswith(_STORED) and b"torch." in stored[:256])


def _name(key: str) -> str:
    return key + _CHECKED if key.startswith(_GRAPHS) else key


# ---- may a process wait? ----

_COLLECTIVES = ("c10d", "_c10d", "symm_mem", "_dtensor")  # how the namespaces of their operators begin
_graph = threading.local()  # .is_silent: True if the graph whose key was made last has no collectives


def has_collectives(gm: Any) -> bool:
    """Returns True if a torch.fx.GraphModule, or a subgraph of it, has collectives."""
    for module in gm.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if graph is not None else ():
            if str(getattr(node.target, "namespace", "")).startswith(_COLLECTIVES):
                return True
    return False


def _why_not_of_ranks(gm: Any) -> str:
    """Returns why a graph with collectives must not be kept, or ""."""
    name = _settings.of_ranks() if has_collectives(gm) else ""
    return f"with the setting {name} collectives have code for one rank: no key has which" if name else ""


def _may_wait() -> bool:
    """Returns True if the compile of a graph needs none of the ranks that would wait for it."""
    dist = sys.modules.get("torch.distributed")
    try:
        if dist is None or not dist.is_available() or not dist.is_initialized():
            return True
        if dist.get_world_size() == 1:
            return True
        config = sys.modules["torch._inductor.config"]
        if getattr(config, "distributed_max_autotune_gemm", False):
            return False
        return bool(getattr(_graph, "is_silent", False))
    except Exception:
        return False


def _why_not_of_kernels(gm: Any) -> str:
    """Returns why a graph with kernels of Triton that the program wrote must not be kept, or ""."""
    if "triton.runtime.jit" not in sys.modules:
        return ""
    from warm import _triton_reads

    return _triton_reads.why_not_in_graph(gm)


def _with_operators(codecache: ModuleType, gm: Any, inputs: Any, found: Any) -> Any:
    """Returns what prepare_key found for a graph, with its foreign operators, settings and inputs in the key."""
    if found[0] is None:
        return found
    try:
        why, text = _settings.settings(traces=False)
        why = why or _operators.why_not_lowered(gm) or _why_not_of_kernels(gm) or _why_not_of_ranks(gm) or _catalogue.why_not_kept()
        if not why:
            registered = _catalogue.registered(_operators.foreign(gm))
            parts = _operators.described(gm), text, registered, _operators.frozen(gm), _beside(gm, inputs)
            text = "\n".join(filter(None, parts))
    except Exception as e:
        why, text = str(e) or repr(e), ""
    if not why and not text:
        return found
    (key, details), about = found
    key = key[:1] + codecache.sha256_hash(f"{key} {why or text}".encode())
    if why:
        _refuse("bypass_fx_graph", key, why)
    return (key, details), about


def _beside(gm: Any, inputs: Any) -> str:
    """Returns what torch's keys lack of a graph and its inputs."""
    cache = sys.modules["torch._inductor.codecache"].FxGraphCache
    parts = [_operators.relations(inputs), _operators.bounds(cache._get_shape_env()), _operators.annotations(gm)]
    if "triton.runtime.jit" in sys.modules:
        from warm import _triton_reads

        parts.append(_triton_reads.in_graph(gm))
    return "\n".join(filter(None, parts))


def watch(codecache: ModuleType) -> None:
    """Hooks prepare_key: notes the collectives and the form of each graph before torch asks for it, and adds
    foreign operators to its key."""
    cache = codecache.FxGraphCache
    prepare_key = cache.prepare_key

    def prepare(*arguments: Any, **options: Any) -> Any:
        gm = arguments[0] if arguments else options.get("gm")
        try:
            _graph.is_silent = not has_collectives(gm)
        except Exception:
            _graph.is_silent = False
        inputs = arguments[1] if len(arguments) > 1 else options.get("example_inputs", ())
        found = _with_operators(codecache, gm, inputs, prepare_key(*arguments, **options))
        try:
            key, details = found[0]
            made_of = weakref.ref(gm)
            passed = arguments[2] if len(arguments) > 2 else {}
            if passed.get("is_backward"):
                _graph.backward = _settings.now()
            _graph.asked = key, lambda: _form(made_of(), passed, details)
        except Exception:  # found[0] is None: torch does not ask
            _graph.asked = None
        return found

    cache.prepare_key = staticmethod(prepare)


# ---- graphs that torch does not cache ----

_refused: set[str] = set()  # keys of graphs that must not be kept: torch's own folder has them, as without us


def _refuse(kind: str, key: str, why: str) -> None:
    """Keeps a graph out of the daemon, and tells it why. torch goes on as for any other graph: programs save what it has in its
    folder (standalone_compile, save_cache_artifacts), or let it raise if it has nothing (strict_autograd_cache)."""
    _refused.add(key)
    _client.client().note("uncacheable", _BYPASSED[kind], why[:200])


_BYPASSED = {"bypass_fx_graph": "a graph of TorchInductor", "bypass_aot_autograd": "a graph of AOTAutograd"}


def tell_bypasses(module: ModuleType) -> None:
    """Hooks log_cache_bypass: tells the daemon, for `warm why`, why torch does not cache a graph."""
    real = module.log_cache_bypass

    def log_cache_bypass(*arguments: Any, **options: Any) -> Any:
        try:
            kind, reason = arguments
            _client.client().note("uncacheable", _BYPASSED.get(kind, kind), str(reason)[:200])
        except Exception:
            pass
        return real(*arguments, **options)

    module.log_cache_bypass = log_cache_bypass  # type: ignore[attr-defined]


# ---- the key of torch's own sources ----


def _sources(root: str) -> list[str]:
    """Returns all files below a package that torch_key() may read: the modules of packages. Of a module
    with several files it reads one; here all of them count."""
    suffixes = tuple(importlib.machinery.all_suffixes())
    found, folders = [], [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
        if not any(entry.name.startswith("__init__.") for entry in inside):
            continue
        found += [entry.path for entry in inside if entry.name.endswith(suffixes)]
        folders += [entry.path for entry in inside if "." not in entry.name and entry.is_dir()]
    return found


def key_name(codecache: ModuleType) -> str | None:
    """Returns the name under which torch_key() of these sources is stored; None if only torch knows it."""
    root, inductor = codecache._TORCH_PATH, os.path.dirname(codecache.__file__ or "")
    if codecache.config.is_fbcode() or not isinstance(pkgutil.get_importer(root), importlib.machinery.FileFinder):
        return None
    extra = [os.path.join(inductor, "codegen", "aoti_runtime", "interface.cpp"), os.path.join(inductor, "script.ld")]
    here = [path for path in extra if os.path.exists(path)]
    identity, is_settled = _identity.of_files(_sources(root) + here + [codecache.__file__ or ""])
    version = codecache.torch.__version__
    return f"torch-key:{sys.implementation.cache_tag}:{version}:{identity}" if is_settled else None


def remember_key(codecache: ModuleType) -> None:
    """Remembers torch_key() by the identity of torch's sources. It is a digest of them all, so torch itself
    reads them in each process. Its value stays torch's own."""
    real = codecache.torch_key
    set_value = real.set  # absent in other versions: then nothing is remembered
    asked: list[bool] = []

    @functools.wraps(real)  # with set, clear and prefetch
    def torch_key() -> bytes:
        if not asked:
            asked.append(True)
            try:
                name = key_name(codecache)
                known = _client.client().get(name) if name else None
                if known is not None and len(known) == 32:
                    set_value(known)
                elif name:
                    key = real()
                    if key_name(codecache) == name:
                        _client.client().put(name, key, kind="other", label="torch_key")
            except Exception:  # it is set already, or a file is gone: torch computes it
                pass
        return real()

    codecache.torch_key = torch_key  # type: ignore[attr-defined]


# ---- torch's backend ----


_PLAIN = (bool, int, float, str, type(None))  # types whose text is their value
_DETAIL = re.compile(r"\[(\w+)\] ([^:]+): (.*)", re.DOTALL)  # as torch prints a part of a key
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_DETAIL_MAX = 64 << 10  # characters
_FORMS_MAX = 16  # forms of graphs that torch has not put yet; it never puts some


def _detail_lines(details: list[str], options: dict[str, Any]) -> list[str]:
    """Returns the other parts of a key: the inputs, and the options whose text is not their value."""
    lines = []
    for detail in details:
        part = _DETAIL.match(detail)
        if not part or part[2] == "gm" or part[2].partition("[")[2].rstrip("]") in options:
            continue
        text = _ADDRESS.sub("", " ".join(part[3].split()))[:_DETAIL_MAX]
        lines += [f"option {part[2]}: {text}", f"option {part[2]}, digest: {part[1][:12]}"]
    return lines


def _form(gm: Any, passed: dict[str, Any], details: list[str]) -> list[str]:
    """Returns a graph as text, before torch's passes change it: options, code and the other parts of its key."""
    values = {**sys.modules["torch._inductor.config"].save_config_portable(), **passed}
    plain = {name: value for name, value in values.items() if isinstance(value, _PLAIN)}
    code = gm.print_readable(print_output=False, include_stride=True, include_device=True)
    return [
        *(f"option {name}: {value}" for name, value in sorted(plain.items())),
        *(line for line in code.split("\n") if not line.lstrip().startswith("#")),
        *_detail_lines(details, plain),
    ]


def check_operators(module: ModuleType) -> None:
    """Hooks check_cacheable: notes why a graph with operators whose code is in no key must not be kept."""
    real = module.check_cacheable

    def check_cacheable(gm: Any) -> None:
        real(gm)
        try:
            why = _operators.why_not_traced(gm) or _why_not_of_kernels(gm) or _why_not_of_ranks(gm) or _catalogue.why_not_kept()
            if not why and getattr(_graph, "autograd", None):
                _graph.is_looked_at = _catalogue.is_there()
        except Exception as e:
            why = repr(e)
        _graph.why = getattr(_graph, "why", "") or why

    module.check_cacheable = check_cacheable  # type: ignore[attr-defined]


def _is_bundled() -> bool:
    """Returns True if an entry of AOTAutograd has the code, too."""
    module = sys.modules["torch._functorch._aot_autograd.autograd_cache"]
    return bool(getattr(module, "should_bundle_autograd_cache", bool)())


def check_config(module: ModuleType) -> None:
    """Hooks the parts of AOTAutograd's key: it keeps no graph with compilers of others; settings count, and what the
    inputs are to each other."""
    details = module.AOTAutogradCacheDetails
    init = details.__init__

    def __init__(self: Any, gm: Any, inputs: Any, config: Any, *arguments: Any, **options: Any) -> None:
        init(self, gm, inputs, config, *arguments, **options)
        codecache = sys.modules["torch._inductor.codecache"]
        try:
            why, settings = _settings.settings(traces=True)
            why, beside = why or _settings.why_not_of_config(config), f"{_beside(gm, inputs)}{_operators.rank(gm, inputs)}"
            if _is_bundled():  # the code is in this entry, and not note_vectors()'s
                settings += f" {_vectors(codecache)}"
        except Exception as e:
            why, settings, beside = str(e) or repr(e), "", ""
        _graph.why = why = getattr(_graph, "why", "") or why
        if why:
            self.warm_why = why
        if settings:
            self.warm_settings = settings
        if beside:
            self.warm_beside = beside

    details.__init__ = __init__


def refuse_keys(module: ModuleType) -> None:
    """Hooks autograd_cache_key: refuses the keys of graphs that must not be kept."""
    real = module.autograd_cache_key

    @functools.wraps(real)
    def autograd_cache_key(*arguments: Any, **options: Any) -> Any:
        _graph.why, _graph.backward = "", None
        found = real(*arguments, **options)
        if _graph.why:
            _refuse("bypass_aot_autograd", found[0], _graph.why)
        return found

    module.autograd_cache_key = autograd_cache_key  # type: ignore[attr-defined]


def watch_autograd(module: ModuleType) -> None:
    """Hooks try_load: notes the form of each graph of AOTAutograd before torch asks for it. Torch prints the
    parts of such a key for its log alone. So they are made again if the graph is not in the cache."""
    cache = module.AOTAutogradCache
    try_load = cache.try_load

    def load(*arguments: Any, **options: Any) -> Any:  # other versions may take others
        def form() -> list[str]:
            mod, inputs, config, extra = arguments[:4]
            gm = getattr(mod, "gm", mod)
            with module.sanitize_gm_for_cache(gm):
                parts = module.AOTAutogradCacheDetails(gm, inputs, config, module.create_fx_config(extra))
                return _form(gm, {}, module.AOTAutogradCachePickler(gm).debug_lines(parts))

        _graph.autograd = form
        try:
            return try_load(*arguments, **options)
        finally:
            _graph.autograd, _graph.is_looked_at = None, False

    cache.try_load = staticmethod(load)


_EMBEDDED = "// Triton kernels are embedded as comments in "


def name_kernels(codecache: ModuleType) -> None:
    """Hooks write: the first line of AOTInductor's kernels, a comment, has the path of a file beside them, and a file's
    name is a hash of its content. With the name alone, a kernel has the same name in every folder."""
    real = codecache.write

    def write(content: Any, extension: str, *arguments: Any, **options: Any) -> Any:
        if extension == "kernel.cpp" and isinstance(content, str) and content.startswith(_EMBEDDED):
            line, newline, rest = content.partition("\n")
            content = _EMBEDDED + os.path.basename(line) + newline + rest
        return real(content, extension, *arguments, **options)

    codecache.write = write  # type: ignore[attr-defined]


def _vectors(codecache: ModuleType) -> str:
    """Returns the name of the vector instructions for which TorchInductor makes code, with what else it asks of the CPU."""
    fp16 = sys.modules["torch"].cpu._is_amx_fp16_supported
    return f"{codecache.pick_vec_isa()}{' amx_fp16' if fp16() else ''}"


def note_vectors(codecache: ModuleType) -> None:
    """Hooks _save_graph: a graph with code for the CPU has the name of its vector instructions. Its loops take as
    many values at once as these have lanes, and no key has their name."""
    cache = codecache.FxGraphCache
    save = cache._save_graph

    def save_graph(key: Any, graph: Any, *arguments: Any, **options: Any) -> Any:
        try:
            if "cpu" in graph.device_types:
                graph.warm_vectors = _vectors(codecache)
        except Exception:
            pass
        return save(key, graph, *arguments, **options)

    cache._save_graph = staticmethod(save_graph)


def _is_for_others(codecache: ModuleType, graph: Any) -> bool:
    """Returns True if a stored graph has loops for other vector instructions than this process uses."""
    vectors = getattr(graph, "warm_vectors", None)
    return vectors is not None and vectors != _vectors(codecache)


def tell_guards(codecache: ModuleType) -> None:
    """Hooks find_guarded_entry: refuses a graph for other vector instructions. Tells the daemon, for `warm why`, that
    torch found an entry and refused it."""
    cache = codecache.GuardedCache
    find = cache.find_guarded_entry.__func__

    def find_guarded_entry(cls: Any, *arguments: Any, **options: Any) -> Any:
        found = find(cls, *arguments, **options)
        kind = _BYPASSED["bypass_fx_graph" if cls is codecache.FxGraphCache else "bypass_aot_autograd"]
        if _is_for_others(codecache, found[0]):
            guard = f"the vector instructions {found[0].warm_vectors}"
            found = None, None, {"cache_status_detailed": "guard_miss", "cache_status_guard_expr": guard}
        try:
            status = found[2]
            if status["cache_status_detailed"] == "guard_miss":
                guard = " ".join(str(status.get("cache_status_guard_expr")).split())
                _client.client().note("uncacheable", kind, f"the stored graph is only for {guard}"[:200])
        except Exception:
            pass
        return found

    cache.find_guarded_entry = classmethod(find_guarded_entry)


def _form_of(key: str) -> list[str]:
    """Returns the form of the graph that this thread asks for now."""
    try:
        if key.startswith(_AUTOGRAD):
            return _graph.autograd()  # type: ignore[no-any-return]
        name, form = _graph.asked
        return form() if name in key else []
    except Exception:  # torch is not as expected, or nothing was noted for this graph
        return []


_told: list[str] = []  # the dump of which `warm why` knows


def _is_dumping() -> bool:
    """Returns True while torch dumps: then nothing is kept or taken (_dumps.py)."""
    dump = _dumps.torch()
    if dump and dump not in _told:
        _told.append(dump)
        _client.client().note("uncacheable", "PyTorch", f"not kept: {dump}: a hit would not write the dump")
    return bool(dump)


def _why_not_taken() -> str:
    """Returns why no graph must be taken now, or "". Between the key of a graph of AOTAutograd and its load only torch runs, so the
    look for the key is the look for the graph and for the code in it."""
    return "" if getattr(_graph, "is_looked_at", False) else _catalogue.why_not_taken()


def _is_refused(name: str) -> bool:
    """Returns True for the name of a graph with a refused key: "pt2:KIND::KEY:c1"."""
    return name.partition("::")[2].rpartition(":")[0] in _refused


class Backend:
    """The backend of one of torch's cache objects. Each FX graph has its own cache object. torch drops it
    after the compile, which ends an unfulfilled lease."""

    def __init__(self) -> None:
        self._client = _client.client()
        self._leases: dict[str, _client.Lease] = {}
        self._forms: dict[str, list[str]] = {}
        self._set: dict[str, _settings.Set] = {}  # when keys of AOTAutograd were made

    def get(self, key: str) -> bytes | None:
        if _is_dumping() or _is_refused(key):
            return None
        key = _name(key)
        try:
            waits = key.startswith(_LEASED) and _may_wait()
            if key.startswith(_GRAPHS) and not waits and not _catalogue.is_there_for_all():
                self._keep_form(key)
                return None
            lease = self._client.lease(key) if waits else self._client.find(key)
            if key.startswith(_GRAPHS) and (lease.value is None or _why_not_taken()):
                self._keep_form(key)
                if lease.value is not None:
                    return None
        except Exception:
            return None
        if lease.held:
            self._leases[key] = lease
        if lease.value is None or not _is_graph(key, lease.value):
            return None
        return wrap(lease.value, lease.cost_ms)

    def _keep_form(self, key: str) -> None:
        if key.startswith(_AUTOGRAD):
            self._set[key] = _settings.now()
        self._forms[key] = _form_of(key)
        if len(self._forms) > _FORMS_MAX:
            self._forms.pop(next(iter(self._forms)), None)

    def put(self, key: str, data: bytes) -> None:
        if _is_dumping() or _is_refused(key):
            return
        key = _name(key)
        try:
            if key.startswith(_GRAPHS) and _catalogue.why_not_kept():  # since its key was made
                return
            if key.startswith(_AUTOGRAD) and self._is_mixed(key):
                return
            payload, cost_ms = unwrap(data)
            lease = self._leases.pop(key, None) or self._client.unasked(key)
            form, hardware = self._forms.pop(key, None), _hardware.of_torch()

            def store() -> None:
                lease.put(payload, cost_ms=cost_ms, compiler="PyTorch", hardware=hardware)
                if form:
                    _forms.keep(key, "", cost_ms, lambda: form)

            if key.startswith(_GRAPHS):
                _catalogue.when_there(store)
            else:
                store()
        except Exception:
            pass

    def _is_mixed(self, key: str) -> bool:
        """Returns True if the backward pass of a graph was compiled with other settings than the graph: torch compiles it when it
        first runs, and puts both under the graph's key."""
        backward = _graph.__dict__.pop("backward", None)
        if backward is None and _is_bundled():
            backward = _settings.now()
        forward = self._set.pop(key, None)
        if backward is None or (forward is not None and not _settings.differ(forward, backward)):
            return False
        self._client.note("uncacheable", _BYPASSED["bypass_aot_autograd"], "settings changed before its backward pass was compiled")
        return True


def install(remote_cache: ModuleType) -> None:
    """Makes Backend the backend of every cache that torch makes from now on."""
    cache = remote_cache.RedisRemoteCache
    if cache.backend_override_cls is None:
        cache.backend_override_cls = Backend
