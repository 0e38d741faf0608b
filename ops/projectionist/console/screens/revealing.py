"""Content is shown on record: the form of a page that masks it, and what comes of the form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from projectionist.console.console_context import act_of
from projectionist.runner.admin.reveal import record_reveal

if TYPE_CHECKING:
    from starlette.requests import Request

    from projectionist.ops.cli.database import Database


def asks(request: Request) -> bool:
    """Return whether content is asked for: by a form, which has a reason."""
    return request.method == "POST"


async def record(db: Database, request: Request, things: Iterable[str]) -> None:
    """Put on record that these are shown, before they are; NotThere without a reason."""
    await record_reveal(db.connection, db.schema, things, act_of(request))
