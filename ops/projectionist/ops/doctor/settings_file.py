"""The file of the settings: whether it shows every user of the machine a secret."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from projectionist.core import own_files
from projectionist.core.settings.secret import Url
from projectionist.ops.doctor.check import attention, well

if TYPE_CHECKING:
    from projectionist.ops.doctor.check import Check


def checks(file: Path) -> list[Check]:
    """Look at the file, where there is one. It has been read before, so it is TOML of the right form."""
    if not file.is_file():
        return []
    held = _secrets(tomllib.loads(file.read_text("utf-8")))
    if not held or not own_files.is_readable_by_all(file):
        return [well("settings", "secrets", f"{file} shows no secret to every user")]
    return [
        attention(
            "settings",
            "secrets",
            f"every user of this machine may read {file}, which holds {' and '.join(held)}",
            f"chmod o-r {file}, or move them to files of their own: password_file, token_file",
        )
    ]


def _secrets(tree: dict[str, dict[str, object]]) -> list[str]:
    """Return the keys that hold one. Providers name the places of theirs alone."""
    postgres, nats = tree.get("postgres", {}), tree.get("nats", {})
    servers = nats.get("url", [])
    held = {
        "postgres.url": _has_login(postgres.get("url")),
        "postgres.direct_url": _has_login(postgres.get("direct_url")),
        "nats.url": any(map(_has_login, servers)) if isinstance(servers, list) else False,
        "nats.token": "token" in nats,
    }
    return [key for key, holds in held.items() if holds]


def _has_login(url: object) -> bool:
    return isinstance(url, str) and Url(url).has_login
