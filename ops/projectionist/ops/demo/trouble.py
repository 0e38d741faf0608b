"""Sends what is left to be mended by hand: a payment that cannot be applied, one that was lost, a mail to nowhere, a
message that nobody can read."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from projectionist.core import cloudevents
from projectionist.core.nats import connections
from projectionist.ops.demo.children import DemoError, children
from projectionist.ops.demo.history import DemoEvent
from projectionist.ops.demo.play import APP, draft
from projectionist.ops.demo.shop.events import OrderLine, OrderPlaced, OrderShipped, PaymentReceived
from projectionist.outbox.publishing.publisher import Publisher

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Settings
    from projectionist.projections import Event


def _placed(email: str) -> OrderPlaced:
    return OrderPlaced("customer-90000", email, (OrderLine("sku-1", 1),), 4200)


HISTORIES: dict[str, tuple[tuple[int, Event], ...]] = {
    "order-poison": (
        (1, _placed("ann@example.org")),
        (2, PaymentReceived(-4200)),
        (3, OrderShipped("post")),
    ),
    "order-gap": ((1, _placed("bob@example.org")), (3, OrderShipped("post"))),
    "order-mail": ((1, _placed("nowhere")), (2, PaymentReceived(4200))),
}

UNREADABLE = DemoEvent("order", "order-unread", 1, _placed("cid@example.org"))


async def keep_up(settings: Settings, serve: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
    """Run the shop with trouble in it while `serve` serves its console, given what to call when told to end."""
    asked: list[bool] = []
    with tempfile.NamedTemporaryFile() as mails:
        try:
            async with children(settings, APP, Path(mails.name)):
                await publish(settings)
                await serve(lambda: asked.append(True))
        except DemoError:
            if not asked:  # Ctrl-C ends the others of the terminal too
                raise


async def publish(settings: Settings) -> None:
    """Send what will stand still."""
    client = await connections.connect(settings.nats, name="projectionist demo")
    try:
        async with Publisher(client, source="shop", subject="shop.{type}.{aggregate}") as publisher:
            facts = [
                DemoEvent("order", order, version, event)
                for order, history in HISTORIES.items()
                for version, event in history
            ]
            drafts = [draft(publisher, one, correlation=f"checkout-{one.aggregate}") for one in facts]
            strange = draft(publisher, UNREADABLE)
            headers = strange.headers | {cloudevents.DEFAULTS["version"]: "first"}
            await publisher.publish_many([*drafts, msgspec.structs.replace(strange, headers=headers)])
    finally:
        await client.close()
