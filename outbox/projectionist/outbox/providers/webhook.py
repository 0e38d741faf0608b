"""Intents as Standard Webhooks: the key is the message id, the exact bytes are signed."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from projectionist.core.errors import SettingsError
from projectionist.outbox.providers.address_ranges import networks
from projectionist.outbox.providers.base import Provider, ProviderContext, RenderError, Request
from projectionist.outbox.providers.egress import Egress, EgressError, parse
from projectionist.outbox.providers.http import FIXED_HEADERS
from projectionist.outbox.providers.http_exchange import Transport
from projectionist.outbox.providers.http_outcomes import classify
from projectionist.outbox.providers.outgoing_headers import context_headers
from projectionist.outbox.providers.profiles import STANDARD_WEBHOOKS
from projectionist.outbox.providers.reply import Outcome, Reply
from projectionist.outbox.providers.secret_ref import SecretRef
from projectionist.outbox.providers.settings import ProviderRetry, ProviderSettings
from projectionist.outbox.providers.webhook_signer import Signer


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A destination's URL, and the secrets it verifies with: the newest first, the one being retired behind it."""

    url: str
    secrets: tuple[SecretRef, ...]


class WebhookSettings(ProviderSettings, frozen=True, kw_only=True):
    """A destination is a name in `destinations`, or, where the intent names none, `url` with its `secrets`, or a URL of
    its own, signed with secrets that are derived from `url_secrets` and that URL, so that no receiver can speak to
    another one. `allow_hosts`: the only hosts called; without it, any with public addresses."""

    url: str = ""
    secrets: tuple[SecretRef, ...] = ()
    url_secrets: tuple[SecretRef, ...] = ()
    destinations: dict[str, Endpoint] = msgspec.field(default_factory=dict)
    allow_hosts: tuple[str, ...] | None = None
    private_hosts: tuple[str, ...] = ()
    blocked_networks: tuple[str, ...] = ()
    ca_file: str = ""
    retry: ProviderRetry = ProviderRetry(initial_s=5, coefficient=6, maximum_s=43_200)

    def __post_init__(self) -> None:
        networks(self.blocked_networks)


class Webhook(Provider):
    """Calls the webhook endpoints of others."""

    system = "http"
    Settings = WebhookSettings
    settings: WebhookSettings
    profile = STANDARD_WEBHOOKS

    def __init__(self, name: str, settings: WebhookSettings, site: ProviderContext) -> None:
        super().__init__(name, settings, site)
        self._signers = {
            destination: Signer.read(endpoint.secrets, site.environ, destination)
            for destination, endpoint in settings.destinations.items()
        }
        self._own = Signer.read(settings.secrets, site.environ, name)
        self._root = Signer.read(settings.url_secrets, site.environ, f"{name} (url_secrets)")
        if any(self._root.shares(signer) for signer in (self._own, *self._signers.values())):
            raise SettingsError(
                f"[providers.{name}]: a secret of url_secrets is also given to a receiver",
                remedy="Give url_secrets one of its own: whoever knows it can sign for every URL",
            )
        egress = Egress(
            hosts=settings.allow_hosts,
            private_hosts=settings.private_hosts,
            resolve=site.resolve,
            blocked_networks=settings.blocked_networks,
        )
        for url in [settings.url, *(endpoint.url for endpoint in settings.destinations.values())]:
            if url:
                egress.admit(parse(url))
        # No connection is kept: each attempt resolves and checks anew.
        self._transport = Transport(egress, keep=False, ca_file=settings.ca_file)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def host(self, request: Request) -> str | None:
        """Return the host of the endpoint."""
        try:
            return parse(self._endpoint(request.destination)[0]).host
        except EgressError:
            return None

    def render(self, request: Request) -> bytes:
        """Return the intent's JSON as it is. The destination's address is looked up at each attempt: it may move."""
        if "." in request.key or not request.key.isascii():
            raise RenderError("a webhook's id holds no full stop and only ASCII")
        return request.body

    async def send(self, request: Request) -> Reply:
        """Send one signed POST."""
        url, signer = self._endpoint(request.destination)
        if not url or not signer:
            what = "url_secrets" if url else f"the destination {request.destination!r}"
            reason = f"{what} is not set up"
            return Reply(outcome=Outcome.NOT_SENT, reason=reason, hold=True)
        moment = int(time.time())
        headers = [
            ("Content-Type", "application/json"),
            ("webhook-id", request.key),
            ("webhook-timestamp", str(moment)),
            ("webhook-signature", signer.signature(request.key, moment, request.wire)),
            *FIXED_HEADERS,
            *context_headers(request),
        ]
        result = await self._transport.exchange("POST", url, headers, request.wire, request)
        if isinstance(result, Reply):
            return result
        return classify(self.profile, result, now=datetime.now(UTC))

    def _endpoint(self, destination: str) -> tuple[str, Signer]:
        endpoint = self.settings.destinations.get(destination)
        if endpoint is not None:
            return endpoint.url, self._signers[destination]
        if destination == self.name:
            return self.settings.url, self._own
        if "://" not in destination:
            return "", self._own
        return destination, self._root.derived(destination)
