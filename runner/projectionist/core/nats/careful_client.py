"""A nats-py client that goes where it was told to go alone, and hears what it may not do. It overrides what is private.

Where another nats-py calls none of these, `fast_client.available()` says so.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import urlsplit

import anyio
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from projectionist.core.nats.denials import Denial, Denials, SubjectDenied
from projectionist.core.tls import is_loopback

log = logging.getLogger(__name__)


def denials_of(client: NatsClient) -> Denials:
    """Return what tells what this connection may not do; a client of somebody else's tells nothing."""
    return client.denials if isinstance(client, CarefulClient) else Denials()


class CarefulClient(NatsClient):
    """Reconnects without TLS to this machine and to addresses of the settings alone; a request that the server denies
    raises SubjectDenied at once."""

    def __init__(self) -> None:
        super().__init__()
        self.denials = Denials()
        self._left_out: set[str] = set()

    @property
    def inboxes(self) -> str:
        """Return the pattern of all inboxes of this connection."""
        return f"{self._inbox_prefix.decode()}.>"

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        """Return the answer, as nats-py does; a denial ends the wait."""
        denied: list[SubjectDenied] = []

        with anyio.CancelScope() as waiting:

            def tell(denial: Denial, pattern: str) -> None:
                denied.append(denial.error(pattern))
                waiting.cancel()

            with self.denials.listening((subject, self.inboxes), tell):
                return await super().request(subject, payload, timeout, old_style, headers)
        raise denied[0]

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Leave out addresses that a server names, as it does those of its cluster, where the login would be in clear.

        Whether a connection is encrypted was decided by the addresses of the settings. Behind `localhost` may be a
        tunnel or a sidecar, and what is behind that names itself.
        """
        if self.options.get("tls") is None and info.get("connect_urls"):
            local = [url for url in info["connect_urls"] if is_loopback(urlsplit(f"//{url}").hostname or "")]
            known = {server.uri.netloc for server in self._server_pool}
            if strange := set(info["connect_urls"]) - set(local) - known - self._left_out:
                self._left_out |= strange
                log.info(
                    "broker: it names %s as well, which is not used without TLS unless url of [nats] does",
                    ", ".join(sorted(strange)),
                )
            info = info | {"connect_urls": local}
        await super()._process_info(info, initial_connection)

    async def _process_pong(self) -> None:
        """Take the answer to a ping whose waiter has given up for what it is: nats-py's read loop ends over it."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _process_err(self, err_msg: str) -> None:
        denial = Denial.read(err_msg)
        if denial is not None:
            if not denial.publishing:
                await self._forget_answers(denial.subject)
            self.denials.hear(denial)
        await super()._process_err(err_msg)

    async def _forget_answers(self, subject: str) -> None:
        """Have the next request subscribe to its answers again: it may be granted by then."""
        inbox = self._resp_sub_prefix
        if inbox is None or subject != f"{inbox.decode()}*".lower():
            return
        self._resp_sub_prefix = None
        for subscription in list(self._subs.values()):
            if subscription.subject.lower() == subject:
                await subscription.unsubscribe()
