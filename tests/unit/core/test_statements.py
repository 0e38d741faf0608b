"""The statements of a package are read once: who asks for them in the middle of a batch keeps nobody waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from projectionist.core.postgres.statements import Statements


def test_a_statement_may_stand_inside_another_with_values_of_that_one() -> None:
    inner = Statements("projectionist.outbox", "one")["select_outbox_metrics"]
    outer = Statements("projectionist.ops", "one")["select_project_state"]
    assert inner.replace("$1", "$2") in outer
    parked = Statements("projectionist.runner", "one")["select_parked_page"]
    assert "unnest((select array_agg(name) from events)::text[], (select array_agg(source)" in parked
    assert "{" not in "".join(part.partition("'{")[0] for part in (outer, parked))


def test_statements_are_read_from_disk_once_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Statements("projectionist.core", "one")

    def read(*_: object, **__: object) -> str:
        raise AssertionError("read again")

    with monkeypatch.context() as closed:
        closed.setattr(Path, "read_text", read)
        again = Statements("projectionist.core", "one")
    assert dict(again) == dict(first)
    other = Statements("projectionist.core", "two")
    assert '"two"' in "".join(other.values())
    assert '"one"' not in "".join(other.values())
