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

Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Host and port to addresses, as text. Raises OSError when the name is not found."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Listed rather than asked of `ipaddress.is_global`, whose answers changed between patch releases of Python.
_BLOCKED = {
    "this network": ("0.0.0.0/8",),
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    "shared (carrier NAT)": ("100.64.0.0/10",),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "link-local or metadata": ("169.254.0.0/16", "fe80::/10"),
    "cloud metadata": ("168.63.129.16/32",),
    "protocol assignments": ("192.0.0.0/24", "2001::/23"),
    "documentation": ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    "benchmarking": ("198.18.0.0/15",),
    "6to4": ("192.88.99.0/24", "2002::/16"),
    "NAT64": ("64:ff9b::/96", "64:ff9b:1::/48"),
    "discard": ("100::/64",),
    "segment routing": ("5f00::/16",),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "reserved": ("240.0.0.0/4",),
    "unspecified or embedded IPv4": ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96"),
}
_RANGES = [(ipaddress.ip_network(text), why) for why, texts in _BLOCKED.items() for text in texts]


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


def blocked(address: str) -> str | None:
    """Return the reason why an address must not be called; None if it may."""
    try:
        ip: Address = ipaddress.ip_address(address)
    except ValueError:
        return "not an address"
    if isinstance(ip, ipaddress.IPv6Address) and ip.scope_id:
        return "scoped"
    return next((why for network, why in _RANGES if ip.version == network.version and ip in network), None)


def matches(host: str, patterns: tuple[str, ...]) -> bool:
    """Return True where a pattern names the host: itself, or `*.` and a parent of it."""
    host = host.lower()
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
        for pattern in map(str.lower, patterns)
    )


class Egress:
    """The rules of one provider. `hosts`: the only ones to be called (None: any). `private_hosts`: those that
    may have addresses in blocked ranges and may be called without TLS."""

    def __init__(
        self, *, hosts: tuple[str, ...] | None, private_hosts: tuple[str, ...], resolve: Resolver
    ) -> None:
        self._hosts = hosts
        self._private = private_hosts
        self._resolve = resolve

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
        if matches(host, self._private):
            return found
        reasons = {address: blocked(address) for address in found}
        allowed = [address for address, why in reasons.items() if why is None]
        if not allowed:
            kinds = ", ".join(sorted({str(why) for why in reasons.values()}))
            raise AddressError(
                f"{host} has no address that may be called ({kinds})",
                remedy="If this is meant, name the host in private_hosts",
            )
        return allowed

    async def _literal_or_resolved(self, host: str, port: int) -> list[str]:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            return await self._resolve(host, port)
