"""A secret in a file of its own, as orchestrators and systemd hand them out: read once, at start."""

from __future__ import annotations

from pathlib import Path

from projectionist.core.errors import SettingsError
from projectionist.core.settings.secret import Secret

_MOST_BYTES = 64 * 1024


def read(path: str) -> Secret:
    """Return what the file holds, without its line end; SettingsError names the file and not the content."""
    try:
        with Path(path).open("rb") as handle:
            content = handle.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise SettingsError(f"the secret file {path} is longer than {_MOST_BYTES} bytes")
        value = content.decode("utf-8").strip("\r\n")
    except OSError as error:
        raise SettingsError(
            f"the secret file {path} cannot be read: {error.strerror}",
            remedy="Check the path and that this process may read it",
        ) from None
    except UnicodeDecodeError:
        # The error would quote the bytes.
        raise SettingsError(f"the secret file {path} is not UTF-8 text") from None
    if not value:
        raise SettingsError(f"the file {path} holds no secret", remedy="Set it, or name another place")
    return Secret(value)
