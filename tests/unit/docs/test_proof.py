"""The page of proof is the generator's, and each promise leads to its row there; only figures are of a run."""

from __future__ import annotations

import re

from tests.support.proof import GUARANTEES, PAGE, Promise, Result, nodes, page, promises, results, row

MADE = promises(GUARANTEES.read_text("utf-8"))
REPORT = """<testsuites><testsuite>
<testcase name="test_one[1]" time="0.5"><properties><property name="steps" value="7"/></properties></testcase>
<testcase name="test_one[2]" time="0.25"><properties><property name="steps" value="5"/>
<property name="hypothesis-statistics-test_one" value="dGV4dA=="/></properties></testcase>
<testcase name="test_two" time="2"><failure message="no">it broke</failure></testcase>
<testcase name="test_three" time="0"><skipped message="not here"/></testcase>
</testsuite></testsuites>"""


def form(text: str) -> list[str]:
    """The lines of a page without what a run has found."""
    lines = [line for line in text.splitlines() if not line.startswith("- ")]
    return [re.sub(r"^(\| <a [^|]*\|).*(\|[^|]*\|)$", r"\1\2", line) for line in lines]


def test_each_promise_leads_to_its_row_of_the_page() -> None:
    numbers = re.findall(r"^\| (I\d+) ", GUARANTEES.read_text("utf-8"), re.MULTILINE)
    assert [one.number for one in MADE] == numbers
    assert re.findall(r'<a id="(\w+)">', PAGE.read_text("utf-8")) == [number.lower() for number in numbers]
    links = re.findall(r"proof\.md#(\w+)", GUARANTEES.read_text("utf-8"))
    assert links == [number.lower() for number in numbers]


def test_the_page_has_the_form_that_the_generator_gives_it() -> None:
    assert form(PAGE.read_text("utf-8")) == form(page(MADE, {}, ["of this run"]))


def test_the_page_says_which_commit_and_which_servers_were_tested() -> None:
    head = PAGE.read_text("utf-8").partition("| promise |")[0]
    assert re.search(r"commit [0-9a-f]{40}\b", head)
    assert re.search(r"PostgreSQL \d+\.\d+, nats-server \d+\.\d+", head)


def test_a_row_counts_what_passed_failed_was_left_out_or_not_run() -> None:
    found = results([REPORT])
    assert found["test_one"] == Result(passed=2, seconds=0.75, figures={"steps": 12})
    line = row(Promise("I0", "thing", ["test_one", "test_two", "test_three", "test_four"]), found)
    assert (
        "| 4 | 2 passed, **1 failed**, 1 left out, 1 not run | 12 steps | 3 s | `make promise ID=I0` |"
        in line
    )


def test_every_test_of_a_promise_is_found_where_pytest_looks_for_it() -> None:
    names = {name for one in MADE for name in one.tests}
    assert names - {node.rpartition("::")[2] for node in nodes(names)} == set()
