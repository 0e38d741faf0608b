"""Secrets of providers: the settings name their place, the environment or a file holds them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from projectionist.core.errors import SettingsError
from projectionist.core.settings import secret_file
from projectionist.core.settings.secret import Secret


class SecretRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a secret: `{ env = "NAME" }` or `{ file = "/run/secrets/name" }`."""

    env: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        if bool(self.env) == bool(self.file):
            raise ValueError('a secret is { env = "NAME" } or { file = "PATH" }, one of the two')

    def read(self, environ: Mapping[str, str]) -> Secret:
        """Return the secret, or raise a SettingsError that names the place and not the value."""
        if self.file:
            return secret_file.read(self.file)
        if not environ.get(self.env):
            raise SettingsError(
                f"the environment variable {self.env} holds no secret", remedy="Set it, or name another place"
            )
        return Secret(environ[self.env])
