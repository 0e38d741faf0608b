"""Connections to NATS: they come back by themselves, notice silence, and keep nothing while away."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
from nats.aio.client import Client, ServerVersion
from nats.errors import AuthorizationError

from projectionist.core import tls
from projectionist.core.errors import ProjectionistError, SettingsError
from projectionist.core.nats import fast_client
from projectionist.core.nats.careful_client import CarefulClient
from projectionist.core.nats.denials import Denial
from projectionist.core.nats.login_files import check_login_files
from projectionist.core.server_versions import LEAST_NATS
from projectionist.core.testpoints import announce

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Nats

log = logging.getLogger(__name__)

FIRST_S = 10
"""How long the first connection may take, over all servers."""
PING_S, MOST_PINGS = 10, 2
CLOSE_S = 0.5


class BrokerUnreachable(ProjectionistError):
    """No NATS server took us. Check the address, that it runs, and the credentials."""


class BrokerRefused(BrokerUnreachable):
    """A NATS server answered and did not take us: trying again does not help."""


def is_away(error: Exception) -> bool:
    """Return whether time may mend it."""
    return isinstance(error, BrokerUnreachable) and not isinstance(error, BrokerRefused)


async def connect(
    settings: Nats,
    *,
    name: str,
    on_state: Callable[[str], None] | None = None,
    within_s: float = FIRST_S,
    ping_s: float = PING_S,
) -> Client:
    """Connect a client. `on_state` hears connected, disconnected, reconnected and closed.

    The first connection is made within `within_s` or BrokerUnreachable is raised; a lost one is tried again
    for ever. While it is away publishes are refused, and what had not been sent is thrown away.
    """
    options = _options(settings, name) | {"ping_interval": ping_s}
    client = _new_client(encrypted="tls" in options)
    watch = _ConnectionLog(name, on_state, patience=len(settings.url))
    try:
        with anyio.move_on_after(within_s):
            await client.connect(**options, **watch.callbacks(lambda: client.is_closed))
    except _GivenUpError:
        pass
    if not client.is_connected:
        await _drop(client)
        raise _unreachable(settings, watch.trouble)
    if problem := _unfit(client.connected_server_version):
        await _drop(client)
        raise _unfit_server(settings, problem)
    watch.settled = True
    watch.report("connected")
    return client


class _GivenUpError(Exception):
    """Trying again cannot help."""


async def _drop(client: Client) -> None:
    # After a failed TLS handshake asyncio never says that it has closed; after a refused certificate closing fails.
    with anyio.move_on_after(CLOSE_S), contextlib.suppress(_GivenUpError):
        await client.close()
    if isinstance(client, fast_client.Client):
        client.discard_pending()  # an attempt that was cut off may have left its socket


def _new_client(*, encrypted: bool) -> Client:
    missing = fast_client.available()
    if not missing:
        return fast_client.Client()
    if encrypted:
        raise BrokerRefused(
            f"this nats-py is another than the one we know ({missing}), and may be talked out of TLS",
            remedy="Install a nats-py that Projectionist was tested with, or set tls = 'disable' in [nats]",
        )
    log.warning("this nats-py is used plainly, which is slower and keeps unsent acks: %s", missing)
    return CarefulClient()


class _ConnectionLog:
    """Hears what a client has to say, and tells the changes of its state."""

    def __init__(self, name: str, on_state: Callable[[str], None] | None, *, patience: int) -> None:
        self.settled = False
        self.trouble: BaseException | None = None
        self._logged: set[str] = set()
        self._name, self._on_state, self._patience = name, on_state, patience

    def callbacks(self, is_closed: Callable[[], bool]) -> dict[str, Any]:
        async def disconnected() -> None:
            if not is_closed():  # by ourselves: that is not an outage
                self.report("disconnected")

        async def reconnected() -> None:
            self.trouble = None
            self._logged.clear()
            self.report("reconnected")

        async def closed() -> None:
            self.report("closed")

        return {
            "error_cb": self._error,
            "disconnected_cb": disconnected,
            "reconnected_cb": reconnected,
            "closed_cb": closed,
        }

    def report(self, state: str) -> None:
        log.info("broker, %s: %s", self._name, state)
        announce(f"broker.{state}")
        if self._on_state is not None and self.settled:
            self._on_state(state)

    async def _error(self, error: Exception) -> None:
        denial = Denial.read(str(error))
        said = repr(error) if denial is None else denial.about
        if said not in self._logged:  # servers that stay away say so once
            self._logged.add(said)
            level = logging.WARNING if self.settled else logging.DEBUG
            log.log(level, "broker, %s: %s", self._name, _reason(error))
        if self.trouble is None or not _final(self.trouble):
            self.trouble = error  # a refusal is the reason, the reset that follows it is not
        if _final(error) and not self.settled:
            self._patience -= 1  # every server may say so once
            if self._patience <= 0:
                raise _GivenUpError


def _options(settings: Nats, name: str) -> dict[str, Any]:
    if not settings.url:
        raise SettingsError(
            "nats.url is not set",
            remedy="Set it in projectionist.toml or as PROJECTIONIST_NATS__URL, "
            "or start servers of your own with `projectionist dev up`",
        )
    check_login_files(settings)
    hosts = [host for url in settings.url for host in url.hosts()]
    options: dict[str, Any] = {
        "servers": [url.reveal() for url in settings.url],
        "name": name,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": 1,
        "max_outstanding_pings": MOST_PINGS,
        "pending_size": 0,
        "user_credentials": settings.creds_file,
        "nkeys_seed": settings.nkey_file,
        "token": settings.token.reveal() if settings.token else None,
        "inbox_prefix": settings.inbox_prefix,
        "tls": tls.context(settings, hosts, name="nats"),
    }
    return {key: value for key, value in options.items() if value is not None}


def _final(error: BaseException) -> bool:
    """Return whether trying again cannot help."""
    return _is_refusal(error) or isinstance(error, ssl.SSLError) or "TLS" in str(error)


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, AuthorizationError) or "authorization" in str(error).lower()


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "no answer"
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error).removeprefix("nats: ").strip() or type(error).__name__


def _unfit(version: ServerVersion) -> str:
    """Return why a server of this version is not taken; empty if it is."""
    try:
        found = version.major, version.minor
    except ValueError:
        return f"tells a version that cannot be read, {version!r},"
    return "" if found >= LEAST_NATS else f"is {found[0]}.{found[1]},"


def _unfit_server(settings: Nats, problem: str) -> BrokerRefused:
    places, least = ", ".join(str(url) for url in settings.url), ".".join(map(str, LEAST_NATS))
    return BrokerRefused(
        f"nats-server at {places} {problem} and at least {least} is needed",
        remedy=f"Upgrade it to {least} or later, or point url of [nats] to another server",
    )


def _unreachable(settings: Nats, trouble: BaseException | None) -> BrokerUnreachable:
    places = ", ".join(str(url) for url in settings.url)
    if trouble is not None and _is_refusal(trouble):
        return BrokerRefused(
            f"NATS at {places} refuses these credentials",
            remedy="Check creds_file, nkey_file, token or the user in the url of [nats]",
        )
    kind = BrokerRefused if trouble is not None and _final(trouble) else BrokerUnreachable
    return kind(
        f"NATS at {places} cannot be reached: {_reason(trouble)}",
        remedy="Start it, or mend url of [nats] (PROJECTIONIST_NATS__URL)",
    )
