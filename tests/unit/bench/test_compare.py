"""What `bench compare` makes of two revisions, without servers: their sources, and what differs beyond the noise."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from projectionist.bench import compare
from projectionist.bench.children import BenchError
from projectionist.bench.figures import cpu_us
from projectionist.bench.live import Rounds
from projectionist.bench.meters import Used
from projectionist.bench.trial import Cost, Reading, Steady, steady_cost


def in_turns(old: list[float], new: list[float]) -> Rounds:
    """Two revisions that took so many seconds, round by round."""
    costs = {
        name: [Cost(events=1000, seconds=s, cpu_s=0.5, rss_mb=40) for s in taken]
        for name, taken in (("old", old), ("new", new))
    }
    return Rounds({"old": "v1", "new": "HEAD"}, costs)


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ([2.0] * 6, [1.0, 1.1, 1.2, 1.3, 1.4, 1.9], True),
        ([1.0] * 6, [1.1] * 6, True),
        ([2.0] * 6, [1.0, 1.1, 1.2, 1.3, 1.4, 2.1], False),
        ([2.0] * 6, [2.0, 1.1, 1.2, 1.3, 1.4, 1.5], False),
        ([2.0] * 5, [1.0] * 5, False),
    ],
    ids=["faster", "slower", "one round says otherwise", "one round says nothing", "too few rounds"],
)
def test_two_revisions_differ_where_all_of_enough_rounds_say_the_same(
    old: list[float], new: list[float], differs: bool
) -> None:
    rounds = in_turns(old, new)
    rate = compare.document(rounds)["compare"]["differences"]["events/s"]

    assert rate["beyond_noise"] is differs
    assert ("differs" in compare.text(rounds).split("events/s")[1].splitlines()[0]) is differs
    assert compare.document(rounds)["compare"]["revisions"] == {"old": "v1", "new": "HEAD"}


def test_what_an_event_takes_once_all_has_started_is_told_by_process() -> None:
    began = Reading(100, 1.0, Used(10.0, 5.0, 0))
    ended = Reading(1100, 1.02, Used(10.01, None, 0))
    steady = steady_cost(began, ended)

    assert steady == Steady(20.0, 10.0, None)
    assert steady.total is None
    assert cpu_us([Cost(events=1000, seconds=1.0, cpu_s=0.5, rss_mb=40, steady=steady)]) == {
        "client": 20.0,
        "postgres": 10.0,
        "nats": None,
        "total": None,
    }
    assert steady_cost(ended, ended) is None


@pytest.mark.parametrize(
    ("revision", "said"), [("no-such-revision", "no-such-revision"), ("--output=x", "--output=x")]
)
def test_a_revision_that_git_does_not_know_is_refused_with_what_to_do(
    revision: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BenchError, match=said) as raised, compare.checked_out(revision):
        pytest.fail("nothing can be checked out")

    assert "checkout" in str(raised.value.remedy)
    assert list(tmp_path.iterdir()) == []


def test_the_sources_of_a_revision_are_found_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("runner", "ops", "docs"):
        (tmp_path / part / ("projectionist" if part != "docs" else "x")).mkdir(parents=True)
        (tmp_path / part / ("projectionist" if part != "docs" else "x") / "one.py").write_text("", "utf-8")
    git = ("git", "-c", "user.name=ann", "-c", "user.email=ann@a.example")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one")):
        subprocess.run([*git, *arguments], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)

    with compare.checked_out("HEAD", "HEAD") as trees:
        folders = [[Path(folder) for folder in tree.split(os.pathsep)] for tree in trees]
        assert [[folder.name for folder in tree] for tree in folders] == 2 * [["ops", "runner"]]
        assert all((folder / "projectionist" / "one.py").is_file() for tree in folders for folder in tree)
