"""Collects everything that a function or a class depends on, as far as the sources of the same package tell.

Followed are wrapped functions, closures, defaults, and every name that the source refers to: helpers, constants,
classes, in the module itself and in the modules of its package, from one to the next; and what the running program has
put into such a name: functions and classes that were registered there, or stand in for the one that is written. Code of
other packages is known by its name alone. An object whose state no source shows is listed in `blind`.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial, partialmethod
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

import msgspec

from projectionist.projections.compiled.modules import (
    called,
    file_of_module,
    held,
    is_package,
    package,
    target,
)
from projectionist.projections.compiled.source_code import (
    SourceFile,
    bound,
    bytecode,
    class_node,
    dotted,
    file_of,
    function_node,
    is_docstring,
    references,
    source,
    written,
)
from projectionist.projections.event_classes import event

_PLAIN = (
    str,
    bytes,
    int,
    float,
    complex,
    bool,
    type(None),
    Decimal,
    datetime,
    date,
    time,
    timedelta,
    UUID,
    Path,
)
_STDLIB = sysconfig.get_path("stdlib")
Skip = Callable[[ast.stmt], bool]


class CodeReach:
    """Collects the texts of dependencies, in the packages of these modules."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.texts: set[tuple[str, str]] = set()
        """Dependencies, by name and as text."""
        self.blind: set[str] = set()
        """Dependencies that cannot be followed."""
        modules = sorted({one for one in modules if one.partition(".")[0] not in sys.stdlib_module_names})
        self._homes = {package(module) for module in modules}
        self._folders = {
            Path(file_of_module(one)).parent for one in modules if "." not in one and not is_package(one)
        }
        self._files: dict[str, str] = {}
        self._seen: set[object] = set()
        self._kept: list[object] = []

    # -- objects -------------------------------------------------------------------------------------------------

    def function(self, function: Callable[..., Any], label: str = "", *, in_class: bool = False) -> None:
        """Follow a function; `in_class`: its own text is in that of its class."""
        if self._known(function):
            return
        if not isinstance(function, FunctionType):
            self._value(function, label)
            return
        self._files.setdefault(function.__module__, function.__code__.co_filename)
        node = function_node(function.__code__)
        if node is not None:
            self._names(function.__module__, node)
        if not in_class:
            text = bytecode(function.__code__, function.__doc__) if node is None else written(node)
            self._add(function.__module__, label or function.__qualname__, text)
        where = f"{called(function.__module__)}.{function.__qualname__}"
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._value(value, f"{where}: a default")
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name != "__class__":
                self._value(_content(cell), f"{where}: {name}")
        if (inner := getattr(function, "__wrapped__", None)) is not None:
            self._value(inner, f"{where}: what it wraps")

    def cls(self, cls: type, skip: Skip | None = None, *, keywords: bool = True) -> None:
        """Follow a class and its bases; statements of its body that `skip` picks do not count."""
        for base in cls.__mro__:
            if not self._is_home(base.__module__, file_of(base)) or self._known(base):
                continue
            self._files.setdefault(base.__module__, file_of(base))
            node = class_node(base)
            if node is not None:
                declared = keywords and not hasattr(base, "__event_type__")
                self._class_text(base.__module__, node, skip, keywords=declared)
            else:
                self._struct(base)
            for name, value in list(vars(base).items()):
                for function in _functions(value):
                    if node is None or _is_written(function):
                        self.function(function, f"{base.__qualname__}.{name}", in_class=node is not None)
                if not name.startswith("__"):
                    self._inside(value, f"{called(base.__module__)}.{base.__qualname__}.{name}")

    def _class_text(self, module: str, node: ast.ClassDef, skip: Skip | None, *, keywords: bool) -> None:
        """Add the text of a class: the types of fields count, those of a method's parameters do not."""
        body = [one for one in node.body if not (skip and skip(one))]
        decorators = [one for one in node.decorator_list if not self._declares_event(module, one)]
        head = [*node.bases, *decorators, *(node.keywords if keywords else ())]
        fields = [one for one in body if isinstance(one, ast.AnnAssign)]
        rest = [one for one in body if not isinstance(one, ast.AnnAssign) and not is_docstring(one)]
        text = written([*head, *rest]) + written(fields, annotations=True)
        self._add(module, node.name, text)
        for one in (*head, *rest):
            self._names(module, one)
        for one in fields:
            self._names(module, one, annotations=True)

    def _declares_event(self, module: str, decorator: ast.expr) -> bool:
        """Return True for `@event(…)`, which says what the keywords of an Event say: they are part of the shape."""
        path = dotted(decorator.func) if isinstance(decorator, ast.Call) else ()
        found = held(module, path[0]) if path else None
        for name in path[1:]:
            found = getattr(found, name, None)
        return found is event

    def _struct(self, cls: type) -> None:
        """Add a class without source by its fields, if it has any."""
        if issubclass(cls, msgspec.Struct):
            fields = [(f.name, str(f.type), repr(f.default)) for f in msgspec.structs.fields(cls)]
            self._add(cls.__module__, cls.__name__, repr(fields))
        elif issubclass(cls, Enum):
            self._add(cls.__module__, cls.__name__, repr([(one.name, one.value) for one in cls]))

    def _add(self, module: str, name: str, text: str) -> None:
        self.texts.add((f"{called(module)}.{name}", text))

    def _value(self, value: object, where: str) -> None:
        """Add a value that the running program holds, and no source shows: in a closure, a default, a partial."""
        if isinstance(value, (Enum, *_PLAIN)):
            self.texts.add((where, repr(value)))
        elif isinstance(value, tuple | list):
            for number, one in enumerate(value):
                self._value(one, f"{where}[{number}]")
        elif isinstance(value, frozenset | set) and all(isinstance(one, _PLAIN) for one in value):
            self.texts.add((where, repr(sorted(map(repr, value)))))
        elif isinstance(value, dict) and all(isinstance(one, _PLAIN) for one in value):
            for key, one in value.items():
                self._value(one, f"{where}[{key!r}]")
        elif isinstance(value, partial | partialmethod):
            self._value((value.func, value.args, value.keywords), where)
        elif isinstance(value, MethodType):
            self._value((value.__func__, value.__self__), where)
        else:
            self._code(value, where)

    def _inside(self, value: object, where: str) -> None:
        """Follow the functions and classes in a container, as in a table that decorators fill."""
        if isinstance(value, Mapping):
            inner = list(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            inner = list(value)
        else:
            return
        if self._known(value):
            return
        for one in inner:
            if isinstance(one, FunctionType | MethodType | partial) or (
                isinstance(one, type) and "__projectionist__" not in vars(one)
            ):
                self._value(one, where)
            else:
                self._inside(one, where)

    def _code(self, value: object, where: str) -> None:
        """Follow a function or class of a home package; add one of another package by its name."""
        if isinstance(value, FunctionType) and self._is_home(value.__module__, value.__code__.co_filename):
            self.function(value)
        elif isinstance(value, type) and self._is_home(value.__module__, file_of(value)):
            self.cls(value)
        elif callable(value) and hasattr(value, "__qualname__"):
            self.texts.add((where, f"{value.__module__}.{value.__qualname__}"))
        elif not isinstance(value, ModuleType):
            self._object(value, where)

    def _object(self, value: object, where: str) -> None:
        kind = type(value)
        if self._is_home(kind.__module__, file_of(kind)):
            self.cls(kind)
        self.blind.add(f"{where}, an object of {kind.__module__}.{kind.__qualname__}")

    # -- names ---------------------------------------------------------------------------------------------------

    def _names(self, module: str, node: ast.AST, *, annotations: bool = False) -> None:
        imports: dict[str, list[ast.Import | ast.ImportFrom]] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                for name in bound(inner):
                    imports.setdefault(name, []).append(inner)
        for path in sorted(set(references(node, annotations=annotations))):
            self._name(module, path)
            for one in imports.get(path[0], ()):
                self._imported(module, one, path)

    def _name(self, module: str, path: tuple[str, ...]) -> None:
        found = self._source(module)
        if found is None or (module, path) in self._seen:
            return
        self._seen.add((module, path))
        for statement in found.bindings.get(path[0], ()):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._imported(module, statement, path)
            elif (module, id(statement)) not in self._seen:
                self._seen.add((module, id(statement)))
                self._statement(module, statement, path[0])
        if path[0] in found.bindings:
            self._held(module, path[0], found.bindings[path[0]])
            return
        for star in found.stars:
            self._name(target(module, self._files.get(module, ""), star), path)
        if path[0] != "__getattr__":
            self._name(module, ("__getattr__",))

    def _held(self, module: str, name: str, statements: Iterable[ast.stmt]) -> None:
        """Follow the value of a module's name: registered implementations, a table's functions, a stand-in."""
        value = held(module, name)
        where = f"{called(module)}.{name}"
        if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
            lines = [(one.lineno, one.end_lineno or 0) for one in statements]
            here = value.__code__.co_filename == self._files.get(module)
            if not here or not any(first <= value.__code__.co_firstlineno <= last for first, last in lines):
                self._value(value, where)
        self._inside(getattr(value, "registry", value) if callable(value) else value, where)

    def _statement(self, module: str, statement: ast.stmt, name: str) -> None:
        cls = held(module, name)
        if isinstance(statement, ast.ClassDef) and isinstance(cls, type):
            self.cls(cls)
            return
        if isinstance(statement, ast.ClassDef):
            self._class_text(module, statement, None, keywords=True)
            return
        self._add(module, name, written(statement))
        self._names(module, statement)
        for inner in ast.walk(statement):  # names that an `if` or a `try` of the module imports
            if inner is not statement and isinstance(inner, ast.Import | ast.ImportFrom):
                self._imported(module, inner, (name,))

    def _imported(self, module: str, statement: ast.Import | ast.ImportFrom, path: tuple[str, ...]) -> None:
        for one in statement.names:
            if isinstance(statement, ast.Import):
                name = one.asname or one.name.partition(".")[0]
                if name == path[0]:
                    self._add(module, name, f"import {one.name if one.asname else name}")
                    self._member(one.name if one.asname else name, path[1:])
            elif (one.asname or one.name) == path[0]:
                origin = target(module, self._files.get(module, ""), statement)
                self._add(module, path[0], f"from {origin} import {one.name}")
                self._member(origin, (one.name, *path[1:]))

    def _member(self, module: str, path: tuple[str, ...]) -> None:
        """Follow `path` in a module; its first parts may be modules themselves."""
        while path and (f"{module}.{path[0]}" in sys.modules or file_of_module(f"{module}.{path[0]}")):
            deeper = f"{module}.{path[0]}"
            here = self._source(module)
            if here is not None and path[0] in here.bindings:
                break
            module, path = deeper, path[1:]
        if path and self._is_home(module, file_of_module(module)):
            self._name(module, path)

    # -- modules -------------------------------------------------------------------------------------------------

    def _source(self, module: str) -> SourceFile | None:
        if module not in self._files:
            self._files[module] = file_of_module(module)
        filename = self._files[module]
        return source(filename) if self._is_home(module, filename) else None

    def _is_home(self, module: str, filename: str) -> bool:
        if package(module) in self._homes:
            return True
        place = Path(filename).parent
        if not filename or module.startswith("projectionist.") or "site-packages" in place.parts:
            return False
        top = module.partition(".")[0]
        return any(
            place == one or ("." in module and place.is_relative_to(one / top)) for one in self._folders
        )

    def _known(self, thing: object) -> bool:
        if id(thing) in self._seen:
            return True
        self._seen.add(id(thing))
        self._kept.append(thing)  # so that nothing else gets its number
        return False


def _functions(value: object) -> Iterator[Callable[..., Any]]:
    """Yield the functions behind an attribute of a class."""
    if isinstance(value, property):
        yield from (one for one in (value.fget, value.fset, value.fdel) if isinstance(one, FunctionType))
    elif isinstance(value, partialmethod):
        yield from _functions(value.func)
    else:
        function = getattr(value, "__func__", None) or getattr(value, "func", None) or value
        if isinstance(function, FunctionType):
            yield function


def _is_written(function: Callable[..., Any]) -> bool:
    """Return True for a function in a source that is not Python's own: generated methods change with Python."""
    code = getattr(function, "__code__", None)
    if code is None:
        return True
    place = Path(code.co_filename)
    stdlib = place.is_relative_to(_STDLIB) and "site-packages" not in place.parts
    return not stdlib and source(code.co_filename) is not None


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not yet bound
        return None
