"""A consumer whose intents no provider of its app takes is told of when the app starts."""

from __future__ import annotations

import contextlib
import logging

import pytest

from projectionist.api import App, Event, Intent, Reactor, on
from projectionist.core.errors import ProjectionistError
from projectionist.core.settings.settings import Settings
from projectionist.outbox.providers import Smtp


class BellRung(Event, type="bell.rung"):
    pass


class Ring(Intent, provider="bell"):
    pass


class Letter(Intent, provider="email"):
    pass


class Ringing(Reactor, stream="BELLS", subjects="bells.{id}"):
    @on(BellRung)
    def rung(self, event: BellRung) -> Ring | Letter:
        return Ring()


@pytest.mark.asyncio
async def test_a_provider_that_the_app_lacks_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    app = App(projections=[Ringing], providers={"email": Smtp}, settings=Settings())
    with contextlib.suppress(ProjectionistError):  # there are no servers
        async with app.running():
            pass
    warned = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert [one for one in warned if "Ringing asks for bell, which this app lacks" in one] == warned[:1]
    assert len(warned) >= 1


def test_nothing_is_said_where_each_provider_is_there(caplog: pytest.LogCaptureFixture) -> None:
    App(projections=[Ringing], providers={"email": Smtp, "bell": Smtp}).warn_of_lacking_providers()
    assert caplog.records == []
