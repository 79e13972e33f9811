# SPDX-License-Identifier: Apache-2.0
"""Sees changes of functions and classes that no dictionary shows, by Python's audit events.

    __code__ of a function of torch      noted with the code that it had: it counts while the function has another one
    code under the name of a file of     code.replace(), compile(): such code has the file and line of torch's own, so
      torch                              it counts to the end of the process
    __defaults__, __kwdefaults__,        `count` grows: all is read again
      __bases__, __class__

The files are those of torch, of the libraries that it computes with, and of Python's own library. A hook cannot be
removed: it is there from the moment when torch loads this package. Any thread.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any

_LIBRARIES = ("torch", "sympy", "mpmath", "triton")
_INSTALLED = ("site-packages", "dist-packages")  # folders below that of Python's own library
_READ_AGAIN = frozenset(("__defaults__", "__kwdefaults__", "__bases__", "__class__"))
_MAKERS = ("torch.", "importlib.", "_frozen_importlib")  # modules that make code under the names of these files
_NAMED_TUPLES = ("typing", "collections")  # modules that change each class that they make

count = 0
_changed: dict[int, tuple[Any, Any]] = {}  # functions and the code that they had, by id
_made = ""  # the file for which the program made code
_folders: tuple[str, ...] = ()
_standard = os.path.join(os.path.dirname(os.__file__), "")


def _is_of_library(file: Any) -> bool:
    """Returns True for a file of a library that a compile reads, or of Python's own."""
    if not isinstance(file, str):
        return False
    if file.startswith(_standard) and file[len(_standard) :].partition(os.sep)[0] not in _INSTALLED:
        return True
    return file.startswith(_folders)


def _caller() -> str:
    """Returns the module whose code made the event."""
    return str(sys._getframe(3).f_globals.get("__name__"))


def _note(event: str, arguments: Any) -> None:
    global count, _made
    if event == "object.__setattr__":
        changed, name = arguments[:2]
        if name == "__code__" and _is_of_library(changed.__code__.co_filename):
            _changed.setdefault(id(changed), (changed, changed.__code__))
        elif name in _READ_AGAIN and _is_read(changed) and _caller() not in _NAMED_TUPLES:
            count += 1
    elif _is_of_library(arguments[1]) and not _caller().startswith(_MAKERS):
        _made = arguments[1]


def _is_read(changed: Any) -> bool:
    """Returns True for a function, a class or a module of a library, or an object of such a class. Runs no code of the
    object: a module of importlib.util.LazyLoader would be loaded in the middle of its own load."""
    kind = type(changed)
    if kind is types.FunctionType:
        return _is_of_library(changed.__code__.co_filename)
    if issubclass(kind, types.ModuleType):
        name = object.__getattribute__(changed, "__dict__").get("__name__")
    else:
        name = type.__getattribute__(changed if issubclass(kind, type) else kind, "__module__")
    return str(name).partition(".")[0] in _LIBRARIES


def _hook(event: str, arguments: Any) -> None:
    if event in _EVENTS:
        try:
            _note(event, arguments)
        except Exception:  # an event of others under these names
            pass


_EVENTS = frozenset(("object.__setattr__", "code.__new__", "compile"))


def watch() -> None:
    """Begins to watch. torch is loaded."""
    global _folders
    if not _folders:
        root = os.path.dirname(os.path.dirname(os.path.abspath(sys.modules["torch"].__file__ or "")))
        found = {os.path.join(root, name, "") for name in _LIBRARIES}
        for name in _LIBRARIES:
            file = getattr(sys.modules.get(name), "__file__", None)
            found.update([os.path.join(os.path.dirname(file), "")] if file else ())
        _folders = tuple(found)
        sys.addaudithook(_hook)


def foreign() -> str:
    """Returns the name of a function whose code is not the one that it had, or of a file for which code was made; or ""."""
    if _made:
        return f"code in the name of {_made}"
    changed = (function for function, code in list(_changed.values()) if function.__code__ is not code)
    return next((f"{one.__module__}.{one.__qualname__}" for one in changed), "")
