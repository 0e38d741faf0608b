"""A provider that records what it is asked to do, and the intents that it was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from projectionist.outbox.intents.intent import Intent, options_of
from projectionist.outbox.providers.base import Provider, Request
from projectionist.outbox.providers.reply import Outcome, Reply

if TYPE_CHECKING:
    from projectionist.projections.compiled.definition import ConsumerDefinition


def recorder(requests: list[Request]) -> type[Provider]:
    """Return a provider that does nothing but to note each request, and says that it is done."""

    class Recorder(Provider):
        async def send(self, request: Request) -> Reply:
            requests.append(request)
            return Reply(outcome=Outcome.SENT)

    return Recorder


def intent_of(request: Request, definitions: Iterable[ConsumerDefinition]) -> Intent:
    """Return the intent behind a request, of the class that a handler has returned."""
    declared = [one for definition in definitions for one in definition.intents]
    for cls in (*declared, *reversed(list(_subclasses(Intent)))):
        if hasattr(cls, "__intent__") and _is(cls, request):
            return msgspec.json.decode(request.body, type=cls)
    raise AssertionError(f"no class of intents is called {request.intent} and goes to {request.provider}")


def _is(cls: type[Intent], request: Request) -> bool:
    options = options_of(cls)
    return (options.name, options.provider) == (request.intent, request.provider)


def _subclasses(cls: type[Intent]) -> Iterator[type[Intent]]:
    for one in cls.__subclasses__():
        yield one
        yield from _subclasses(one)
