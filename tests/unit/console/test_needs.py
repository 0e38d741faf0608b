"""What needs a person, where it leads, and what the numbers beside the navigation count."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from projectionist.console.needs import Condition, behind_s, by_itself, condition, counts, needs
from projectionist.ops.inspect.project_status import PartStatus, Status
from projectionist.outbox.admin.status import OutboxStatus, ProviderStatus, ScheduleStatus
from projectionist.runner.consumers.status import ConsumerStatus, PauseStatus, RunnerStatus, Shared

RUNS = RunnerStatus(host="h", pid=1, state="running", silent_s=0.5)


def consumer(name: str, **given: object) -> ConsumerStatus:
    values = {
        "name": name,
        "kind": "projection",
        "stream": "S",
        "paused": False,
        "generation": 1,
        "revision": 1,
        "effects_mark": None,
        "outcomes": {},
        "heads": {},
        "parked": 0,
        "oldest_s": None,
        "quarantined": 0,
        "incidents": 0,
        "runners": [RUNS],
    }
    return ConsumerStatus(**(values | given))  # type: ignore[arg-type]  # checked where they are read


def test_what_waits_longest_is_first_and_what_stops_everything_before_it() -> None:
    status = Status(
        version="1",
        python="3",
        parts=[PartStatus("nats", "", "does not answer")],
        consumers=[
            consumer("New", heads={"waiting": 1}, oldest_s=5.0),
            consumer("Old", heads={"waiting": 2}, oldest_s=500.0),
        ],
        outbox=OutboxStatus(providers=[ProviderStatus(name="email", dead=3, oldest_s=50.0, relays=1)]),
    )
    found = needs(status)
    assert [one.about for one in found] == ["nats", "Old", "Outbox, email", "New"]
    assert [one.href for one in found] == [
        *("/doctor", "/waiting?consumer=Old", "/outbox?provider=email", "/waiting?consumer=New")
    ]


def test_late_intents_of_a_consumer_lead_to_the_outbox_as_a_whole() -> None:
    late = ScheduleStatus(consumer="Mailer", waits_for="behind", count=2, late_s=90.0)
    [one] = needs(Status(version="1", python="3", parts=[], outbox=OutboxStatus(scheduled=[late])))
    assert (one.about, one.href) == ("Outbox, Mailer", "/outbox")


def test_a_consumer_is_told_by_what_is_in_its_way() -> None:
    pause = PauseStatus(who="ben", reason="moved", since=datetime.now(UTC))
    assert condition(consumer("C"), set()) == Condition("ok", "1 running")
    assert condition(consumer("C", backlog=4), set()) == Condition("wait", "1 running")
    assert condition(consumer("C", runners=[]), {"C"}) == Condition("act", "not running")
    assert condition(consumer("C", paused=True, pause=pause), {"C"}) == Condition("act", "paused by ben")


def test_the_numbers_count_what_there_is_to_decide() -> None:
    status = Status(
        version="1",
        python="3",
        parts=[],
        consumers=[consumer("A", heads={"waiting": 812}), consumer("B", heads={"failed": 3, "draining": 1})],
        shared=[Shared("quarantine", ["A"], 6), Shared("incidents", ["A", "B"], 2)],
        outbox=OutboxStatus(providers=[ProviderStatus(name="email", held=7), ProviderStatus(name="hooks")]),
    )
    told = counts(status)
    assert (told.waiting, told.quarantine, told.outbox, told.incidents) == (1, 1, 1, 2)
    assert by_itself(status) == ["B tries 3 aggregates again", "B drains 1 aggregate"]


def reads(lag: int | None, rate: float | None) -> ConsumerStatus:
    return consumer("Orders", rate=rate, runners=[msgspec.structs.replace(RUNS, lag=lag)])


def test_lag_is_told_in_seconds_where_the_pace_is_known() -> None:
    assert behind_s(reads(500, 25.0)) == 20.0
    assert behind_s(reads(0, None)) == 0.0
    assert behind_s(reads(500, 0.0)) is None
    assert behind_s(reads(None, 25.0)) is None
