"""`check_projection`: sound consumers pass, and each kind of unsound one is shown by a small history."""

from __future__ import annotations

import datetime as dt
import logging
import random
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from projectionist.api import (
    Delete,
    Event,
    Intent,
    Projection,
    ProjectionistError,
    Reactor,
    Refuse,
    Scheduled,
    SqlProjection,
    Tx,
    ViewSet,
    event,
    on,
)
from projectionist.core.errors import DefinitionError
from projectionist.testing import check_projection

log = logging.getLogger(__name__)


class BoxFilled(Event, type="box.filled"):
    owner: str
    pieces: int
    price: Decimal = Decimal(0)


class BoxClosed(Event, type="box.closed"):
    pass


@event(type="box.marked")
@dataclass
class BoxMarked:
    marks: list[str]


class BoxTold(Intent, provider="email"):
    to: str


HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(["box/1", "box/2", "box/3"]),
        st.one_of(
            st.builds(
                BoxFilled,
                owner=st.sampled_from(["ann", "bob"]),
                pieces=st.integers(0, 9),
                price=st.sampled_from([Decimal(0), Decimal("1.50")]),
            ),
            st.builds(BoxClosed),
            st.builds(BoxMarked, st.lists(st.sampled_from("abc"))),
        ),
    ),
    max_size=5,
)
SHORT = st.lists(
    st.tuples(
        st.sampled_from(["box/1", "box/2"]),
        st.one_of(
            st.builds(BoxFilled, owner=st.just("ann"), pieces=st.integers(0, 3)),
            st.builds(BoxMarked, st.lists(st.sampled_from("abc"))),
        ),
    ),
    max_size=6,
)
"""Two events of one kind nearly always, so that histories show what two of them can."""
PLACE: dict[str, Any] = {"stream": "BOXES", "subjects": "boxes.{type}.{id}"}


class SoundBox(Projection, **PLACE, table="sound_box", key="box"):
    box: str
    pieces: int = 0
    price: Decimal = Decimal(0)
    marks: list[str] = []

    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> None:
        log.info("%s is filled", self.box)
        self.pieces += event.pieces
        self.price += event.price

    @on(BoxMarked)
    def marked(self, event: BoxMarked) -> None:
        self.marks = sorted({*self.marks, *event.marks})

    @on(BoxClosed)
    def closed(self, event: BoxClosed) -> Iterator[BoxTold | Delete]:
        if not self.pieces:
            raise Refuse("it is empty")
        yield BoxTold(to=self.box)
        if self.pieces > 9:
            yield Delete()


class SoundOwner(Projection, **PLACE, table="sound_owner", key="owner"):
    owner: str
    pieces: int = 0

    @on(BoxFilled, key="owner")
    def filled(self, event: BoxFilled) -> None:
        self.pieces += event.pieces


class SoundReactor(Reactor, **PLACE, sequence="monotonic"):
    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> BoxTold:
        return BoxTold(to=event.owner)


class SoundUnordered(Projection, **PLACE, sequence="unordered", table="sound_unordered", key="owner"):
    owner: str
    most: int = 0

    @on(BoxFilled, key="owner")
    def filled(self, event: BoxFilled) -> None:
        self.most = max(self.most, event.pieces)


class SoundMarks(Projection, **PLACE, table="sound_marks", key=("box", "no")):
    box: str
    no: int
    mark: str = ""

    @on(BoxMarked, each=lambda event: range(len(event.marks)))
    def marked(self, event: BoxMarked) -> BoxTold:
        self.mark = event.marks[self.no]
        return BoxTold(to=self.mark)

    @on(BoxClosed, rows="box")
    def closed(self, event: BoxClosed) -> Iterator[BoxTold | Delete]:
        yield BoxTold(to=self.mark)
        yield Delete()


class BoxOfSet(Projection, table="box_of_set", key="box"):
    box: str
    pieces: int = 0

    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> None:
        self.pieces += event.pieces

    @on(BoxClosed)
    def closed(self, event: BoxClosed) -> Delete:
        return Delete()


class OwnerOfSet(Projection, table="owner_of_set", key="owner"):
    owner: str
    pieces: int = 0

    @on(BoxFilled, key="owner")
    def filled(self, event: BoxFilled) -> None:
        self.pieces += event.pieces


class TellerOfSet(Reactor):
    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> BoxTold:
        if event.pieces == 1:
            raise Refuse("too few")
        return BoxTold(to=event.owner)


class SoundSet(ViewSet, **PLACE, views=[BoxOfSet, OwnerOfSet, TellerOfSet]):
    """What its teller refuses has happened in none of its views."""


@pytest.mark.parametrize("sound", [SoundBox, SoundOwner, SoundReactor, SoundUnordered, SoundMarks, SoundSet])
def test_a_sound_consumer_passes(sound: type) -> None:
    check_projection(sound, events=HISTORIES)


class LastWriter(Projection, **PLACE, table="last_writer", key="owner"):
    owner: str
    pieces: int = 0

    @on(BoxFilled, key="owner")
    def filled(self, event: BoxFilled) -> None:
        self.pieces = event.pieces


class TooOrdered(Projection, **PLACE, sequence="unordered", table="too_ordered", key="box"):
    box: str
    pieces: int = 0

    @on(BoxFilled, key=lambda event, envelope: envelope.aggregate_id)
    def filled(self, event: BoxFilled) -> None:
        self.pieces = event.pieces


class AsksTime(Projection, **PLACE, table="asks_time", key="box"):
    box: str
    at: float = 0.0

    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> None:
        self.at = time.time()


class AsksDay(Projection, **PLACE, table="asks_day", key="day"):
    day: str
    pieces: int = 0

    @on(BoxFilled, key=lambda event: date.today().isoformat())  # noqa: DTZ011 this is what is found
    def filled(self, event: BoxFilled) -> None:
        self.pieces += 1


class AsksNow(Projection, **PLACE, table="asks_now", key="box"):
    box: str
    open: bool = False

    @on(BoxFilled, when=lambda row, event: dt.datetime.now(dt.UTC).year > 1)
    def filled(self, event: BoxFilled) -> None:
        self.open = True


class AsksMoment(Reactor, **PLACE):
    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> Scheduled:
        return BoxTold(to="a").at(dt.datetime.now(dt.UTC) + dt.timedelta(days=1))


class OtherMoment(Reactor, **PLACE):
    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> Scheduled:
        REMEMBERED.append("once more")
        return BoxTold(to="a").after(dt.timedelta(days=len(REMEMBERED)))


class AsksChance(Reactor, **PLACE):
    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> BoxTold | None:
        return BoxTold(to="a") if random.random() < 2 else None


class DrawsId(Reactor, **PLACE):
    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> BoxTold:
        return BoxTold(to=str(uuid.uuid4()))


class Remembers(Projection, **PLACE, table="remembers", key="box"):
    box: str
    number: int = 0

    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> None:
        REMEMBERED.append(event.owner)
        self.number = len(REMEMBERED)


class RemembersOnce(Reactor, **PLACE):
    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> BoxTold | None:
        if (event.owner, event.pieces) in ONCE:
            return None
        ONCE.add((event.owner, event.pieces))
        return BoxTold(to=event.owner)


class CountsBeside(Projection, **PLACE, table="counts_beside", key="box"):
    """Begins anew with each new row, so that only a try that came to nothing shows what it remembers."""

    box: str
    pieces: int = 0

    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> None:
        PIECES[self.box] = event.pieces + (PIECES[self.box] if self.pieces else 0)
        self.pieces = PIECES[self.box]


class LastOfSet(Projection, table="last_of_set", key="owner"):
    owner: str
    pieces: int = 0

    @on(BoxFilled, key="owner")
    def filled(self, event: BoxFilled) -> None:
        self.pieces = event.pieces


class UnsoundSet(ViewSet, **PLACE, views=[BoxOfSet, LastOfSet]):
    """One of its views is what the last one says."""


class ChangesEvent(Projection, **PLACE, table="changes_event", key="box"):
    box: str
    marks: str = ""

    @on(BoxMarked)
    def marked(self, event: BoxMarked) -> None:
        event.marks.append("!")
        self.marks = "".join(event.marks)


class Errs(Projection, **PLACE, table="errs", key="box"):
    box: str
    pieces: int = 0

    @on(BoxFilled)
    def filled(self, event: BoxFilled) -> None:
        self.pieces = 10 // event.pieces


@pytest.fixture
def a_thousand_histories() -> Iterator[None]:
    """Draw until something is shown: one time in thirty a hundred histories hold nothing that shows a last writer."""
    settings.register_profile("a thousand", settings.get_profile("any machine"), max_examples=1000)
    settings.load_profile("a thousand")
    yield
    settings.load_profile("any machine")


REMEMBERED: list[str] = []
ONCE: set[tuple[str, int]] = set()
PIECES: dict[str, int] = {}


@pytest.mark.parametrize(
    ("unsound", "found"),
    [
        (LastWriter, r"delivered as .*they gave\n  row 'ann' with pieces = \d, not \d"),
        (TooOrdered, r"delivered as .*row '\d' with pieces"),
        (AsksTime, r"not pure: AsksTime.filled asks for time.time"),
        (AsksDay, r"asks for date.today"),
        (AsksNow, r"asks for datetime.now"),
        (AsksMoment, r"AsksMoment.filled asks for datetime.now"),
        (OtherMoment, r'intents? BoxTold {"to":"a"} at 2026'),
        (AsksChance, r"AsksChance.filled asks for random.random"),
        (DrawsId, r"DrawsId.filled asks for os.urandom"),
        (Remembers, r"remembers something beside its rows.*\n  row '\d' with number = \d+, not \d+"),
        (RemembersOnce, r"remembers something beside its rows.*\n  no intents BoxTold"),
        (
            CountsBeside,
            r"(failed at first|the process died).*they gave\n  row '\d' with pieces = \d+, not \d+",
        ),
        (UnsoundSet, r"delivered as .*they gave\n  row 'ann' with pieces = \d, not \d of LastOfSet"),
        (ChangesEvent, r"ChangesEvent.marked changes its BoxMarked"),
        (Errs, r"event box/\d:1 failed: ZeroDivisionError"),
    ],
)
def test_an_unsound_consumer_is_shown_by_a_small_history(
    a_thousand_histories: None, unsound: type, found: str
) -> None:
    with pytest.raises(AssertionError, match=f"(?s){found}") as raised:
        check_projection(unsound, events=SHORT)
    head, *told = str(raised.value).splitlines()
    assert head == f"{unsound.__name__} and the events"
    shown = len([line for line in told if "box/" in line and "  Box" in line])
    # What only a try that came to nothing shows may need a third, whose coming tries again what waits behind it.
    assert shown <= (3 if unsound is CountsBeside else 2), told


def test_what_cannot_be_checked_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class NeedsDatabase(SqlProjection, **PLACE):
        tables = {"needs_database": "box text"}

        @on(BoxFilled)
        async def filled(self, tx: Tx, event: BoxFilled) -> None: ...

    with pytest.raises(DefinitionError, match="is a SqlProjection"):
        check_projection(NeedsDatabase, events=HISTORIES)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "projectionist.testing.properties")
    with pytest.raises(ProjectionistError, match="pip install hypothesis"):
        import_module("projectionist.testing.properties")


@pytest.mark.parametrize(
    "events",
    [st.lists(st.builds(BoxClosed), min_size=1), st.tuples(st.just("box/1"), st.builds(BoxClosed))],
    ids=["no aggregates", "one pair"],
)
def test_what_is_drawn_and_is_no_history_is_told_with_what_to_draw(events: Any) -> None:
    with pytest.raises(ProjectionistError, match=r"no aggregate with its event\. Draw lists of pairs"):
        check_projection(SoundBox, events=events)


def test_keys_that_hang_on_the_clock_are_shown() -> None:
    class Hasty(Projection, **PLACE, table="hasty", key=("box", "no")):
        box: str
        no: int

        @on(BoxMarked, each=lambda event: [int(time.time())])
        def marked(self, event: BoxMarked) -> None:
            """Do nothing."""

    with pytest.raises(AssertionError, match=r"<lambda> asks for time\.time"):
        check_projection(Hasty, events=SHORT)
