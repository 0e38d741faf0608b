"""Streams that an app needs in a test, and where its events belong there."""

from __future__ import annotations

import pytest

from projectionist.api import App, Event, ProjectionistError, Reactor, Stream, on
from projectionist.projections import definition
from projectionist.testing import OldEvent
from projectionist.testing.subjects import places_of, subjects_of


class CrateMoved(Event, type="crate.moved"):
    pass


class CratePacked(Event, type="crate.packed"):
    pass


class CratesAll(Reactor, stream="CRATES", subjects="crates.*.{id}"):
    @on(CrateMoved)
    def moved(self, event: CrateMoved) -> None: ...


class CratesOwn(Reactor, stream="CRATES", subjects=("crates.crate.{id}", "boxes.>")):
    @on(CrateMoved)
    def moved(self, event: CrateMoved) -> None: ...


class CratesLast(Reactor, stream="CRATES", subjects="crates.crate.*.last"):
    @on(CratePacked)
    def packed(self, event: CratePacked) -> None: ...


class CratesAny(Reactor, stream="CRATES", subjects="crates.*.7.{id}"):
    @on(CratePacked)
    def packed(self, event: CratePacked) -> None: ...


YARD = Stream("YARD", "yard.{id}", source="yard", events=[CrateMoved], subjects=["lane.>"])


def test_subjects_that_others_cover_are_left_out_and_those_that_overlap_are_joined() -> None:
    def made(*consumers: type) -> dict[str, list[str]]:
        return subjects_of(map(definition, consumers), [YARD])

    assert made() == {"YARD": ["yard.*", "lane.>"]}
    assert made(CratesAll, CratesOwn)["CRATES"] == ["crates.*.*", "boxes.>"]
    assert made(CratesLast, CratesAny)["CRATES"] == ["crates.*.*.*"]


def test_an_event_goes_where_it_is_declared_or_most_of_its_consumers_read_it() -> None:
    app = App(projections=[CratesAll, CratesOwn])
    assert places_of(CrateMoved(), "crate/7", app) == [("crates.crate.7", "tests")]
    assert places_of(OldEvent("crate.moved", {}), "crate/7", App(streams=[YARD])) == [("yard.7", "yard")]
    with pytest.raises(ProjectionistError, match=r"no stream of the app has events of type 'crate\.packed'"):
        places_of(CratePacked(), "crate/7", app)
