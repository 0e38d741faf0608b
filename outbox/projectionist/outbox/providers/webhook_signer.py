"""What webhooks are signed with: the secrets of a receiver, and those derived for the URL that an intent names."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from projectionist.core.errors import SettingsError
from projectionist.core.settings.secret import Secret
from projectionist.core.settings.settings import Settings
from projectionist.core.settings.sources import build
from projectionist.outbox.providers.egress import parse
from projectionist.outbox.providers.secret_ref import SecretRef

_SECRET_BYTES = range(24, 65)


class UrlSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """The part of `[providers.NAME]` that the secrets of URLs are derived from."""

    url_secrets: tuple[SecretRef, ...] = ()


class Signer:
    """The keys of one destination, decoded once and never shown."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = tuple(keys)

    @classmethod
    def read(cls, refs: Sequence[SecretRef], environ: Mapping[str, str], destination: str) -> Signer:
        """Read the keys from where the settings say they are."""
        return cls(_key(ref.read(environ), destination) for ref in refs)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def shares(self, other: Signer) -> bool:
        """Return whether another one has one of these keys."""
        return not set(self._keys).isdisjoint(other._keys)

    def derived(self, url: str) -> Signer:
        """Return the signer of one URL: HMAC-SHA256 of the URL under each key, from which nobody finds the key."""
        return Signer(hmac.new(key, url.encode(), hashlib.sha256).digest() for key in self._keys)

    def secrets(self) -> list[Secret]:
        """Return the secrets as a receiver is given them."""
        return [Secret("whsec_" + base64.b64encode(key).decode()) for key in self._keys]

    def signature(self, key: str, moment: int, body: bytes) -> str:
        """Return the signature list: one for each key, so that secrets rotate without a moment of refusal."""
        signed = f"{key}.{moment}.".encode() + body
        marks = (base64.b64encode(hmac.new(k, signed, hashlib.sha256).digest()).decode() for k in self._keys)
        return " ".join(f"v1,{mark}" for mark in marks)


def _key(secret: Secret, destination: str) -> bytes:
    try:
        key = base64.b64decode(secret.reveal().removeprefix("whsec_"), validate=True)
    except binascii.Error:
        key = b""
    if len(key) not in _SECRET_BYTES:
        raise SettingsError(
            f"a webhook secret of {destination} is not base64 of 24 to 64 bytes",
            remedy="Make one: `python -c 'import base64, secrets; "
            'print("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())\'`',
        )
    return key


def secrets_of_url(settings: Settings, provider: str, url: str, environ: Mapping[str, str]) -> list[Secret]:
    """Return what the receiver at `url` verifies with, newest first; SettingsError without `url_secrets`."""
    section = settings.providers.get(provider)
    if section is None or "url_secrets" not in section:
        raise SettingsError(
            f"[providers.{provider}] has no url_secrets",
            remedy="A named destination has secrets of its own; a URL's are derived from url_secrets",
        )
    parse(url)
    given = {"url_secrets": section["url_secrets"]}
    refs = build(UrlSecrets, given, ("providers", provider), section.layers).url_secrets
    return Signer.read(refs, environ, f"{provider} (url_secrets)").derived(url).secrets()
