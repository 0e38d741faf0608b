"""When a process gives up: only when nothing is to be hoped of any of its consumers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from projectionist.core.digest import stand_in
from projectionist.core.errors import SettingsError
from projectionist.runner.batch.consumer import Superseded
from projectionist.runner.consumers.registry import NotRegistered
from projectionist.runner.process.supervisor import NoneLeft, Supervised, give_up

OVER = Superseded("newer code has taken over")
UNFIT = NotRegistered("it is not in the database yet")


def one(
    name: str, *, begun: bool, ended: Exception | None = None, stuck: Exception | None = None
) -> Supervised:
    worker: Any = SimpleNamespace(definition=SimpleNamespace(name=name), begun=begun, trouble=None)
    made = Supervised(worker)
    made.ended, made.stuck = ended, stuck
    return made


@pytest.mark.parametrize(
    "crew",
    [
        [one("A", begun=True), one("B", begun=True, ended=OVER)],
        [one("A", begun=True, stuck=KeyError("x")), one("B", begun=False, stuck=UNFIT)],
        [one("A", begun=False), one("B", begun=False, stuck=UNFIT)],
        [one("A", begun=True, stuck=UNFIT)],
    ],
    ids=["one serves", "one had begun", "one has not said yet", "the only one had begun"],
)
def test_a_process_goes_on_while_one_of_its_consumers_may(crew: list[Supervised]) -> None:
    give_up(crew)


def test_the_error_of_an_only_consumer_is_raised_as_it_is() -> None:
    with pytest.raises(Superseded, match="newer code"):
        give_up([one("A", begun=True, ended=OVER)])
    with pytest.raises(NotRegistered):
        give_up([one("A", begun=False, stuck=UNFIT)])


def test_consumers_that_have_the_same_to_say_say_it_once() -> None:
    unset = SettingsError("postgres.url is not set")
    with pytest.raises(SettingsError):
        give_up([one("A", begun=False, stuck=unset), one("B", begun=False, stuck=unset)])


def test_several_reasons_are_told_by_their_consumers() -> None:
    with pytest.raises(NoneLeft, match=r"A: newer code has taken over; B: it is not in the database yet"):
        give_up([one("A", begun=True, ended=OVER), one("B", begun=False, stuck=UNFIT)])


def test_what_nobody_expected_is_raised_as_it_is() -> None:
    with pytest.raises(KeyError):
        give_up([one("A", begun=True, ended=OVER), one("B", begun=False, stuck=KeyError("x"))])


def test_health_says_why_a_consumer_is_not_served() -> None:
    over = one("A", begun=True, ended=OVER)
    assert (over.trouble, over.superseded) == (None, "A: ended in this process: newer code has taken over")
    stuck = one("A", begun=True, stuck=KeyError("x")).trouble
    assert stuck == f"A: {stand_in(str(KeyError('x')), 'KeyError')}; it is tried again"
    assert one("A", begun=True).trouble is None
