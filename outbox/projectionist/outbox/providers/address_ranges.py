"""The addresses that are never called: special ranges, and where a cloud gives its credentials away. Pure."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

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

_METADATA = {
    ipaddress.ip_address(text)
    for text in (
        *("169.254.169.254", "fd00:ec2::254", "fd20:ce::254"),
        *("169.254.170.2", "169.254.170.23", "fd00:ec2::23"),  # credentials of a container
        *("168.63.129.16", "100.100.100.200", "192.0.0.192"),
    )
}
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The upper half of an interface's identifier whose lower half is an IPv4 address (RFC 5214), below any prefix."""


def blocked(address: str) -> str | None:
    """Return the reason why an address must not be called; None if it may."""
    try:
        ip: Address = ipaddress.ip_address(address)
    except ValueError:
        return "not an address"
    if isinstance(ip, ipaddress.IPv6Address) and ip.scope_id:
        return "scoped"
    if isinstance(ip, ipaddress.IPv6Address) and int(ip) >> 32 & 0xFFFF_FFFF in _ISATAP:
        return "ISATAP"
    return next((why for network, why in _RANGES if ip.version == network.version and ip in network), None)


def metadata(address: str) -> str | None:
    """Return the reason why an address is called for nobody: it gives credentials to whoever asks; None if it does not.

    An IPv4 address inside an IPv6 one is found by its place: the last 32 bits of NAT64, ISATAP and mapped addresses.
    """
    ip: Address = ipaddress.ip_address(address)
    meant = {ip}
    if isinstance(ip, ipaddress.IPv6Address):
        meant = {
            ipaddress.IPv6Address(int(ip)),
            ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF),
            ip.sixtofour or ip,
        }
    return "cloud metadata" if meant & _METADATA else None


def networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Read ranges as settings write them; ValueError names the first that is none."""
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError:
            raise ValueError(f"blocked_networks: {text!r} is not a range like 2001:db8:64::/96") from None
    return tuple(found)


def inside(address: str, ranges: tuple[Network, ...]) -> bool:
    """Return whether one of the ranges holds the address."""
    ip = ipaddress.ip_address(address)
    return any(ip.version == network.version and ip in network for network in ranges)
