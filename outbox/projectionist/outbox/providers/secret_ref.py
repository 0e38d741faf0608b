"""Secrets of providers: the settings name their place, the environment or a file holds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from projectionist.core.errors import SettingsError
from projectionist.core.settings.secret import Secret

_MOST_BYTES = 64 * 1024


class SecretRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a secret: `{ env = "NAME" }` or `{ file = "/run/secrets/name" }`."""

    env: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        if bool(self.env) == bool(self.file):
            raise ValueError('a secret is { env = "NAME" } or { file = "PATH" }, one of the two')

    def read(self, environ: Mapping[str, str]) -> Secret:
        """Return the secret, or raise a SettingsError that names the place and not the value."""
        value = self._from_file() if self.file else environ.get(self.env, "")
        if not value:
            place = f"the file {self.file}" if self.file else f"the environment variable {self.env}"
            raise SettingsError(f"{place} holds no secret", remedy="Set it, or name another place")
        return Secret(value)

    def _from_file(self) -> str:
        try:
            with Path(self.file).open("rb") as handle:
                content = handle.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise SettingsError(f"the secret file {self.file} is longer than {_MOST_BYTES} bytes")
            return content.decode("utf-8").strip("\r\n")
        except OSError as error:
            raise SettingsError(
                f"the secret file {self.file} cannot be read: {error.strerror}",
                remedy="Check the path and that this process may read it",
            ) from None
        except UnicodeDecodeError:
            # The error would quote the bytes.
            raise SettingsError(f"the secret file {self.file} is not UTF-8 text") from None
