"""Models are written for whatever names a table has."""

from __future__ import annotations

import sys
from types import ModuleType

import msgspec
import pytest

from projectionist.ops.inspect.row_models import _TYPES, ModelField, RowModel, source


def field(name: str, sql_type: str = "text", *, is_key: bool = False) -> ModelField:
    found = _TYPES[sql_type]
    return ModelField(name=name, type=found, python=found.python, nullable=not is_key, is_key=is_key)


NAMES = ("class", "my col", "my_col", "1st", "tail_", "a__b", "metadata", "pk", "date")
FIELDS = (field("id", "uuid", is_key=True), *(field(name, "date") for name in NAMES))
MODELS = [
    RowModel(name="Odd", schema="public", table="odd", told='It "says" \\ this.', fields=FIELDS),
    RowModel(name="Odd", schema="other", table="odd", told="The same name.", fields=FIELDS),
]


@pytest.mark.parametrize("library", ["sqlalchemy", "django", "msgspec"])
def test_odd_names_are_attributes_all_different(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = source(library, "shop.app:app", MODELS)
    code = compile(text, "models.py", "exec")
    if library == "django":  # which is loaded in a process of its own, where an app is tested
        assert "pk_column = models.DateField(db_column='pk', null=True)" in text
        assert "tail = models.DateField(db_column='tail_', null=True)" in text
        return
    made = ModuleType("odd_models")
    monkeypatch.setitem(sys.modules, "odd_models", made)
    exec(code, made.__dict__)  # noqa: S102 - that is what its reader does
    assert made.Odd.__doc__ == 'It "says" \\ this.'
    if library == "sqlalchemy":
        assert [column.name for column in made.Odd2.__table__.columns] == ["id", *NAMES]
    else:
        row = dict.fromkeys(NAMES, "2026-03-29") | {"id": "00000000-0000-0000-0000-000000000007"}
        assert msgspec.to_builtins(msgspec.convert(row, made.Odd2)) == row
