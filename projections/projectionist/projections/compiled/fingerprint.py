"""Fingerprints of a definition: `shape` is what its tables hold, `code` is what its handlers do."""

from __future__ import annotations

import ast
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from projectionist.projections.compiled.code_reach import CodeReach
from projectionist.projections.compiled.source_code import class_node, file_of
from projectionist.projections.event import schema_of
from projectionist.projections.tables.ddl import index_mark
from projectionist.projections.tables.json_columns import outlined
from projectionist.projections.upcasting import upcasters_of

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.tables.columns import Column
    from projectionist.projections.tables.table import Table


def shape_of(definition: Definition) -> bytes:
    """Return a digest of `outline`."""
    return blake2b(msgspec.json.encode(outline(definition), order="sorted"), digest_size=16).digest()


def outline(definition: Definition) -> dict[str, Any]:
    """Describe as plain data, to be compared, everything of which a change needs `migrate` or a rebuild."""
    return {
        "kind": definition.kind.value,
        "stream": definition.stream,
        "subjects": definition.subjects.texts,
        "sequence": definition.sequence,
        "baseline": definition.baseline,
        "types": {kind: schema_of(handler.event) for kind, handler in definition.handlers.items()},
        "table": _table(definition.table) if definition.table else None,
        "tables": dict(definition.tables),
        "indexes": {} if definition.table else {table.name: _indexes(table) for table in definition.owned},
    }


def code_of(definition: Definition) -> tuple[bytes, tuple[str, ...]]:
    """Return a digest of handlers, conditions, keys, upcasters, and their dependencies.

    With it the dependencies that no source shows, so that a change there is not noticed.
    """
    reach = _reach_of(definition)
    digest = blake2b(digest_size=16)
    for name, text in sorted(reach.texts):
        digest.update(f"{name}\0{text}\0".encode("utf-8", "surrogatepass"))
    for view in definition.looks_up:  # what it makes of rows, this one may have copied
        digest.update(f"{view.name}\0{view.code.hex()}\0".encode())
    return digest.digest(), tuple(
        sorted(reach.blind.union(*(view.unfollowed for view in definition.looks_up)))
    )


def _reach_of(definition: Definition) -> CodeReach:
    steps = [step for handler in definition.handlers.values() for step in upcasters_of(handler.event)]
    events = dict.fromkeys(handler.event for handler in definition.handlers.values())
    reach = CodeReach(one.__module__ for one in (definition.cls, *events, *steps))
    fields = frozenset(getattr(definition.cls, "__struct_fields__", ()))

    def is_column(statement: ast.stmt) -> bool:
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        return isinstance(target, ast.Name) and target.id in fields

    reach.cls(definition.cls, is_column, keywords=False)
    for event in events:
        reach.cls(event)
    for step in steps:
        reach.function(step)
    for handler in definition.handlers.values():
        looked_up = (one.by for one in handler.lookups.values())
        for function in (handler.when, handler.key, handler.each, *looked_up):
            if callable(function):
                reach.function(function, in_class=_stands_in(function, definition.cls))
    return reach


def _stands_in(function: Callable[..., Any], cls: type) -> bool:
    """Return True for a lambda in a decorator inside the class, whose text is read there."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return False
    nodes = [node for base in cls.__mro__ if file_of(base) == code.co_filename and (node := class_node(base))]
    return any(node.lineno <= code.co_firstlineno <= (node.end_lineno or 0) for node in nodes)


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": f"{table.schema}.{table.name}",
        "key": _key(table),
        "columns": [_column(column) for column in table.columns],
        "indexes": _indexes(table),
    }


def _key(table: Table) -> str | list[str] | None:
    if table.key is None:
        return None
    return list(table.key.names) if table.key.several else table.key.first.name


def _indexes(table: Table) -> list[list[str]]:
    return [[index.name, index_mark(index)] for index in table.indexes]


def _column(column: Column) -> list[Any]:
    plain = [column.name, column.sql_type, column.nullable, column.is_key, repr(column.default)]
    return [*plain, outlined(column.kind)] if column.is_json else plain
