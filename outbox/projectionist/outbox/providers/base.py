"""Provider: one method that sends, and answers with a Reply. Everything else has a default."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import msgspec

from projectionist.core import clock
from projectionist.core.errors import ProjectionistError
from projectionist.outbox.providers.egress import Resolver
from projectionist.outbox.providers.host_names import Names
from projectionist.outbox.providers.profiles import NONE, Profile
from projectionist.outbox.providers.reply import Outcome, Reply
from projectionist.outbox.providers.settings import ProviderSettings

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Frozen = TypeVar("Frozen")


class RenderError(ProjectionistError):
    """An intent cannot be turned into a request that the provider takes. Nothing was sent; the intent is refused.

    Raised by `send` it says the same of one attempt: nothing of it has left, and nothing ever will.
    """


class NotReady(ProjectionistError):
    """A provider's dependency is missing for now: the relay waits, and calls `open` again."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, as the relay hands it over.

    `body`: the intent's canonical JSON, frozen when it was written. `wire`: the bytes that `render` made of it at the
    first attempt, the same for every later one (empty while it is being rendered). `id`, `source`,
    `aggregate`, `version`: the event behind the intent, or, where `produced` (a producer's `Outbox.add` wrote it), the
    event that it is; `created`: when the intent was written, and `due`: when it was to be sent, if that was later.
    `baggage`: what the settings allow of the event's.
    `lookup_hint`: what `Provider.lookup_hint` gave before the first attempt. `timeout_s`: how long the attempt may
    take; `not_after`: the moment of `core.clock.now()` from which no first byte may leave, since another relay
    may then hold the intent.
    """

    key: str
    provider: str
    destination: str
    intent: str
    body: bytes
    wire: bytes = b""
    slot: str = ""
    source: str = ""
    id: str = ""
    aggregate: str | None = None
    version: int | None = None
    produced: bool = False
    created: datetime = _EPOCH
    due: datetime | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None
    lookup_hint: str | None = None
    timeout_s: float = 30.0
    not_after: float | None = None

    def fields(self) -> dict[str, Any]:
        """Decode the intent's fields from its frozen body."""
        return msgspec.json.decode(self.body, type=dict[str, Any])

    def frozen(self, kind: type[Frozen]) -> Frozen:
        """Decode wire bytes that `render` encoded as JSON; RenderError where another kind of provider froze them."""
        try:
            return msgspec.json.decode(self.wire, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise RenderError("the first attempt froze it for another kind of provider") from None

    def too_late(self) -> bool:
        """Return True where the lease behind this attempt may be over: ask just before the first byte, then stop."""
        return self.not_after is not None and clock.now() >= self.not_after


TOO_LATE = Reply(outcome=Outcome.NOT_SENT, reason="the lease ran out before the first byte", ours=True)
"""The reply of a provider that found `Request.too_late` true."""


class ProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's surroundings: the environment, name resolution, and the relay's NATS connection."""

    environ: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)
    resolve: Resolver = msgspec.field(default_factory=Names)
    nats: Callable[[], Awaitable[NatsClient]] | None = None

    def __repr__(self) -> str:
        # The environment is where secrets live.
        return "ProviderContext(…)"


class Provider(ABC):
    """An outside system behind one method. Subclass, implement `send`, and give `App` the class.

    `Settings` decodes the section `[providers.NAME]`; add fields by a subclass of `ProviderSettings`. `profile`
    describes the other side's idempotency; without one, none is assumed.
    """

    Settings: ClassVar[type[ProviderSettings]] = ProviderSettings
    profile: Profile = NONE
    system: ClassVar[str] = "other"
    """The kind of system behind it in telemetry (`messaging.system`)."""
    versioned: ClassVar[bool] = False
    """A producer's intents are events of an aggregate, which cannot be ordered without a version."""

    def __init__(self, name: str, settings: ProviderSettings, site: ProviderContext) -> None:
        self.name = name
        self.settings = settings
        self.site = site

    def host(self, request: Request) -> str | None:
        """Return the host that an attempt goes to, for telemetry (`server.address`); None where it is unknown."""
        return None

    def render(self, request: Request) -> bytes:
        """Return the bytes every attempt will send, made once, at the first: pure, from the intent and the settings.

        Raises RenderError if the intent cannot be sent at all.
        """
        return request.body

    @abstractmethod
    async def send(self, request: Request) -> Reply:
        """Send `request.wire` once, under `request.key`, and return the outcome.

        Say NOT_SENT only when certainly nothing left, UNKNOWN whenever it may have been executed. RenderError says
        that nothing left and nothing ever will; any other error counts as UNKNOWN.
        """

    def begin(self, request: Request) -> asyncio.Future[Reply] | None:
        """Send without a task, for a provider that can put a request on its way at once and whose replies are many.

        The future keeps the deadline itself and never raises. None, with nothing sent: `send` is called.
        """
        return None

    async def lookup_hint(self, request: Request) -> str | None:
        """Return a hint for a later `lookup`, stored before the first byte (a position in the provider's log)."""
        return None

    async def lookup(self, request: Request) -> Reply:
        """Find out if an earlier attempt was executed: SENT, NOT_SENT if surely not, UNKNOWN if it cannot be told.

        RETRY says that the lookup itself could not be made now, which is tried again.

        Called only where `profile.lookup` is true.
        """
        return Reply(outcome=Outcome.UNKNOWN, reason="this provider has no lookup")

    async def open(self) -> None:  # noqa: B027 - to need nothing is a right answer
        """Make ready, before anything is sent; called again where it raised NotReady."""

    async def close(self) -> None:  # noqa: B027 - to hold nothing is a right answer
        """Let go of connections; called once, after the last reply."""
