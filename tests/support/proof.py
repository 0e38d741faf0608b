"""Writes docs/proof.md from what a run of tests has found: for each promise its tests, their figures, and a command.

`python -m tests.support.proof I7` runs the tests of one promise; without a number those of all, and writes the page.
`--from REPORT…` writes it from JUnit reports of a run that there was.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
from tests.model.counterexample import drawn
from tests.support import surroundings

Figure = Callable[[str, object], None]
"""What pytest calls `record_property`: a number that the page shows."""
ROOT = Path(__file__).parents[2]
GUARANTEES = ROOT / "docs" / "guarantees.md"
PAGE = ROOT / "docs" / "proof.md"
REPORT = ROOT / ".pytest_cache" / "proof.xml"


class Promise(msgspec.Struct, frozen=True):
    """One row of the guarantees."""

    number: str
    name: str
    tests: list[str]


class Result(msgspec.Struct):
    """What became of one test, with all its parameters."""

    passed: int = 0
    broken: int = 0
    left_out: int = 0
    seconds: float = 0.0
    figures: dict[str, int] = {}


def promises(text: str) -> list[Promise]:
    """Return the rows of docs/guarantees.md that are promises."""
    rows = re.findall(r"^\| (I\d+) \[([^]]+)\]\(proof\.md#\w+\) \|.*\|([^|]*)\|$", text, re.MULTILINE)
    return [Promise(number, name, re.findall(r"`(test_\w+)`", tests)) for number, name, tests in rows]


def results(reports: Iterable[str]) -> dict[str, Result]:
    """Return what JUnit reports say, by the name of a test."""
    found: dict[str, Result] = {}
    for report in reports:
        for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - our own pytest has written it
            one = found.setdefault(case.attrib["name"].partition("[")[0], Result(figures={}))
            one.seconds += float(case.attrib["time"])
            if case.find("failure") is not None or case.find("error") is not None:
                one.broken += 1
            elif case.find("skipped") is not None:
                one.left_out += 1
            else:
                one.passed += 1
            for figure in case.iter("property"):
                name, value = figure.attrib["name"], figure.attrib["value"]
                if value.isdecimal():  # Hypothesis leaves its statistics there too, as text
                    one.figures[name] = one.figures.get(name, 0) + int(value)
    return found


def nodes(names: Iterable[str]) -> list[str]:
    """Return where tests of these names are, as pytest takes it; those of a suite, wherever it is run."""
    wanted, found = set(names), list[str]()
    suites: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py"), key=lambda file: file.name.startswith("test_")):
        inside, path = "", file.relative_to(ROOT)
        lines = re.findall(
            r"^( *)(class|async def|def) (\w+)(?:\(([\w, ]*)\):)?", file.read_text("utf-8"), re.MULTILINE
        )
        for indent, kind, name, bases in lines:
            if not indent:
                inside = f"{name}::" if kind == "class" else ""
                inherited = [test for base in bases.split(", ") for test in suites.get(base, ())]
                found += [f"{path}::{name}::{test}" for test in inherited if kind == "class"]
            if name in wanted and file.name.startswith("test_"):
                found.append(f"{path}::{inside if indent else ''}{name}")
            elif name in wanted:
                suites.setdefault(inside.removesuffix("::"), []).append(name)
    return found


def row(promise: Promise, found: Mapping[str, Result]) -> str:
    """Return a promise's line of the page."""
    run = [found[name] for name in promise.tests if name in found]
    passed, broken = sum(one.passed for one in run), sum(one.broken for one in run)
    told = [f"{passed:,} passed"]
    told += [f"**{broken:,} failed**"] if broken else []
    told += [f"{left:,} left out"] if (left := sum(one.left_out for one in run)) else []
    told += [f"{missing} not run"] if (missing := len(promise.tests) - len(run)) else []
    figures: dict[str, int] = {}
    for one in run:
        for name, value in one.figures.items():
            figures[name] = figures.get(name, 0) + value
    counted = [f"{value:,} {name}" for name, value in figures.items()]
    link = f'<a id="{promise.number.lower()}"></a>{promise.number} [{promise.name}](guarantees.md)'
    cells = (
        link,
        f"{len(promise.tests)}",
        ", ".join(told),
        ", ".join(counted),
        f"{sum(one.seconds for one in run):,.0f} s",
        f"`make promise ID={promise.number}`",
    )
    return f"| {' | '.join(cells)} |"


def page(made: Sequence[Promise], found: Mapping[str, Result], about: Sequence[str]) -> str:
    """Return the page."""
    run = [result for name, result in found.items() if any(name in one.tests for one in made)]
    cases = (
        f"{len(run):,} tests, {sum(one.passed for one in run):,} cases passed,"
        f" {sum(one.broken for one in run):,} failed, {sum(one.left_out for one in run):,} left out"
    )
    lines = [
        *BEFORE.splitlines(),
        *(f"- {line}" for line in (*about, cases)),
        *ABOUT_ROWS.splitlines(),
        *(row(one, found) for one in made),
        *ABOUT_THE_MODEL.splitlines(),
        "```text",
        *drawn(),
        "```",
        *AFTER.splitlines(),
        "",
    ]
    return "\n".join(lines)


BEFORE = """# Proof

What the last run has shown of each promise of [the guarantees](guarantees.md). `make proof` makes the run and
writes this page; nobody types it. The command of a row runs its tests alone, on any machine that has Python, make
and git.

"""
ABOUT_ROWS = """
A test of several rows counts in each. A case is a test with one choice of its parameters; one that needs what the
machine does not have is left out, one that the run did not come to is not run.

| promise | tests | cases | figures | took | on your machine |
|---|---|---|---|---|---|
"""
ABOUT_THE_MODEL = """
## What a model shows

[The model](adr/0035-model.md) visits every order of statements, deaths and answers within its bounds. That it would
see a hole is shown by taking out one rule of the protocol at a time. This is the shortest way in which two versions of
one aggregate go wrong without **the placeholder**, the position that a batch makes before it locks it, because what is
not there cannot be locked:

"""
AFTER = """
Version 1 is in the row, and the position says that nothing was applied: version 2 would be parked for ever.
"""


def about() -> list[str]:
    """Return what was tested, with what."""
    ours = f"{surroundings.python()}, asyncpg {version('asyncpg')}, Hypothesis {version('hypothesis')}"
    return [
        f"commit {surroundings.commit()}, which is the seed of what is drawn, on {surroundings.today()}",
        f"{surroundings.servers()}, {ours}",
    ]


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; return pytest's exit code."""
    made = promises(GUARANTEES.read_text("utf-8"))
    code, reports = 0, [Path(name) for name in arguments[1:]]
    if arguments[:1] != ["--from"]:
        asked = [one for one in made if not arguments or one.number in arguments]
        if not asked:
            raise SystemExit(f"no promise is called {' '.join(arguments)}; there are I1 to I{len(made)}")
        names = {name for one in asked for name in one.tests}
        options = ["-q", "-n", "auto", "--dist", "loadfile", f"--junitxml={REPORT}"]
        options += ["-o", "junit_family=xunit1"]  # of the two, the one that has room for figures
        asking = [sys.executable, "-m", "pytest", *options, *nodes(names)]
        code = subprocess.run(asking, cwd=ROOT, check=False).returncode
        if arguments:
            return code
        reports = [REPORT]
    PAGE.write_text(page(made, results(one.read_text("utf-8") for one in reports), about()), "utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
