"""The files that log in at NATS, looked at before nats-py reads them: it ends in whatever its reading ends in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import nkeys  # type: ignore[import-untyped]  # it comes without types

from projectionist.core.errors import SettingsError

if TYPE_CHECKING:
    from projectionist.core.settings.settings import Nats

_PARTS = re.compile(
    rb"-----BEGIN NATS USER JWT-----\s+(?P<jwt>[\w.=-]+)\s.*-----BEGIN USER NKEY SEED-----\s+(?P<seed>\w+)\s",
    re.DOTALL,
)


def check_login_files(settings: Nats) -> None:
    """Raise SettingsError for a file that is missing, or holds something else. What it holds is never quoted."""
    if settings.creds_file is not None:
        found = _PARTS.search(_read("creds_file", settings.creds_file))
        if found is None or not _is_seed(found["seed"]):
            raise SettingsError(
                f"nats.creds_file {settings.creds_file} is no credentials file: it lacks a user's JWT or seed",
                remedy="Write it anew: nsc generate creds --account A --name U",
            )
    if settings.nkey_file is not None and not _is_seed(_read("nkey_file", settings.nkey_file).strip()):
        raise SettingsError(
            f"nats.nkey_file {settings.nkey_file} holds no user's seed, which begins with SU",
            remedy="Write it anew: nk -gen user; the server is told the public key",
        )


def _read(key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise SettingsError(
            f"nats.{key} {path} cannot be read: {error.strerror}",
            remedy=f"Mend {key} of [nats], or the file's rights",
        ) from None


def _is_seed(text: bytes) -> bool:
    try:
        nkeys.from_seed(bytearray(text)).wipe()
    except Exception:  # noqa: BLE001  nkeys raises what it stumbles over
        return False
    return text.startswith(b"SU")
