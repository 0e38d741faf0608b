"""Fingerprints of a definition: `shape` is what its tables hold, `code` is what its handlers do.

Code is read as a syntax tree without comments, docstrings and positions, written out in a form of our own
that leaves out what is empty: `ast.dump` and bytecode change with Python's minor versions.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.projections.event import schema_of
from projectionist.projections.upcasting import upcasters_of

if TYPE_CHECKING:
    from projectionist.projections.definition import Definition
    from projectionist.projections.table import Table

_SILENT = ("type_comment", "kind", "ctx", "type_params", "returns", "annotation")
_BLOCKS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def shape_of(definition: Definition) -> bytes:
    """A digest of `outline`."""
    return blake2b(msgspec.json.encode(outline(definition), order="sorted"), digest_size=16).digest()


def outline(definition: Definition) -> dict[str, Any]:
    """What a change of which needs `migrate` or a rebuild, as plain data: two of them can be compared."""
    return {
        "kind": definition.kind.value,
        "stream": definition.stream,
        "subjects": definition.subjects.texts,
        "sequence": definition.sequence,
        "baseline": definition.baseline,
        "types": {kind: schema_of(handler.event) for kind, handler in definition.handlers.items()},
        "table": _table(definition.table) if definition.table else None,
        "tables": dict(definition.tables),
    }


def code_of(definition: Definition) -> bytes:
    """A digest of every function that decides what an event does: methods, conditions, keys, upcasters."""
    digest = blake2b(digest_size=16)
    for name, function in sorted(_functions(definition), key=lambda pair: pair[0]):
        digest.update(f"{name}\0{written(function)}\0".encode("utf-8", "surrogatepass"))
    return digest.digest()


def written(function: Callable[..., Any]) -> str:
    """A function without comments, docstrings and positions; its bytecode where there is no source."""
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function))}"
    node = _node(code)
    return _bytecode(code, function.__doc__) if node is None else _tree(node)


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": f"{table.schema}.{table.name}",
        "key": table.key.name if table.key else None,
        "columns": [[c.name, c.sql_type, c.nullable, c.is_key, repr(c.default)] for c in table.columns],
        "indexes": [[index.name, *index.columns] for index in table.indexes],
    }


def _functions(definition: Definition) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield from _own_functions("", definition.cls)
    for kind, handler in definition.handlers.items():
        yield from _own_functions(f"{kind}.", handler.event)
        for number, step in enumerate(upcasters_of(handler.event)):
            yield f"{kind} upcaster {number}", step
        for what, function in (("when", handler.when), ("key", handler.key)):
            # A lambda stands in its method's decorator and is read there.
            if callable(function) and getattr(function, "__name__", "") != "<lambda>":
                yield f"{kind} {what}", function


def _own_functions(prefix: str, cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for base in cls.__mro__:
        if base.__module__.startswith(("projectionist.projections.", "msgspec")) or base is object:
            continue
        for name, value in vars(base).items():
            function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
            if isinstance(function, FunctionType):
                yield f"{prefix}{base.__qualname__}.{name}", function


def _node(code: CodeType) -> ast.AST | None:
    """The syntax node this code was compiled from; None where it cannot be told."""
    nodes = _nodes(code.co_filename).get((code.co_name, code.co_firstlineno), ())
    return nodes[0] if len(nodes) == 1 else None


@lru_cache(maxsize=64)
def _nodes(filename: str) -> dict[tuple[str, int], list[ast.AST]]:
    """Every function of a file by name and first line, decorators counted in, as code objects have it."""
    found: dict[tuple[str, int], list[ast.AST]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.setdefault((node.name, first), []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
    return found


def _tree(node: object) -> str:
    if isinstance(node, ast.AST):
        parts = [f"{name}={_tree(inner)}" for name, inner in _fields(node)]
        return f"{type(node).__name__}({','.join(parts)})"
    if isinstance(node, list):
        return f"[{','.join(map(_tree, node))}]"
    return repr(node)


def _fields(node: ast.AST) -> Iterator[tuple[str, object]]:
    for name, value in ast.iter_fields(node):
        if name in _SILENT or value is None or value == []:
            continue
        if name == "body" and isinstance(node, _BLOCKS) and ast.get_docstring(node, clean=False) is not None:
            value = value[1:]  # noqa: PLW2901 the docstring is the first statement
        yield name, value


def _bytecode(code: CodeType, doc: str | None = None) -> str:
    consts = code.co_consts[1:] if doc is not None and code.co_consts[:1] == (doc,) else code.co_consts
    inner = [_bytecode(const) if isinstance(const, CodeType) else repr(const) for const in consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"
