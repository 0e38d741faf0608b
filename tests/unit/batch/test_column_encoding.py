"""A column of texts travels as one text: what divides its values is never a part of one."""

from __future__ import annotations

import pytest
from asyncpg import DataError

from projectionist.core.postgres.error_class import ErrorClass, classify
from projectionist.runner.batch.column_encoding import joined


def test_values_are_divided_and_nulls_stand_for_themselves() -> None:
    assert joined(["a", "", "b"], 0) == "a\x1f\x1fb"
    assert joined([None, "a", None], 2) == "\x1e\x1fa\x1f\x1e"


@pytest.mark.parametrize(
    "column", [["a\x1fb", "c"], ["\x1e", "a"], ["\x1e", None], ["\x1f"], ["a\x1ex", "b"]]
)
def test_a_value_that_holds_the_divider_is_refused_like_any_that_postgresql_refuses(
    column: list[str | None],
) -> None:
    with pytest.raises(DataError) as refused:
        joined(column, column.count(None))
    assert classify(refused.value) is ErrorClass.DATA, "so its event is found and fails alone"
