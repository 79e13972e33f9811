# SPDX-License-Identifier: Apache-2.0
"""What a compile of Triton reads, and which of it is in Triton's key. What is not, is in ours, or nothing is kept.

    source                         in Triton's key          what we do
    the kernel's and its helpers'  yes (cache_key)           nothing
      source, first lines
    the same, changed after the    no: it is made once       not kept
      key was made
    where in its file a function   the first decorator's     the distance to its def, and the column of that
      stands                         line
    target, options, ptxas         yes                       nothing
    libraries among the options    by their first content    one that changed since: not kept
    globals and closures that      only tl.constexpr, by     their values in our key, by type and content;
      they name, modules' and      name                      one that has no content here: not kept
      classes' attributes
    defaults of parameters, repr=  no                        as globals
    builtins of the program        no                        their code, as functions below
    attributes of functions        no                        as globals
    tl.static_print                as source                 not kept: it prints while it compiles
    functions that a               their own source alone    their code, and as globals what that names,
      constexpr_function calls                               to any depth
    constants of the signature     str() of each             by type and content
    knobs, environment             some variables            every plain knob that is not at its default, and
                                                             every variable of _VARIABLES
    all settings, and the          torch: none; it puts      the same in torch's keys: of_torch()
      autotuner's arguments          kernels into graphs
    overrides, dumps, hooks that   no                        neither get nor put: why_off()
      replace or watch stages
    Triton's own functions         as files                  one that the program replaced: neither get nor put
    backends, sources, functions   what they say             not kept
      of classes, or with methods,
      that are the program's

A kernel of which nothing of this is special has the name of Triton's key alone. Triton's key lacks the path of the
kernel's file, too: the line table of a hit may name the place where the kernel stood when it was compiled.

Triton makes its key before it asks its cache, in the same thread. There we note what the kernel reads; the cache
manager takes the note. Without that function (Triton before 3.5) nothing of Triton is kept.

Any thread; the note is the thread's own.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import enum
import gc
import hashlib
import os
import sys
import threading
import types
from typing import Any, Iterator

from warm import _dumps, _library, _marks

_VARIABLES = ("TRITON_", "LLVM_", "MLIR_", "NVPTX_", "PTXAS_", "AMDGCN_", "DISABLE_", "USE_IR_", "ALLOW_", "PROTON_")
_PLACES = (
    "TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_CACHE_MANAGER", "TRITON_DUMP_DIR", "TRITON_OVERRIDE_DIR",
    "TRITON_CACHE_AUTOTUNING", "TRITON_PRINT_AUTOTUNING",
)  # fmt: skip  # folders; what changes no code
_OF_OPTIONS = ("TRITON_DEFAULT_BACKEND", "TRITON_DEFAULT_FP_FUSION")  # which are in Triton's key
_GROUPS = ("compilation", "language", "nvidia", "amd", "runtime")  # of knobs
_OFF = (
    "compilation.override", "compilation.always_compile", "compilation.store_binary_only", "compilation.use_ir_loc",
    "compilation.instrumentation_mode", "compilation.front_end_debugging", "compilation.enable_asan",
    "runtime.add_stages_inspection_hook", "runtime.interpret", "amd.swap_mir", "build.impl",
)  # fmt: skip
_OFF_VARIABLES = ("LLVM_PASS_PLUGIN_PATH", "TRITON_PLUGIN_PATHS")  # libraries with passes of their own
_WATCHERS = ("listener", "jit_cache_hook", "jit_post_compile_hook", "debug")  # knobs that change no code
_TOOLS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
_OF_AUTOTUNERS = ("restore_value", "reset_to_zero", "restore_idx", "reset_idx")
_OF_PARAMETERS = ("do_not_specialize", "do_not_specialize_on_alignment")
_SET_BY_TORCH = ("variable TRITON_PTXAS", "variable TRITON_LIBDEVICE_PATH", "knob nvidia.libdevice_path", "tools ")  # lines
_NODES_MAX = 4000  # values that one kernel may read


class Unknown(Exception):
    """Raised for a value whose content is not known."""


# ---- is the cache off? ----


def why_off() -> str:
    """Returns the setting with which nothing of Triton may be kept or taken, or "". One function for the cache
    manager and for the stages."""
    try:
        return _set_off() or _replaced()
    except _library.Unavailable as e:
        return str(e)


def _set_off() -> str:
    knobs = sys.modules.get("triton.knobs")
    for path in _OFF:
        group, _, name = path.partition(".")
        if getattr(getattr(knobs, group, None), name, None):
            return f"triton.knobs.{path}"
    plugin = next((name for name in _OFF_VARIABLES if os.environ.get(name)), "")
    return plugin or _dumps.triton()


# ---- functions of Triton that the program replaced ----

_OWN = ("triton.compiler", "triton.backends", "triton.language", "triton.runtime.jit", "triton.experimental")
_HOLDERS = {"staticmethod": "__func__", "classmethod": "__func__", "JITFunction": "fn", "GluonJITFunction": "fn",
            "ConstexprFunction": "fn"}  # fmt: skip
_MAY_BE_GENERATED = "<string>"  # methods of dataclasses have this file
_first: list[tuple[Any, dict[str, Any]]] = []  # dictionaries of names, and copies from when Triton was loaded
_judged: list[_Judged] = []  # the last one, if no thread has it in its hands

def _dictionaries() -> list[Any]:
    """Returns the names of Triton's modules and of their classes."""
    return [one for module in list(sys.modules.items()) for one in _of_module(*module)] + _of_libtriton()


def _of_module(name: str, module: types.ModuleType | None) -> list[Any]:
    """Returns the names of a module and of its classes, if a compile of Triton may call them."""
    if not name.startswith(_OWN) or module is None:
        return []
    values = list(vars(module).values())
    classes = (v for v in values if isinstance(v, type) and v.__module__ == name)
    functions = (v for v in values if type(v).__name__ in _HOLDERS and hasattr(v, "_src") and v.__module__ == name)
    return [vars(module), *(vars(one) for one in (*classes, *functions))]


def _of_libtriton() -> list[Any]:
    """Returns the names of the modules and classes that are written in C++: builders of IR, passes."""
    library = sys.modules.get("triton._C.libtriton")
    found, todo = [], [library] if library is not None else []
    for module in todo:  # which grows
        values = list(vars(module).values())
        found += [vars(module), *(vars(value) for value in values if isinstance(value, type))]
        todo += [v for v in values if isinstance(v, types.ModuleType) and v.__name__.startswith(f"{module.__name__}.")]
    return found


def _is_own(function: types.FunctionType, folders: tuple[str, ...]) -> bool:
    """True if the function is from a file of these folders, and so is all that it wraps: a decorator of Triton makes
    functions of its own of a program's."""
    file = function.__code__.co_filename
    if file == _MAY_BE_GENERATED:
        return str(function.__module__).startswith("triton.")
    return file.startswith(folders) and all(_wraps_own(inner, folders) for inner in _wrapped(function))


def _wrapped(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            inner = getattr(cell.cell_contents, "fn", cell.cell_contents)
        except ValueError:  # it is empty
            continue
        if callable(inner) and inner is not function:
            yield inner


def _wraps_own(inner: Any, folders: tuple[str, ...]) -> bool:
    """True for functions of these folders, classes and functions in C; a bound method, or an object that can be called,
    may be the program's."""
    if type(inner) is types.FunctionType:
        return _is_own(inner, folders)
    if isinstance(inner, types.MethodType):
        return _wraps_own(inner.__func__, folders) and _wraps_own(type(inner.__self__), folders)
    kind = inner if isinstance(inner, type) else type(inner)
    return kind is types.BuiltinFunctionType or kind.__module__.partition(".")[0] in ("triton", "builtins", "typing", "warm")


def _foreign(names: Any, folders: tuple[str, ...]) -> str:
    """Returns the name of a function that is from no file of Triton, of Python or of ours, or ""."""
    for name, value in list(names.items()):
        how = _HOLDERS.get(type(value).__name__)
        function = value if how is None else getattr(value, how, value)
        if type(function) is types.FunctionType and not _is_own(function, folders):
            return f"{names.get('__name__') or names.get('__module__')}.{name}"
    return ""


def remember(module: types.ModuleType) -> None:
    """Remembers what Triton's names refer to: all that are there with triton.language, and those of each later module."""
    found = _of_module(module.__name__, module) if _first else _dictionaries()
    _first.extend((names, dict(names)) for names in found)


def _swapped(folders: tuple[str, ...]) -> str:
    """Returns the name of a function or class in whose place there is another one, perhaps of Triton, or ""."""
    for names, first in _first:
        for name, value in first.items():
            now = names.get(name)
            is_hook = type(now) is types.FunctionType and now.__code__.co_filename.startswith(folders)
            if now is not value and (callable(value) or name == "_src") and not is_hook:
                return f"{first.get('__name__') or first.get('__module__')}.{name}"
        for name in names.keys() - first.keys() if isinstance(names, types.MappingProxyType) else ():
            if type(names[name]) is not types.FunctionType and not name.startswith(("__", "_abc")):  # _foreign looks at those
                return f"{first.get('__module__')}.{name}"
        for name in names.keys() - first.keys() if "_src" in first else ():
            if callable(names[name]):
                return f"{first.get('__name__')}.{name}"
    return ""


def _n_modules() -> int:
    return sum(name.startswith(_OWN) for name in sys.modules)


class _Judged:
    """What Triton's names refer to, and what is to be said of it."""

    def __init__(self) -> None:
        import triton

        files = (triton.__file__, __file__, os.__file__)
        folders = (*(os.path.dirname(file) + os.sep for file in files), "<frozen ")
        dictionaries = _dictionaries()
        self._n_modules = _n_modules()
        self._watch = _marks.Watch(compares=True)
        self._watch.add(["modules"], [sys.modules])
        self._watch.add(["names"] * len(dictionaries), [_inside(names) for names in dictionaries])
        swapped = _swapped(folders[1:2])  # but for ours
        self.why = swapped or next(filter(None, (_foreign(names, folders) for names in dictionaries)), "")

    def is_as_before(self) -> bool:
        changed = self._watch.changed()  # which tells each change once
        return not changed or ("names" not in changed and _n_modules() == self._n_modules)


def _inside(names: Any) -> Any:
    """Returns the dictionary that a class has its names in."""
    return gc.get_referents(names)[0] if isinstance(names, types.MappingProxyType) else names


def _replaced() -> str:
    """Returns the name of a function of Triton that the program replaced, or ""."""
    try:
        judged = _judged.pop()
        if not judged.is_as_before():
            judged = _Judged()
    except IndexError:
        judged = _Judged()
    _judged[:] = [judged]
    return judged.why


# ---- objects of Triton's classes ----


def _is_tritons_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    if kind.__module__.startswith("triton."):
        return vars(module or types).get(kind.__name__) is kind
    return kind.__module__ in ("builtins", "typing", "abc")


def _is_as_made(value: Any) -> bool:
    """True for an object whose class and all that it inherits are Triton's, and that has no other methods than these."""
    kind = type(value)
    own = (getattr(kind, name, None) for name in getattr(value, "__dict__", ()))
    return all(map(_is_tritons_class, kind.__mro__)) and not any(isinstance(v, (types.FunctionType, property)) for v in own)


def _changed_library(backend: Any, options: Any) -> str:
    """Returns a library among the options, not one of Triton's own, that changed after Triton hashed it, or ""."""
    file_hash = getattr(sys.modules[type(backend).__module__], "file_hash", None)
    home = os.path.dirname(sys.modules["triton"].__file__ or "") + os.sep
    for _, path in getattr(options, "extern_libs", None) or ():
        if not str(path).startswith(home) and (file_hash is None or file_hash(path) != file_hash.__wrapped__(path)):
            return str(path)
    return ""


# ---- what a kernel reads ----

_NUMBERS = (bool, int, float, type(None))  # str() of one is no str() of another
_PLAIN = (*_NUMBERS, complex, str, bytes, type(Ellipsis))
_STANDARD = os.path.dirname(os.__file__) + os.sep
_PURE = frozenset(
    "builtins math cmath functools operator itertools typing enum dataclasses collections copy numbers string struct "
    "fractions decimal abc types contextlib".split()
)  # modules of Python whose functions depend on their arguments alone
_IMPURE = frozenset(
    "open __import__ eval exec compile globals locals vars input breakpoint id hash dir memoryview getattr attrgetter "
    "methodcaller __getattribute__".split()
)
_SKIPPED = frozenset(("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__"))
_ROOTS = {"triton": "triton", "tl": "triton.language", "language": "triton.language"}  # as programs name them


def _is_jit(value: Any) -> bool:
    jit = sys.modules["triton.runtime.jit"]
    return isinstance(value, getattr(jit, "JITCallable", None) or jit.JITFunction)


def _is_tritons(value: Any) -> bool:
    """True for a module, a class or a function of Triton's own files."""
    import triton

    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] == "triton" and sys.modules.get(value.__name__) is value
    if isinstance(value, type):
        return value.__module__.startswith("triton.") and hasattr(sys.modules.get(value.__module__), value.__name__)
    function = getattr(value, "fn", value)
    if type(function) is types.FunctionType:
        return _is_own(function, (os.path.dirname(triton.__file__) + os.sep, _STANDARD, "<frozen "))
    return False


def _is_pure(value: Any) -> bool:
    """True for what belongs to a module of Python that depends on nothing outside."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or ""
    module = sys.modules.get(name)
    if module is None or name.partition(".")[0] not in _PURE:
        return False
    file = getattr(module, "__file__", None)
    return file is None or (file.startswith(_STANDARD) and "-packages" + os.sep not in file)


class _Reads:
    """The values that one kernel reads, as lines of text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.places: list[str] = []  # of functions in their files, as line tables have them
        self._numbers: dict[int, int] = {}  # of functions and classes, by identity
        self._kept: list[Any] = []  # they stay alive, so that an identity stays theirs

    def _number(self, value: Any) -> tuple[int, bool]:
        """Returns the number of a value, and True if it is new."""
        known = self._numbers.get(id(value))
        if known is not None:
            return known, False
        if len(self._kept) >= _NODES_MAX:
            raise Unknown("too many values")
        self._kept.append(value)
        self._numbers[id(value)] = len(self._kept)
        return len(self._kept), True

    def text(self, value: Any) -> str:
        """Returns a text that is equal for equal values alone. Raises Unknown."""
        kind = type(value)
        if kind in _PLAIN:
            return f"{kind.__name__} {value!r}"
        if kind in (tuple, list):
            return f"{kind.__name__}({', '.join(map(self.text, value))})"
        if isinstance(value, tuple) and hasattr(value, "_fields"):  # a namedtuple
            return f"{self.text(kind)}{value._fields}({', '.join(map(self.text, value))})"
        if kind is dict:
            return f"dict({', '.join(f'{self.text(k)}: {self.text(v)}' for k, v in value.items())})"
        if kind in (set, frozenset):
            return f"{kind.__name__}({', '.join(sorted(map(self.text, value)))})"
        if kind in (staticmethod, classmethod):
            return f"{kind.__name__}({self.text(value.__func__)})"
        if kind is property:
            return f"property({self.text([value.fget, value.fset])})"
        return self._of_triton(value) or self._of_python(value)

    def _of_triton(self, value: Any) -> str:
        kind = type(value)
        if _is_jit(value):
            return self._jit(value)
        if _is_tritons(value):
            return f"triton {value.__name__ if isinstance(value, types.ModuleType) else _full_name(value)}"
        if not _is_tritons(kind):
            return ""
        if kind.__name__ == "constexpr":
            return f"constexpr({self.text(value.value)})"
        if kind.__name__ == "dtype":
            return f"dtype {value!r}"
        if kind.__name__ == "pointer_type":
            return f"pointer({self.text(value.element_ty)}, {self.text(value.address_space)}, {value!r})"
        if kind.__name__ == "tuple":
            return f"tl.tuple({self.text(list(value.values))})"
        if dataclasses.is_dataclass(kind):  # layouts of Gluon
            fields = (f"{field.name}={self.text(getattr(value, field.name))}" for field in dataclasses.fields(value))
            return f"{_full_name(kind)}({', '.join(fields)})"
        return ""

    def _of_python(self, value: Any) -> str:
        kind = type(value)
        if isinstance(value, enum.Enum):
            return f"{self.text(kind)}.{value.name}({self.text(value.value)})"
        if isinstance(value, type):
            return self._class(value)
        if kind is types.FunctionType:
            return self._function(value)
        if kind is types.BuiltinFunctionType and _is_pure(value):
            return f"builtin {_full_name(value)}"
        if isinstance(value, types.ModuleType) and _is_pure(value):
            return f"module {value.__name__}"
        if kind.__module__ == "torch" and kind.__name__ == "dtype":
            return f"torch.dtype {value!r}"
        if any(c.__module__ == "numpy" and c.__name__ == "number" for c in kind.__mro__):
            return f"{kind.__name__} {value!r}"
        if kind.__name__ in ("member_descriptor", "getset_descriptor"):
            return kind.__name__
        raise Unknown(f"{'the module ' + value.__name__ if isinstance(value, types.ModuleType) else _full_name(kind)}")

    def add(self, where: str, value: Any) -> None:
        """Adds a value under a name, which the reason has if it is not known."""
        try:
            self.lines.append(f"{where}: {self.text(value)}")
        except Unknown as e:
            raise e if e.args[1:] else Unknown(f"{where.rpartition(' ')[2]}: {e}", where) from None

    # ---- functions of Triton's language ----

    def _jit(self, function: Any) -> str:
        if _is_tritons(function):
            return f"triton {_full_name(function)}"
        number, is_new = self._number(function)
        if is_new:
            self._check(function, number)
        if is_new and type(function).__name__ == "ConstexprFunction":  # Python itself runs it
            self._plain(function.fn, f"constexpr function {number}")
        elif is_new:
            self._kernel(function, number)
        if is_new and getattr(function, "_repr", None) is not None:  # it names the kernel
            self.add(f"{number} repr", function._repr)
        source = hashlib.sha256(function.src.encode()).hexdigest()
        return f"jit {function.__name__} {number} {source} {getattr(function, 'noinline', None)}"

    def _check(self, function: Any, number: int) -> None:
        """Checks that Triton's key is that of the function as it is now: Triton makes it once."""
        name = function.__name__
        if not _is_as_made(function):
            raise Unknown(f"{name}, whose class or methods are the program's", name)
        fresh = copy.copy(function)
        fresh.hash = None
        if fresh.cache_key != function.cache_key:
            raise Unknown(f"{name}, which changed after Triton made its key", name)
        line = getattr(function, "def_file_line_number", 0) - function.starting_line_number
        column = getattr(function, "def_file_col_number", 1)
        if (line, column) != (1, 1):  # one decorator, at the start of its line
            self.places.append(f"{number} at {line} {column}")

    def _kernel(self, function: Any, number: int) -> None:
        """Adds what a function reads. Triton looks a name up among the parameters and locals, then in closure and
        globals. It refuses globals that are not of its kinds, unless a setting admits all."""
        nodes = list(ast.walk(function.parse()))
        scope = function.get_capture_scope()
        parameters = function.signature.parameters
        stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        attributes = {a.attr for a in nodes if isinstance(a, ast.Attribute)}
        for call in nodes:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "getattr":
                attributes.add(_attribute(call, function))
        if "static_print" in attributes or any(n.id == "static_print" for n in nodes if isinstance(n, ast.Name)):
            raise Unknown(f"{function.__name__}, which prints while it is compiled", function.__name__)
        for path in sorted(set(_paths(nodes))):
            if path[0] not in parameters and path[0] in scope:
                self._global(f"{number} {'.'.join(path)}", path, scope[path[0]], attributes, path[0] in stored)
        for name, parameter in parameters.items():
            if parameter.default is not parameter.empty:
                self.add(f"{number} {name}", parameter.default)

    def _global(self, where: str, path: tuple[str, ...], value: Any, attributes: set[str], is_local: bool) -> None:
        if not _may_be_read(value):
            return
        is_root = getattr(value, "__name__", "") == _ROOTS.get(path[0], "-") and _is_tritons(value)
        for name in path[1:]:
            if not isinstance(value, (types.ModuleType, type)) or not hasattr(value, name):
                break
            value = getattr(value, name)
        if is_root and _is_tritons(value):
            return
        self._attributes(where, value, attributes)
        if isinstance(value, types.ModuleType) and not (_is_tritons(value) or _is_pure(value)):
            self._module(where, value, attributes)
        elif is_root and _is_usual(value) and repr(value) == f"triton.language.{path[-1]}":
            return
        elif is_local or is_root or not self._is_in_tritons_key(value, len(path) == 1):
            self.add(where, value)

    def _attributes(self, where: str, function: Any, names: set[str]) -> None:
        """Adds the attributes that a program gave to a function, if code names them."""
        if type(function) is types.FunctionType or _is_jit(function):
            for name in sorted(names & set(vars(function))):
                self.add(f"{where}.{name}", vars(function)[name])

    def _is_in_tritons_key(self, value: Any, is_name: bool) -> bool:
        """True for a value that Triton's key tells from all others: a function by its source, and a constexpr with a
        name of its own if its str() is that of no other. What such a function reads is added."""
        if _is_jit(value):
            self.text(value)
            return True
        return is_name and type(value).__name__ == "constexpr" and _is_usual(value)

    def _module(self, where: str, module: types.ModuleType, attributes: set[str]) -> None:
        """Adds a module that the code names without an attribute, perhaps to give it another name."""
        for name in sorted(attributes):
            if hasattr(module, name):
                self.add(f"{where}.{name}", getattr(module, name))

    # ---- functions and classes of Python ----

    def _function(self, function: Any) -> str:
        if _is_pure(function):
            return f"function {_full_name(function)}"
        number, is_new = self._number(function)
        if is_new:
            self._plain(function, f"function {number}")
        return f"function {number}"

    def _plain(self, function: Any, where: str) -> None:
        code = function.__code__
        names = set(_names(code))
        if names & _IMPURE or _imports(code):
            raise Unknown(f"{_full_name(function)}, which may read anything", where)
        self.lines.append(f"{where}: {sys.hexversion:x} {_code(code)}")
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            self.add(f"{where} {name}", cell.cell_contents)
            self._attributes(f"{where} {name}", cell.cell_contents, names)
        for name in sorted(names & set(function.__globals__)):
            value = function.__globals__[name]
            if isinstance(value, types.ModuleType) and not (_is_tritons(value) or _is_pure(value)):
                self._module(f"{where} {name}", value, names)
                continue
            self.add(f"{where} {name}", value)
            self._attributes(f"{where} {name}", value, names)
            if isinstance(value, types.ModuleType):
                self._module(f"{where} {name}", value, {n for n in names if _is_strange(vars(value).get(n))})
        self.add(f"{where} defaults", [function.__defaults__, function.__kwdefaults__])

    def _class(self, kind: type) -> str:
        if _is_pure(kind):
            return f"class {_full_name(kind)}"
        number, is_new = self._number(kind)
        if is_new:
            for name, value in sorted(vars(kind).items()):
                if name not in _SKIPPED:
                    self.add(f"class {number} {name}", value)
            self.add(f"class {number} bases", [type(kind), *kind.__bases__])
        return f"class {number} {kind.__name__}"


def _is_strange(value: Any) -> bool:
    """True for a value in a module of Triton or of Python that may be the program's: no function, class or module of theirs."""
    if value is None or isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return False
    return not (_is_tritons(value) or _is_pure(value))


def _full_name(value: Any) -> str:
    return f"{value.__module__}.{getattr(value, '__qualname__', None) or value.__name__}"


def _is_usual(value: Any) -> bool:
    """True for a value that Triton's key tells from all others by its str()."""
    if type(value).__name__ == "constexpr":
        value = value.value
    return type(value) in _NUMBERS or (type(value).__name__ == "dtype" and _is_tritons(type(value)))


def _may_be_read(value: Any) -> bool:
    """True if Triton lets a kernel read this global."""
    if getattr(sys.modules["triton.knobs"].compilation, "allow_non_constexpr_globals", False):
        return True
    if isinstance(value, (types.ModuleType, type)) or _is_jit(value) or _is_tritons(value):
        return True
    if getattr(value, "__triton_builtin__", False):
        return True
    return str(getattr(value, "__module__", "")).startswith("triton.") or (
        isinstance(value, tuple) and hasattr(value, "_fields")
    )


def _attribute(call: ast.Call, function: Any) -> str:
    """Returns the name that a call of getattr has. Raises Unknown."""
    name = call.args[1] if len(call.args) > 1 else None
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return name.value
    raise Unknown(f"{function.__name__}, which may read any attribute", function.__name__)


def _paths(nodes: list[ast.AST]) -> Iterator[tuple[str, ...]]:
    """Returns the names in the code, with their attributes: ("tl", "float32")."""
    inner = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        path, at = [], node
        while isinstance(at, ast.Attribute):
            path.append(at.attr)
            at = at.value
        if isinstance(at, ast.Name) and node not in inner:
            yield (at.id, *reversed(path))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _imports(code: types.CodeType) -> bool:
    """True if the code, or code in it, has an import statement."""
    import dis

    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return any(i.opname == "IMPORT_NAME" for i in dis.get_instructions(code)) or any(map(_imports, inner))


def _code(code: types.CodeType) -> str:
    constants = [_code(c) if isinstance(c, types.CodeType) else f"{type(c).__name__} {c!r}" for c in code.co_consts]
    parts = (code.co_code.hex(), constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
             code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def of_kernel(function: Any) -> list[str]:
    """Returns what a kernel reads that is not in Triton's key. Raises Unknown."""
    reads = _Reads()
    reads.text(function)
    return reads.lines


def why_not_in_graph(gm: Any) -> str:
    """Returns why torch must not keep a graph with kernels of the program, or "". torch's keys have their source, and as
    little as Triton's of what else they read."""
    for module in gm.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if graph is not None else ():
            if "kernel_idx" not in getattr(node, "kwargs", {}):
                continue
            table = sys.modules["torch._higher_order_ops.triton_kernel_wrap"].kernel_side_table
            kernel = table.get_kernel(node.kwargs["kernel_idx"])
            while not _is_jit(kernel):  # an autotuner, heuristics
                kernel = kernel.fn
            try:
                why = why_off() or next(iter(of_kernel(kernel)), "")
            except Unknown as e:
                why = str(e.args[0])
            if why:
                return f"the kernel {kernel.__name__} reads more than its source ({why[:200]}): no key of torch has that"
    return ""


def in_graph(gm: Any) -> str:
    """Returns what torch writes into the code of a graph with kernels of the program, and has in no key: the arguments of
    autotuners, and which arguments of kernels Triton does not specialize."""
    lines = []
    for module in gm.modules():
        for node in module.graph.nodes if hasattr(module, "graph") else ():
            if "kernel_idx" not in getattr(node, "kwargs", {}):
                continue
            table = sys.modules["torch._higher_order_ops.triton_kernel_wrap"].kernel_side_table
            kernel = table.get_kernel(node.kwargs["kernel_idx"])
            configs = [str(sorted(one.all_kwargs().items(), key=str)) for one in getattr(kernel, "configs", ())]
            found = [configs] if len(configs) > 1 else []  # their order, of one alone there is none
            while not _is_jit(kernel):
                found += [list(getattr(kernel, name, None) or ()) for name in _OF_AUTOTUNERS]
                kernel = kernel.fn
            found += [[p.name for p in kernel.params if getattr(p, name, False)] for name in _OF_PARAMETERS]
            lines.append(str(found) if any(found) else "")
    return "\n".join(lines) if any(lines) else ""


def _of_source(source: Any) -> list[str]:
    """Returns what a compile reads that is not in Triton's key. Raises Unknown."""
    if not hasattr(source, "fn"):  # a file of IR, which its locations name
        return [f"path {os.path.abspath(source.path)}"]
    reads = _Reads()
    reads.text(source.fn)
    for at, value in sorted(source.constants.items(), key=repr):
        if not _is_usual(value) and not reads._is_in_tritons_key(value, False):
            reads.add(f"constant {at}", value)
    return reads.lines + reads.places


# ---- settings ----


def settings() -> list[str]:
    """Returns the settings that are not at their defaults. Raises Unknown."""
    from triton import knobs

    apart = _PLACES + _OF_OPTIONS
    lines = [f"variable {n}={v}" for n, v in sorted(os.environ.items()) if n.startswith(_VARIABLES) and n not in apart]
    for group in _GROUPS:
        for name, value in sorted(vars(getattr(knobs, group, None) or _Empty()).items()):
            if type(value) in (bool, int, float, str):
                lines.append(f"knob {group}.{name}={value!r}")
            elif value is not None and name not in _WATCHERS:
                raise Unknown(f"triton.knobs.{group}.{name}")
    tools = [os.environ[name] for name in _TOOLS if os.path.isfile(os.environ.get(name, ""))]
    if tools:
        from warm import _identity

        identity, is_settled = _identity.of_files(tools)
        if not is_settled:
            raise Unknown(f"{tools[0]}, which has just changed")
        lines.append(f"tools {identity}")
    return lines


class _Empty:
    pass


def of_torch() -> tuple[str, list[str]]:
    """Returns why torch must keep no graph now, or "", and the settings that its keys must have."""
    off = _set_off()
    if off:
        return f"with {off} graphs have kernels that Triton would not make without it", []
    try:
        lines = [line for line in settings() if not line.startswith(_SET_BY_TORCH)]
        lines += [f"variable {name}={os.environ[name]}" for name in _OF_OPTIONS if name in os.environ]
        return "", lines + [_library.file_identity(path) for path in _files_of_torch()]
    except (Unknown, _library.Unavailable) as e:
        return f"no key has the content of {e.args[0]}", []


def _files_of_torch() -> list[str]:
    """Returns the files with which Triton compiles in the place of its own and torch's. torch sets their variables late, at a
    miss alone: so they count by content, from the beginning."""
    config, torch = (sys.modules[name] for name in ("torch._inductor.config", "torch"))
    found = [os.environ.get(name) for name in (*_TOOLS, "TRITON_LIBDEVICE_PATH")]
    found.append(sys.modules["triton.knobs"].nvidia.libdevice_path)
    numerics = getattr(config, "eager_numerics", None)
    is_torchs = config.emulate_precision_casts or getattr(numerics, "use_pytorch_libdevice", False)
    if is_torchs and torch.version.cuda:
        from torch.utils.cpp_extension import CUDA_HOME

        found.append(os.path.join(CUDA_HOME or "", "nvvm", "libdevice", "libdevice.10.bc"))
    own = os.path.join(os.path.dirname(torch.__file__ or ""), "")
    return sorted({path for path in found if path and not path.startswith(own) and os.path.isfile(path)})


# ---- the note of a thread ----

_now = threading.local()
_told: set[str] = set()


def _tell(name: str, why: str) -> None:
    from warm import _client

    if why not in _told:
        _told.add(why)
        _client.client().note("uncacheable", f"Triton {name}"[:200], f"not kept: {why}"[:400])


def _note(source: Any, backend: Any, options: Any) -> None:
    """Notes what the compile of a source reads, for the cache manager that the same thread makes next."""
    _now.note = None
    try:
        override = getattr(options, "ir_override", None)
        why = f"ir_override={override}" if override else why_off()
        foreign = next((type(one) for one in (source, backend) if not _is_as_made(one)), None)
        if foreign:
            raise Unknown(f"{foreign.__module__}.{foreign.__qualname__}, which is the program's")
        changed = _changed_library(backend, options)
        if changed:
            raise Unknown(f"{changed}, which changed after Triton made its key")
        if not why:
            lines = settings() + _of_source(source)
            digest = hashlib.sha256("\0".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:32] if lines else ""
            _now.note = (source.name[:150], digest)
            return
    except Unknown as e:
        why = f"no key has the content of {e.args[0]}"
    except Exception as e:  # another version of Triton
        why = f"warm does not know this version of Triton ({type(e).__name__})"
    _tell(str(source.name), why)


def taken(filename: str) -> str | None:
    """Returns the digest of what the compile reads whose group of files has this name, "" if it is nothing special. None:
    nothing may be kept or taken."""
    note, _now.note = getattr(_now, "note", None), None
    _now.taken = note[1] if note and f"{note[0]}.json" == filename else None
    return current()


def current() -> str | None:
    """Returns what taken() returned last in this thread."""
    return getattr(_now, "taken", None)


def install(compiler: types.ModuleType) -> None:
    """Hooks the function that makes Triton's key: each compile calls it before it asks the cache."""
    import inspect

    real = compiler.get_cache_key
    if list(inspect.signature(real).parameters)[:3] != ["src", "backend", "backend_options"]:
        return

    def get_cache_key(src: Any, backend: Any, backend_options: Any, *rest: Any, **named: Any) -> Any:
        key = real(src, backend, backend_options, *rest, **named)
        _note(src, backend, backend_options)
        return key

    compiler.get_cache_key = get_cache_key  # type: ignore[attr-defined]
