"""Connections to NATS: they come back by themselves, notice silence, and keep nothing while away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
from nats.aio.client import Client
from nats.errors import AuthorizationError

from projectionist.core import tls, wire
from projectionist.core.errors import ProjectionistError, SettingsError
from projectionist.core.signals import announce

if TYPE_CHECKING:
    from projectionist.core.settings import Nats

log = logging.getLogger(__name__)

FIRST_S = 10
"""How long the first connection may take, over all servers."""
PING_S, MOST_PINGS = 10, 2


class BrokerUnreachable(ProjectionistError):
    """No NATS server took us. Check the address, that it runs, and the credentials."""


async def connect(
    settings: Nats, *, name: str, on_state: Callable[[str], None] | None = None, within_s: float = FIRST_S
) -> Client:
    """A connected client. `on_state` hears connected, disconnected, reconnected and closed.

    The first connection is made within `within_s` or BrokerUnreachable is raised; a lost one is tried again
    for ever. While it is away publishes are refused, and what had not been sent is thrown away.
    """
    client = _new_client()
    watch = _Watch(name, on_state)
    with anyio.move_on_after(within_s) as watch.scope:
        await client.connect(**_options(settings, name), **watch.callbacks())
    if not client.is_connected:
        await client.close()
        raise _unreachable(settings, watch.trouble)
    watch.scope = None
    watch.tell("connected")
    return client


def _new_client() -> Client:
    if missing := wire.available():
        log.warning("this nats-py is used plainly, which is slower and keeps unsent acks: %s", missing)
        return Client()
    return wire.Client()


class _Watch:
    """Hears what a client has to say, and tells the changes of its state."""

    def __init__(self, name: str, on_state: Callable[[str], None] | None) -> None:
        self.scope: anyio.CancelScope | None = None
        self.trouble: BaseException | None = None
        self._name, self._on_state = name, on_state

    def callbacks(self) -> dict[str, Any]:
        async def disconnected() -> None:
            self.tell("disconnected")

        async def reconnected() -> None:
            self.trouble = None
            self.tell("reconnected")

        async def closed() -> None:
            self.tell("closed")

        return {
            "error_cb": self._error,
            "disconnected_cb": disconnected,
            "reconnected_cb": reconnected,
            "closed_cb": closed,
        }

    def tell(self, state: str) -> None:
        log.info("broker, %s: %s", self._name, state)
        announce(f"broker.{state}")
        if self._on_state is not None:
            self._on_state(state)

    async def _error(self, error: Exception) -> None:
        if repr(error) != repr(self.trouble):  # a server that stays away says so once
            log.log(
                logging.DEBUG if self.scope else logging.WARNING, "broker, %s: %s", self._name, _reason(error)
            )
        self.trouble = error
        if self.scope is not None and _final(error):
            self.scope.cancel()


def _options(settings: Nats, name: str) -> dict[str, Any]:
    if not settings.url:
        raise SettingsError(
            "nats.url is not set",
            remedy="Set it in projectionist.toml or as PROJECTIONIST_NATS__URL, "
            "or start servers of your own with `projectionist dev up`",
        )
    hosts = [host for url in settings.url for host in url.hosts()]
    options: dict[str, Any] = {
        "servers": [url.reveal() for url in settings.url],
        "name": name,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": 0.5,
        "ping_interval": PING_S,
        "max_outstanding_pings": MOST_PINGS,
        "pending_size": 0,
        "user_credentials": settings.creds_file,
        "nkeys_seed": settings.nkey_file,
        "token": settings.token.reveal() if settings.token else None,
        "tls": tls.context(settings, hosts, name="nats"),
    }
    return {key: value for key, value in options.items() if value is not None}


def _final(error: BaseException) -> bool:
    return isinstance(error, AuthorizationError) or "authorization" in str(error).lower()


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "no answer"
    return str(error).removeprefix("nats: ").strip() or type(error).__name__


def _unreachable(settings: Nats, trouble: BaseException | None) -> BrokerUnreachable:
    places = ", ".join(str(url) for url in settings.url)
    if trouble is not None and _final(trouble):
        return BrokerUnreachable(
            f"NATS at {places} refuses these credentials",
            remedy="Check creds_file, nkey_file, token or the user in the url of [nats]",
        )
    return BrokerUnreachable(
        f"NATS at {places} cannot be reached: {_reason(trouble)}",
        remedy="Start it, or mend url of [nats] (PROJECTIONIST_NATS__URL)",
    )
