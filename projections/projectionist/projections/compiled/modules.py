"""Modules as the running program has them: their files, their names, and their values."""

from __future__ import annotations

import ast
import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any


def package(module: str) -> str:
    """Return the package a module belongs to: the top-level one; inside ours, the package next to it."""
    top = module.partition(".")[0]
    return module.rpartition(".")[0] if top == "projectionist" else top


def is_package(module: str) -> bool:
    """Return True where there are modules inside it."""
    return held(module, "__path__") is not None


def held(module: str, name: str) -> Any:
    """Return a module's value under a name, without its `__getattr__`, which may make one up."""
    return getattr(sys.modules.get(module), "__dict__", {}).get(name)


def called(module: str) -> str:
    """Return the name of a module, also where it is the program that was started."""
    if module != "__main__":
        return module
    spec = held(module, "__spec__")
    return spec.name if spec is not None else Path(file_of_module(module)).stem


def file_of_module(module: str) -> str:
    """Return the file of a module, imported or not; empty where it is unknown."""
    if module in sys.modules or not module:
        return held(module, "__file__") or ""
    parent = module.rpartition(".")[0]
    if not parent:
        return _found(module, ())
    folders = held(parent, "__path__")
    if folders is None and parent not in sys.modules and Path(file_of_module(parent)).name == "__init__.py":
        folders = [str(Path(file_of_module(parent)).parent)]
    return _found(module, tuple(folders)) if folders else ""


@lru_cache(maxsize=4096)
def _found(module: str, parent: tuple[str, ...]) -> str:
    """Return the file of a module that is not imported yet: a function may import it when it is called."""
    if not parent:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return ""
        return (spec.origin if spec is not None and spec.has_location else None) or ""
    name = module.rpartition(".")[2]
    places = [place for one in parent for place in (Path(one, f"{name}.py"), Path(one, name, "__init__.py"))]
    return next((str(place) for place in places if place.is_file()), "")


def target(module: str, filename: str, statement: ast.ImportFrom) -> str:
    """Return the module that `from … import` names, seen from this module."""
    if not statement.level:
        return statement.module or ""
    parts = module.split(".")
    is_package = Path(filename).name == "__init__.py"
    base = parts[: len(parts) - statement.level + (1 if is_package else 0)]
    return ".".join([*base, *([statement.module] if statement.module else [])])
