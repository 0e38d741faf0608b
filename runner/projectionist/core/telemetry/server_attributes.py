"""What a span says of the server it talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projectionist.core.telemetry import names

if TYPE_CHECKING:
    from nats.aio.client import Client

    from projectionist.core.settings.secret import Url
    from projectionist.core.telemetry.tracing import Given


def broker(client: Client) -> Given:
    """Return the server this client is connected to, and the number that server gave the connection."""
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
    """Return the server of a database; nothing where several are named, since nobody says which of them it is."""
    hosts = url.hosts() if url is not None else []
    return {names.SERVER_ADDRESS: hosts[0]} if len(hosts) == 1 else {}
