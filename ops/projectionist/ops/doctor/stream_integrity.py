"""Who may take messages out of a stream: a history that can be rewritten is not there to be rebuilt from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from nats.errors import Error as NatsError

from projectionist.core.errors import ProjectionistError
from projectionist.core.nats import api_subjects
from projectionist.core.nats.subject_relations import covers
from projectionist.core.tls import is_loopback
from projectionist.ops.doctor.check import Check, attention, note, well

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.runner.jetstream.api import StreamConfig

_NAME = "history"
_ANSWER_S = 5
MEND = (
    "Give producers and processes users of their own (`projectionist doctor --permissions`); or set deny_delete and "
    "deny_purge on the stream, which cannot be taken back, also not to erase a message"
)


class PublishRights(msgspec.Struct, frozen=True):
    """The subjects a user may publish to: all, unless some are named."""

    allow: list[str] = []
    deny: list[str] = []

    def permits(self, subject: str) -> bool:
        """Return whether this user may publish there."""
        named = not self.allow or any(covers(one, subject) for one in self.allow)
        return named and not any(covers(one, subject) for one in self.deny)


class _Permissions(msgspec.Struct, frozen=True):
    publish: PublishRights = PublishRights()


class _UserPermissions(msgspec.Struct, frozen=True):
    permissions: _Permissions = _Permissions()


class _UserAnswer(msgspec.Struct, frozen=True):
    data: _UserPermissions


async def publish_rights(client: Client) -> PublishRights | None:
    """Ask the server what the user of this connection may publish to; None where it does not tell."""
    try:
        answer = await client.request(api_subjects.user_info(), b"", timeout=_ANSWER_S)
        return msgspec.json.decode(answer.data, type=_UserAnswer).data.permissions.publish
    except (ProjectionistError, NatsError, TimeoutError, OSError, msgspec.MsgspecError):
        return None


def local(client: Client) -> bool:
    """Return whether the server is on this machine."""
    url = client.connected_url
    return url is not None and is_loopback(url.hostname or "")


def check(name: str, config: StreamConfig, rights: PublishRights | None, *, here: bool) -> Check:
    """Check one stream. Pure.

    Other users' rights cannot be seen; where this one may do it, so may whoever was given the same. On this machine it
    is a remark: nobody else is there.
    """
    about = f"stream {name}"
    ways = {
        "deleted": (config.deny_delete, api_subjects.message_delete(name)),
        "purged": (config.deny_purge, api_subjects.stream_purge(name)),
    }
    open_ways = {how: subject for how, (denied, subject) in ways.items() if not denied}
    if not open_ways:
        return well(about, _NAME, "no message can be deleted or purged")
    how = " and ".join(open_ways)
    if rights is None:
        return note(about, _NAME, f"messages can be {how}, and the server does not tell by whom", MEND)
    if not any(rights.permits(subject) for subject in open_ways.values()):
        return well(about, _NAME, f"messages can be {how}, by users with more rights than this one")
    found = f"messages can be {how} by this user, and by whoever may do the same: a rebuild would read another history"
    return note(about, _NAME, found, MEND) if here else attention(about, _NAME, found, MEND)
