"""A provider of the shop's own: mails end up as lines of a file, by key, as an outside system would keep them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from projectionist.api import Outcome, Provider, Reply, Request


class Mail(msgspec.Struct, frozen=True):
    """A line of the mailbox."""

    key: str
    to: str


class Mailbox(Provider):
    """Writes down every mail it is asked to send, the same one twice too; the file is named by SHOP_MAILBOX.

    What is no address is refused.
    """

    async def send(self, request: Request) -> Reply:
        """Write the mail down."""
        to = str(request.fields()["to"])
        if "@" not in to:
            return Reply(outcome=Outcome.REFUSED, reason="no address", status="550")
        path = mailbox(self.site.environ.get("SHOP_MAILBOX", ""))
        with path.open("a", encoding="utf-8") as file:
            line = msgspec.json.encode(Mail(request.key, to)).decode()
            file.write(line + "\n")
        return Reply(outcome=Outcome.SENT)


def mailbox(name: str) -> Path:
    """Return where the mails are."""
    return Path(name or "mailbox.jsonl")


def mails(path: Path) -> list[Mail]:
    """Return the mails that were sent, in their order."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Mail) for line in path.read_text("utf-8").splitlines()]
