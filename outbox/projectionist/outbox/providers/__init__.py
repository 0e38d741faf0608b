"""Providers carry intents out: HTTP, webhooks, mail, NATS; classifiers turn their answers into replies.

It may import publishing, intents and core. Read `base` first, then `http`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from projectionist.core.errors import ProjectionistError
from projectionist.core.settings.secret import Secret
from projectionist.outbox.providers.base import Provider, ProviderContext, RenderError, Request
from projectionist.outbox.providers.profiles import PROFILES, Profile, Signal
from projectionist.outbox.providers.reply import Outcome, Reply
from projectionist.outbox.providers.secret_ref import SecretRef
from projectionist.outbox.providers.settings import ProviderSettings

if TYPE_CHECKING:
    from projectionist.outbox.providers.http import Http
    from projectionist.outbox.providers.nats import NatsPublish
    from projectionist.outbox.providers.smtp import Smtp
    from projectionist.outbox.providers.webhook import Webhook

__all__ = [
    "PROFILES",
    "Http",
    "NatsPublish",
    "Outcome",
    "Profile",
    "Provider",
    "ProviderContext",
    "ProviderSettings",
    "RenderError",
    "Reply",
    "Request",
    "Secret",
    "SecretRef",
    "Signal",
    "Smtp",
    "Webhook",
]

_LATE = {"Http": "http", "Webhook": "webhook", "Smtp": "smtp", "NatsPublish": "nats"}
_EXTRAS = {"httpcore": "http", "aiosmtplib": "smtp"}

if not TYPE_CHECKING:  # with a `__getattr__` in sight, type checkers take any name for granted

    def __getattr__(name: str) -> object:
        """Import a provider when it is named, so that an App without mails needs no mail library."""
        if name not in _LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name not in _EXTRAS:
                raise
            raise ProjectionistError(
                f"{name} needs the package {error.name}, which is not installed",
                remedy=f"pip install 'projectionist[{_EXTRAS[error.name]}]'",
            ) from None
