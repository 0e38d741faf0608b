"""Rules of outward calls: hosts by list, addresses by their range, resolved and pinned at every connection.

A name is resolved, each address is checked, and the connection goes to a checked address, so that a name
which changes its answer in between gains nothing. Redirects are not followed anywhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import msgspec

from projectionist.core.errors import ProjectionistError, SettingsError
from projectionist.outbox.providers.address_ranges import blocked, inside, metadata, networks

Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Host and port to addresses, as text. Raises OSError when the name is not found."""


class EgressError(SettingsError):
    """A call that the settings do not allow, today or tomorrow."""


class AddressError(ProjectionistError):
    """A name that now resolves only to addresses which must not be called."""


class Target(msgspec.Struct, frozen=True):
    """A URL taken apart once, so that the checked and the called target cannot differ."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Return the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def parse(url: str) -> Target:
    """Split an http(s) URL; refuse one that two parsers might read differently."""
    if not url.isascii() or not url.isprintable() or any(sign in url for sign in ' \\"<>^`{|}'):
        raise EgressError("the URL holds characters that do not belong in one", remedy="Percent-encode them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise EgressError(f"the URL cannot be read: {error}") from None
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme not in ("http", "https") or not host:
        raise EgressError("the URL is not http(s)://host/…")
    if "@" in parts.netloc:
        raise EgressError(
            "the URL holds a user name", remedy="Credentials belong in the settings, by reference"
        )
    if "%" in parts.netloc or port == 0:
        raise EgressError("the URL's host or port cannot be used")
    query = f"?{parts.query}" if parts.query else ""
    path = f"{parts.path or '/'}{query}"
    return Target(parts.scheme, host, port or {"http": 80, "https": 443}[parts.scheme], path)


def matches(host: str, patterns: tuple[str, ...]) -> bool:
    """Return True where a pattern names the host: itself, or `*.` and a parent of it."""
    host = host.lower()
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
        for pattern in map(str.lower, patterns)
    )


class Egress:
    """The rules of one provider. `hosts`: the only ones to be called (None: any). `private_hosts`: those that
    may have addresses in blocked ranges and may be called without TLS. `blocked_networks`: ranges of this deployment
    that are called for nobody, as a cloud's metadata is."""

    def __init__(
        self,
        *,
        hosts: tuple[str, ...] | None,
        private_hosts: tuple[str, ...],
        resolve: Resolver,
        blocked_networks: tuple[str, ...] = (),
    ) -> None:
        self._hosts = hosts
        self._private = private_hosts
        self._resolve = resolve
        self._own = networks(blocked_networks)

    def admit(self, target: Target) -> None:
        """Raise EgressError unless the target's host and scheme are allowed."""
        private = matches(target.host, self._private)
        if self._hosts is not None and not private and not matches(target.host, self._hosts):
            raise EgressError(f"the host {target.host} is not allowed", remedy="Name it in allow_hosts")
        if target.scheme != "https" and not private:
            raise EgressError(
                f"{target.host} would be called without TLS", remedy="Use https, or name it in private_hosts"
            )

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that may be called, in the resolver's order. Called for every connection.

        Addresses that must not be called are left out, not the whole name: behind DNS64 every name has one.
        Raises OSError if the name is not found, AddressError if nothing is left.
        """
        found = await self._literal_or_resolved(host, port)
        private = matches(host, self._private)
        reasons = {address: self._why_not(address, private=private) for address in found}
        allowed = [address for address, why in reasons.items() if why is None]
        if not allowed:
            kinds = ", ".join(sorted({str(why) for why in reasons.values()}))
            raise AddressError(
                f"{host} has no address that may be called ({kinds})",
                remedy="" if private else "If this is meant, name the host in private_hosts",
            )
        return allowed

    def _why_not(self, address: str, *, private: bool) -> str | None:
        why = None if private else blocked(address)
        return why or metadata(address) or ("blocked here" if inside(address, self._own) else None)

    async def _literal_or_resolved(self, host: str, port: int) -> list[str]:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            return await self._resolve(host, port)
