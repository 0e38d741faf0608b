"""Connections that somebody between could read or answer, though the settings say that they may be so. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from projectionist.core.errors import SettingsError
from projectionist.core.tls import is_loopback
from projectionist.ops.doctor.check import Check, attention, note

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Encrypted, Settings
    from projectionist.runner.app import App

_NAME = "encryption"
CHECKED = "Set tls = 'verify-full', and ca_file where the authority is your own"


def checks(app: App, settings: Settings) -> Iterator[Check]:
    """Check both servers, and the mail servers of the app's providers."""
    postgres, nats = settings.postgres, settings.nats
    urls = [url for url in (postgres.url, postgres.direct_url) if url is not None]
    yield from _server("postgres", postgres, [host for url in urls for host in url.hosts()])
    yield from _server("nats", nats, [host for url in nats.url for host in url.hosts()])
    yield from _mail(app, settings)


def _server(about: str, section: Encrypted, hosts: Iterable[str]) -> Iterator[Check]:
    elsewhere = [host for host in hosts if not is_loopback(host)]
    if section.tls == "require" and elsewhere:
        yield note(about, _NAME, "no certificate is checked: whoever answers in its place reads all", CHECKED)
    if section.tls == "disable" and elsewhere:
        yield note(about, _NAME, f"nothing is encrypted on the way to {', '.join(elsewhere)}", CHECKED)


def _mail(app: App, settings: Settings) -> Iterator[Check]:
    for name, factory in app.providers.items():
        if name not in settings.providers or getattr(factory, "system", "") != "smtp":
            continue
        try:
            found = settings.provider(name, factory.Settings)  # type: ignore[attr-defined]  # a provider's class
        except SettingsError as error:
            yield attention("providers", name, error.message, error.remedy)
            continue
        if found.tls == "none" and not is_loopback(found.host):
            yield note(
                "providers",
                name,
                f"mails go to {found.host} unencrypted: whoever is between reads them",
                f"Set tls = 'starttls' or 'tls' of [providers.{name}]",
            )
