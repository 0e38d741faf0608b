"""Each column of our tables stands on the page about erasing, once: one that is added has to be thought of."""

from __future__ import annotations

import re
from pathlib import Path

from projectionist.runner.retention.archived_content import CONTENT

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations" / "erase.md").read_text("utf-8")
SCHEMA = (ROOT / "migrations/projectionist/migrations/snapshot.sql").read_text("utf-8")
TABLE = re.compile(
    r"^CREATE (?:UNLOGGED )?TABLE projectionist\.(\w+) \(\n(.*?)\n\)", re.MULTILINE | re.DOTALL
)


def tables() -> dict[str, list[str]]:
    """Return our tables and their columns, as all migrations make them."""
    return {
        name: [line.split()[0] for line in body.splitlines() if not line.strip().startswith("CONSTRAINT")]
        for name, body in TABLE.findall(SCHEMA)
    }


def rows() -> dict[str, list[list[str]]]:
    """Return what the page says: by table the columns with content, with identity, and without either."""
    lines = PAGE.partition("| table | content, erased |")[2].splitlines()[2:]
    cells = [[re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:-1]] for line in lines]
    return {name: kinds for (name,), *kinds in cells}


def test_every_column_stands_on_the_page_as_one_of_three_kinds() -> None:
    told = {name: sorted(column for kind in kinds for column in kind) for name, kinds in rows().items()}
    assert told == {name: sorted(columns) for name, columns in tables().items()}


def test_what_goes_from_the_archive_is_what_goes_from_the_table() -> None:
    told = rows()
    assert {kind: set(columns) for kind, columns in CONTENT.items()} == {
        kind: set(told[kind][0]) for kind in CONTENT
    }


def test_what_is_called_content_is_emptied_by_a_statement() -> None:
    folder = ROOT / "runner/projectionist/runner/admin/sql"
    said = "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("erase_*.sql")))
    for table, (content, _, _) in rows().items():
        if table in {"archive", "outbox", "staged_intents"}:
            continue  # by code, and by a refusal
        for column in content:
            emptied = rf"update \{{schema\}}\.{table}\b[^;]*?\b{column} = (?:null|''|'erased')"
            gone = rf"delete from \{{schema\}}\.{table}\b"
            assert re.search(emptied, said, re.DOTALL) or re.search(gone, said), f"{table}.{column}"
