"""What a span says of the server it talks to, and what it may say of an event's baggage."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import unquote

from projectionist.core.printable_text import is_printable
from projectionist.core.telemetry import names

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings.secret import Url
    from projectionist.core.telemetry.tracing import Given

MOST_VALUE = 256
"""A value of an allowed member of baggage with more bytes is dropped."""
_MOST_MEMBERS = 64


def broker(client: Client) -> Given:
    """The server this client is connected to, and the number that server gave the connection."""
    found: Given = {}
    url, number = client.connected_url, client.client_id
    if url is not None and url.hostname:
        found[names.SERVER_ADDRESS] = url.hostname
        if url.port:
            found[names.SERVER_PORT] = url.port
    if number is not None:
        found[names.CLIENT_ID] = str(number)
    return found


def database(url: Url | None) -> Given:
    """The server of a database; nothing where several are named, since nobody says which of them it is."""
    hosts = url.hosts() if url is not None else []
    return {names.SERVER_ADDRESS: hosts[0]} if len(hosts) == 1 else {}


def baggage(head: bytes | None, allowed: Collection[str]) -> Given:
    """The allowed members of the `baggage` in a raw header block, as attributes; what is malformed is dropped."""
    found: Given = {}
    for line in (head or b"").decode("utf-8", "replace").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.strip().lower() != "baggage":
            continue
        for member in value.split(",", _MOST_MEMBERS)[:_MOST_MEMBERS]:
            key, equals, text = member.partition(";")[0].partition("=")
            if equals and key.strip() in allowed:
                decoded = unquote(text.strip())
                if is_printable(decoded, MOST_VALUE):
                    found[f"{names.BAGGAGE}.{key.strip()}"] = decoded
    return found
