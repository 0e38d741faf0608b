"""What is pending, judged without a database."""

from __future__ import annotations

import re

import pytest

from projectionist.core.errors import IdentifierError
from projectionist.migrations.catalog import AppliedMigration, Migration, MigrationError, pending, released

KNOWN = [Migration(n, f"000{n}_step", bytes([n]), "select 1") for n in (1, 2, 3)]


def applied(*migrations: Migration, release: str = "0.1.0") -> list[AppliedMigration]:
    return [AppliedMigration(m.number, m.name, m.checksum, release) for m in migrations]


def test_what_the_ledger_lacks_is_pending_in_order() -> None:
    assert pending(KNOWN, []) == KNOWN
    assert pending(KNOWN, applied(KNOWN[0])) == KNOWN[1:]
    assert pending(KNOWN, applied(*KNOWN)) == []


def test_an_edited_migration_is_refused() -> None:
    ledger = [AppliedMigration(1, "0001_step", b"other", "0.0.9")]
    with pytest.raises(MigrationError, match=r"0001_step was edited after release 0\.0\.9.*new migration"):
        pending(KNOWN, ledger)


def test_a_database_newer_than_the_code_is_refused() -> None:
    with pytest.raises(
        MigrationError, match=r"newer than this code: release 0\.9\.0 applied migration 0003_step"
    ):
        pending(KNOWN[:2], applied(*KNOWN, release="0.9.0"))


def test_a_database_of_another_line_of_development_is_refused() -> None:
    with pytest.raises(MigrationError, match="holds migration 0001_other where this code has 0001_step"):
        pending(KNOWN, [AppliedMigration(1, "0001_other", b"", "0.1.0")])


def test_a_hole_in_the_ledger_is_refused() -> None:
    with pytest.raises(MigrationError, match="0003_step where this code has 0002_step"):
        pending(KNOWN, applied(KNOWN[0], KNOWN[2]))


def test_released_migrations_are_numbered_from_one_without_a_hole() -> None:
    migrations = released("projectionist")
    assert [m.number for m in migrations] == list(range(1, len(migrations) + 1))
    assert migrations[0].name == "0001_consumers"


def test_the_schema_is_filled_in_quoted_and_does_not_change_the_checksum() -> None:
    plain, odd = released("projectionist"), released('we"ird')
    assert '"we""ird".consumers' in odd[0].sql
    assert "{schema}" not in odd[0].sql
    assert [m.checksum for m in plain] == [m.checksum for m in odd]


def test_every_key_and_name_in_text_compares_by_bytes() -> None:
    for migration in released("projectionist"):
        keys = re.findall(r"^\s+(\w+)\s+text\s+(.*)(?:primary key|unique)", migration.sql, re.MULTILINE)
        assert [name for name, rest in keys if 'collate "C"' not in rest] == []


@pytest.mark.parametrize("schema", ["", "x" * 64, "a\0b", "line\nbreak"])
def test_a_schema_name_postgresql_would_not_keep_is_refused(schema: str) -> None:
    with pytest.raises(IdentifierError, match="schema"):
        released(schema)
