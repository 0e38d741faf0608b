"""Intents as calls of an HTTP API: JSON or form by POST or PUT, under an idempotency key."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import msgspec

from projectionist.core.errors import SettingsError
from projectionist.core.settings.secret import Secret
from projectionist.outbox.providers.address_ranges import networks
from projectionist.outbox.providers.base import Provider, ProviderContext, RenderError, Request
from projectionist.outbox.providers.echoed_secrets import parts_of
from projectionist.outbox.providers.egress import Egress, EgressError, parse
from projectionist.outbox.providers.http_exchange import Transport
from projectionist.outbox.providers.http_outcomes import classify
from projectionist.outbox.providers.outgoing_headers import context_headers, is_name, is_value
from projectionist.outbox.providers.profiles import PROFILES, Profile
from projectionist.outbox.providers.reply import Reply
from projectionist.outbox.providers.secret_ref import SecretRef
from projectionist.outbox.providers.settings import ProviderSettings
from projectionist.outbox.providers.templates import fill, names

FIXED_HEADERS = [("Accept-Encoding", "identity"), ("User-Agent", "projectionist")]
"""Sent with every call. No answer is compressed, so that its size is that of the bytes received."""

_OURS = {
    *("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding"),
    *("user-agent", "traceparent", "tracestate", "baggage", "idempotency-key"),
}
_SECRET = {"authorization", "proxy-authorization", "cookie"}


class HttpSettings(ProviderSettings, frozen=True, kw_only=True):
    """`url` may hold `{field}` of the intent in its path and query, never in its host, which is the only host
    called. `profile`: a name of docs/providers.md. `headers`: sent as they are and frozen with the intent;
    `bearer` and `secret_headers`: added to each attempt. `private_hosts` and `blocked_networks`: see
    docs/providers.md, "Outward calls"."""

    url: str
    method: Literal["POST", "PUT"] = "POST"
    profile: str = ""
    memory_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    bearer: SecretRef | None = None
    secret_headers: dict[str, SecretRef] = msgspec.field(default_factory=dict)
    private_hosts: tuple[str, ...] = ()
    blocked_networks: tuple[str, ...] = ()
    ca_file: str = ""

    def __post_init__(self) -> None:
        check_url(self.url)
        networks(self.blocked_networks)
        for name, value in self.headers.items():
            check_header(name, value)
            if name.lower() in _SECRET:
                raise ValueError(f"headers: {name!r} is a secret: use bearer or secret_headers")
        for name in self.secret_headers:
            check_header(name, "-")


class FrozenRequest(msgspec.Struct, frozen=True):
    """The frozen part of a call."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: str


class Http(Provider):
    """Calls one HTTP API. Subclass it and set `profile` for an API whose idempotency you have read about."""

    system = "http"
    Settings = HttpSettings
    settings: HttpSettings

    def __init__(self, name: str, settings: HttpSettings, site: ProviderContext) -> None:
        super().__init__(name, settings, site)
        self.profile = chosen(self.profile, settings)
        self._host = parse(_without_fields(settings.url)).host
        self._egress = Egress(
            hosts=(self._host,),
            private_hosts=settings.private_hosts,
            resolve=site.resolve,
            blocked_networks=settings.blocked_networks,
        )
        self._egress.admit(parse(_without_fields(settings.url)))
        self._secrets = _secrets(settings, site)
        self._transport = Transport(
            self._egress,
            keep=self.profile.memory_s is not None,
            ca_file=settings.ca_file,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def host(self, request: Request) -> str | None:
        """Return the host of the API."""
        return self._host

    def render(self, request: Request) -> bytes:
        """Freeze method, URL, headers and body, as every attempt will send them."""
        form = self.profile.encoding == "form"
        headers = [("Content-Type", "application/x-www-form-urlencoded" if form else "application/json")]
        if self.profile.key_header:
            headers.append((self.profile.key_header, _key(self.profile, request.key)))
        headers += self.settings.headers.items()
        fields = request.fields()
        body = urlencode(flat(fields)) if form else request.body.decode()
        url = fill(self.settings.url, fields, _url_part)
        return msgspec.json.encode(FrozenRequest(self.settings.method, url, headers, body))

    async def send(self, request: Request) -> Reply:
        """Call once; the profile gives the answer its meaning."""
        wire = request.frozen(FrozenRequest)
        secret = [(name, value.reveal()) for name, value in self._secrets]
        headers = [*wire.headers, *FIXED_HEADERS, *context_headers(request), *secret]
        body = wire.body.encode()
        result = await self._transport.exchange(wire.method, wire.url, headers, body, request)
        if isinstance(result, Reply):
            return result
        hide = parts_of(value for _, value in secret)
        return classify(self.profile, result, now=datetime.now(UTC), hide=hide)


def chosen(own: Profile, settings: HttpSettings) -> Profile:
    """Return the profile the settings name, else the class's own, with the memory the settings give it."""
    profile = own
    if settings.profile:
        if settings.profile not in PROFILES:
            raise SettingsError(
                f"there is no profile {settings.profile!r}", remedy=f"There are: {', '.join(PROFILES)}"
            )
        profile = PROFILES[settings.profile]
    if settings.memory_s is not None:
        profile = msgspec.structs.replace(profile, memory_s=settings.memory_s)
    if profile.key_header and profile.memory_s is None:
        raise SettingsError(
            f"the profile {profile.name} leaves it to the server how long it remembers a key",
            remedy="Set memory_s to what the server promises",
        )
    return profile


def flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Write nested fields as form pairs: `items[0][price]`; null is left out."""
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in flat(v, f"{prefix}[{k}]" if prefix else k)]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in flat(v, f"{prefix}[{i}]")]
    if value is None:
        return []
    return [(prefix, str(value).lower() if isinstance(value, bool) else str(value))]


def check_url(url: str) -> None:
    """Raise ValueError unless the URL can be called once its fields are filled in, and its host holds none."""
    try:
        names(url)
        target = parse(_without_fields(url))
    except EgressError as error:
        raise ValueError(f"url: {error}") from None
    if not url.lower().startswith(f"{target.scheme}://{target.authority}".lower()):
        raise ValueError("url: the host and the port are written out, without fields")


def check_header(name: str, value: str) -> None:
    """Raise ValueError unless it is a header that settings may add."""
    if not is_name(name) or name.lower() in _OURS:
        raise ValueError(f"headers: {name!r} is not a header that can be set here")
    if not is_value(value):
        raise ValueError(f"headers: the value of {name!r} holds characters that no header may")


def _without_fields(url: str) -> str:
    return re.sub(r"\{[^{}]*\}", "x", url)


def _url_part(value: str) -> str:
    if value in ("", ".", ".."):
        raise RenderError("a field of the URL is empty or only dots, so it would name another resource")
    return quote(value, safe="")


def _key(profile: Profile, key: str) -> str:
    if len(key) > profile.key_limit:
        raise RenderError(f"the key has {len(key)} characters, {profile.name} takes {profile.key_limit}")
    return f'"{key}"' if profile.key_quoted else key


def _secrets(settings: HttpSettings, site: ProviderContext) -> list[tuple[str, Secret]]:
    found = [(name, ref.read(site.environ)) for name, ref in settings.secret_headers.items()]
    if settings.bearer is not None:
        found.append(("Authorization", Secret(f"Bearer {settings.bearer.read(site.environ).reveal()}")))
    for name, value in found:
        if not is_value(value.reveal()):
            raise SettingsError(f"the secret for the header {name} holds characters that no header may")
    return found
