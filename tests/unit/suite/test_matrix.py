"""The page of versions has a line for each combination that `make matrix` tries, and names the least that are taken."""

from __future__ import annotations

from pathlib import Path

from tests.support.matrix import COMBINATIONS, PAGE, ROOT, ROW, TESTS, Combination, line, replaced

from projectionist.core.server_versions import LEAST_NATS, LEAST_POSTGRES

REPORT = '<testsuites><testsuite tests="9" failures="1" errors="1" skipped="2"/></testsuites>'


def test_the_page_has_a_line_for_each_combination() -> None:
    found = [Combination(*row.groups()) for row in ROW.finditer(PAGE.read_text("utf-8"))]
    assert found == list(COMBINATIONS)


def test_the_least_versions_are_tried_and_stand_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    least = ".".join(map(str, LEAST_NATS))
    assert f"\n| PostgreSQL | {LEAST_POSTGRES} |" in page
    assert f"\n| nats-server | {least} |" in page
    assert any(
        one.postgres == str(LEAST_POSTGRES) and one.nats.startswith(f"{least}.") for one in COMBINATIONS
    )


def test_what_is_run_is_there() -> None:
    assert [name for name in TESTS if not Path(ROOT, name).exists()] == []


def test_a_run_replaces_the_line_of_its_combination_alone() -> None:
    one, other = COMBINATIONS[:2]
    page = PAGE.read_text("utf-8")
    fresh = line(one, REPORT)
    assert fresh.startswith(f"| {one.python} | {one.postgres} | {one.nats} | 5 | 2 | 2 | ")
    written = replaced(page, [fresh])
    assert fresh in written.splitlines()
    assert [row[0] for row in ROW.finditer(written) if row["nats"] == other.nats] == [
        row[0] for row in ROW.finditer(page) if row["nats"] == other.nats
    ]
    assert len(written.splitlines()) == len(page.splitlines())
