"""The one rule for TLS: checked unless the server is on this machine, or the settings say otherwise."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from ipaddress import ip_address

from projectionist.core.errors import SettingsError
from projectionist.core.settings.settings import Encrypted


def context(section: Encrypted, hosts: Iterable[str], *, name: str) -> ssl.SSLContext | None:
    """Return the TLS context for a server of `[name]` at `hosts`, or None where the connection is to be plain.

    `auto` checks certificate and host name of any host but this machine. An opportunistic upgrade, a default
    of drivers, protects against nobody who can answer in the server's place.
    """
    if section.tls == "disable" or (section.tls == "auto" and all(map(is_loopback, hosts))):
        return None
    try:
        made = ssl.create_default_context(cafile=section.ca_file)
        if section.cert_file and section.key_file:
            made.load_cert_chain(section.cert_file, section.key_file)
    except (OSError, ValueError) as error:
        files = ", ".join(filter(None, (section.ca_file, section.cert_file, section.key_file)))
        raise SettingsError(f"{name}: the TLS files {files} cannot be used: {error}") from None
    if section.tls == "require":
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def is_loopback(host: str) -> bool:
    """Return whether `host` can only be this machine: a socket's folder, `localhost` or a loopback address."""
    if host.startswith("/") or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
