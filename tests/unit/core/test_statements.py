"""The statements of a package are read once: who asks for them in the middle of a batch keeps nobody waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from projectionist.core.postgres.statements import Statements


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
