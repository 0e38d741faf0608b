"""What fails beside the work: told once, tried again ever more rarely, and never raised."""

from __future__ import annotations

import logging

import pytest

from projectionist.core import clock
from projectionist.core.digest import stand_in
from projectionist.core.errors import ProjectionistError
from projectionist.core.retry_policy import RetryPolicy
from projectionist.core.testpoints import listen
from projectionist.runner.batch.consumer import Rejoin
from projectionist.runner.database.chores import Chore, ChoreFailures, kept
from projectionist.runner.jetstream.api import BrokerError

pytestmark = pytest.mark.asyncio

AGAIN = RetryPolicy(initial_s=2.0, maximum_s=10.0)


class Time:
    """Stands still until it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(clock, "now", lambda: self.now)


async def test_pauses_grow_to_their_limit_and_the_same_failure_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setbacks = ChoreFailures("Orders", AGAIN)

    pauses = [setbacks.note(ProjectionistError("it does not fit")) for _ in range(6)]

    for pause, longest in zip(pauses, (2, 4, 8, 10, 10, 10), strict=True):
        assert longest / 2 <= pause <= longest
    assert [record.getMessage() for record in caplog.records] == [
        "Orders: it does not fit; it is tried again"
    ]
    assert caplog.records[0].exc_info is None


async def test_another_failure_is_told_too_and_one_that_nobody_expected_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setbacks = ChoreFailures("Orders", AGAIN)
    setbacks.note(ProjectionistError("it does not fit"))
    setbacks.note(KeyError("aggregate"))

    assert [record.getMessage() for record in caplog.records][1:] == [
        f"Orders: {stand_in(str(KeyError('aggregate')), 'KeyError')}; it is tried again"
    ]
    assert caplog.records[1].exc_info is not None


async def test_after_it_had_gone_well_for_long_it_is_tried_again_soon_and_told_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setbacks = ChoreFailures("Orders", AGAIN)
    for _ in range(5):
        setbacks.note(ProjectionistError("it does not fit"))

    assert setbacks.note(ProjectionistError("it does not fit"), well_s=11.0) <= 2
    assert len(caplog.records) == 2


async def test_a_failed_chore_is_left_alone_until_its_next_try_and_an_outage_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    time, tries = Time(monkeypatch), 0
    raises: Exception | None = KeyError("x")

    async def do() -> None:
        nonlocal tries
        tries += 1
        if raises is not None:
            raise raises

    chore = Chore("sweeping", do, AGAIN)
    await chore.step()
    await chore.step()
    assert tries == 1
    time.now += 2
    await chore.step()
    assert tries == 2
    time.now += 4
    raises = BrokerError("NATS cannot be reached")
    for _ in range(3):
        await chore.step()
    assert tries == 5
    raises = None
    await chore.step()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_chore_has_its_say_about_the_work() -> None:
    async def do() -> None:
        raise Rejoin("the stream is another one")

    with pytest.raises(Rejoin):
        await Chore("recording", do, verdicts=(ProjectionistError,)).step()


async def test_what_goes_on_beside_the_work_is_run_again_when_it_fails() -> None:
    runs = 0
    noted: list[str] = []

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs < 4:
            raise KeyError(runs)

    stop = listen(noted.append)
    await kept("observing", run, again=RetryPolicy(initial_s=0.01, maximum_s=0.01))
    stop()

    assert runs == 4
    assert noted.count("setbacks.noted") == 3
