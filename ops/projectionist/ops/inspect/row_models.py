"""Writes models of the views for other programs: classes of SQLAlchemy, Django or msgspec, as Python source."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from inspect import cleandoc
from typing import TYPE_CHECKING, get_origin

import msgspec

from projectionist.projections.tables import ddl
from projectionist.projections.tables.columns import Column

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import Definition
    from projectionist.projections.tables.table import Table
    from projectionist.runner.database.queries import Queries


class ColumnType(msgspec.Struct, frozen=True):
    """A column's type in the words of each library."""

    python: str
    sqlalchemy: str
    django: str


_TYPES = {
    "text": ColumnType("str", "Text", "TextField"),
    "character varying": ColumnType("str", "Text", "TextField"),
    "smallint": ColumnType("int", "SmallInteger", "SmallIntegerField"),
    "integer": ColumnType("int", "Integer", "IntegerField"),
    "bigint": ColumnType("int", "BigInteger", "BigIntegerField"),
    "real": ColumnType("float", "Float", "FloatField"),
    "double precision": ColumnType("float", "Double", "FloatField"),
    "boolean": ColumnType("bool", "Boolean", "BooleanField"),
    "numeric": ColumnType("Decimal", "Numeric", "DecimalField"),
    "bytea": ColumnType("bytes", "LargeBinary", "BinaryField"),
    "timestamp with time zone": ColumnType("dt.datetime", "DateTime(timezone=True)", "DateTimeField"),
    "date": ColumnType("dt.date", "Date", "DateField"),
    "uuid": ColumnType("UUID", "Uuid", "UUIDField"),
    "jsonb": ColumnType("Any", "JSONB", "JSONField"),
}
_OTHER = ColumnType("Any", "Text", "TextField")
"""Of a SqlProjection: what the driver gives is what the reader gets."""
_IMPORTS = {
    "dt": "import datetime as dt",  # a column may well be called date
    "Decimal": "from decimal import Decimal",
    "Any": "from typing import Any",
    "UUID": "from uuid import UUID",
}
_TAKEN = {
    "sqlalchemy": {"metadata", "registry"},
    "django": {"pk", "objects"},
    "msgspec": frozenset[str](),
}
"""Names that a library keeps for itself."""


class ModelField(msgspec.Struct, frozen=True):
    """One column of a view."""

    name: str
    type: ColumnType
    python: str
    nullable: bool
    is_key: bool

    @property
    def annotation(self) -> str:
        """Return the type of its values."""
        return f"{self.python} | None" if self.nullable and self.python != "Any" else self.python


class RowModel(msgspec.Struct, frozen=True):
    """One view, and the class to be written for it."""

    name: str
    schema: str
    table: str
    told: str
    fields: tuple[ModelField, ...]


def of_class(d: Definition, table: Table) -> RowModel:
    """Return the model of a Projection's view: its class says all of it."""
    return _model(d.cls.__name__, d, table, tuple(map(_field, table.columns)))


async def of_table(queries: Queries, d: Definition, table: Table) -> RowModel | None:
    """Return the model of a view of a SqlProjection, as the database has it; None where it is not there, or keyless."""
    row = await queries.row("select_view", d.name)
    if row is None:
        return None
    physical = ddl.physical(table, queries.schema, row["generation"])
    keys = {one["name"] for one in await queries.rows("select_primary_key", physical)}
    fields = [
        ModelField(
            name=one["name"],
            type=(found := _TYPES.get(re.sub(r"\(.*\)", "", one["sql_type"]), _OTHER)),
            python=found.python,
            nullable=one["name"] not in keys,
            is_key=one["name"] in keys,
        )
        for one in await queries.rows("select_columns", physical)
    ]
    return _model(_camel(table.name), d, table, tuple(fields)) if keys else None


def source(library: str, app: str, models: Sequence[RowModel]) -> str:
    """Write a module of these models; of two that would have one name, the second is numbered."""
    seen: Counter[str] = Counter()
    for at, model in enumerate(models := list(models)):
        seen[model.name] += 1
        if (many := seen[model.name]) > 1:
            models[at] = msgspec.structs.replace(model, name=f"{model.name}{many}")
    write = {"sqlalchemy": _sqlalchemy, "django": _django, "msgspec": _msgspec}[library]
    head = f'"""Read models of {app}, written by `projectionist models --{library}`: for reading alone."""'
    return "\n\n\n".join([f"{head}\n\n{_imports(library, models)}", *map(write, models)]) + "\n"


def _field(column: Column) -> ModelField:
    sql_type = column.sql_type.split(" collate ")[0].replace("timestamptz", "timestamp with time zone")
    found = _TYPES[sql_type]
    python = found.python
    if column.is_json:
        python = "list[Any]" if (get_origin(column.kind) or column.kind) is list else "dict[str, Any]"
    return ModelField(
        name=column.name, type=found, python=python, nullable=column.nullable, is_key=column.is_key
    )


def _model(name: str, d: Definition, table: Table, fields: tuple[ModelField, ...]) -> RowModel:
    said = (d.cls.__dict__.get("__doc__") or "") if d.table is not None else ""
    told = cleandoc(said).split("\n")[0] or f"The view {table.public}."
    return RowModel(name=name, schema=table.schema, table=table.name, told=told, fields=fields)


def _imports(library: str, models: Sequence[RowModel]) -> str:
    words = {word for m in models for f in m.fields for word in re.findall(r"\w+", f.annotation)}
    standard = [text for word, text in _IMPORTS.items() if word in words]
    if library == "msgspec":
        theirs = ["import msgspec"]
    elif library == "django":
        theirs, standard = ["from django.db import models"], []
    else:
        theirs = _sqlalchemy_imports({f.type.sqlalchemy.partition("(")[0] for m in models for f in m.fields})
    parts = ["from __future__ import annotations", "\n".join(standard), "\n".join(theirs)]
    return "\n\n".join(filter(None, parts))


def _sqlalchemy_imports(types: Iterable[str]) -> list[str]:
    plain = sorted(set(types) - {"JSONB"})
    return [
        *([f"from sqlalchemy import {', '.join(plain)}"] if plain else []),
        *(["from sqlalchemy.dialects.postgresql import JSONB"] if "JSONB" in types else []),
        "from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column\n\n\nclass ReadModels(DeclarativeBase):",
        '    """Base of the views: leave its metadata out of what creates or compares tables."""',
    ]


def _sqlalchemy(model: RowModel) -> str:
    lines = [
        f"class {model.name}(ReadModels):",
        f"    {_docstring(model.told)}",
        "",
        f"    __tablename__ = {model.table!r}",
        f'    __table_args__ = {{"schema": {model.schema!r}}}',
        "",
    ]
    for field, name in _named("sqlalchemy", model):
        given = [repr(field.name)] if name != field.name else []
        given += [field.type.sqlalchemy, *(["primary_key=True"] if field.is_key else [])]
        lines.append(f"    {name}: Mapped[{field.annotation}] = mapped_column({', '.join(given)})")
    return "\n".join(lines)


def _django(model: RowModel) -> str:
    lines = [f"class {model.name}(models.Model):", f"    {_docstring(model.told)}", ""]
    named = list(_named("django", model))
    keys = [name for field, name in named if field.is_key]
    if len(keys) > 1:
        lines.append(f"    pk = models.CompositePrimaryKey({', '.join(map(repr, keys))})")
    for field, name in named:
        given = [f"db_column={field.name!r}"] if name != field.name else []
        given += ["max_digits=1000", "decimal_places=100"] if field.type.django == "DecimalField" else []
        given += ["primary_key=True"] if [name] == keys else ["null=True"] if field.nullable else []
        lines.append(f"    {name} = models.{field.type.django}({', '.join(given)})")
    # Django puts quotes around the whole: these make it two names.
    place = model.table if model.schema == "public" else f'{model.schema}"."{model.table}'
    return "\n".join(
        [*lines, "", "    class Meta:", "        managed = False", f"        db_table = {place!r}"]
    )


def _msgspec(model: RowModel) -> str:
    lines = [f"class {model.name}(msgspec.Struct, frozen=True):", f"    {_docstring(model.told)}", ""]
    for field, name in _named("msgspec", model):
        given = f" = msgspec.field(name={field.name!r})" if name != field.name else ""
        lines.append(f"    {name}: {field.annotation}{given}")
    return "\n".join(lines)


def _named(library: str, model: RowModel) -> Iterable[tuple[ModelField, str]]:
    """Yield each column with an attribute that the library takes for it."""
    names = {field.name for field in model.fields}
    for field in model.fields:
        name = re.sub(r"\W|^(?=\d)", "_", field.name)
        if library == "django":
            name = re.sub(r"__+", "_", name).rstrip("_") or "column"
        if name in _TAKEN[library] or keyword.iskeyword(name):
            name = f"{name}_column"
        while name != field.name and name in names:
            name = f"{name}_column"
        names.add(name)
        yield field, name


def _docstring(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{plain}"""'


def _camel(name: str) -> str:
    """Return a class's name for a table's."""
    made = "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", name))
    return made if made[:1].isalpha() else f"Table{made}"
