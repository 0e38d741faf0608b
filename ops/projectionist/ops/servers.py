"""Which servers a command talks to: those of the settings, else those of `projectionist dev`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from projectionist.core.secret import Url
from projectionist.core.settings import FILE, Settings, load
from projectionist.ops.embedded import Embedded, home
from projectionist.ops.terminal import note


def settings() -> Settings:
    """The settings of the nearest `projectionist.toml`, here or in a folder above, and the environment.

    A missing URL is that of the running server under `.projectionist/`, which is said aloud. If none runs it
    stays missing: whoever connects tells how to get one.
    """
    place = home.find(Path.cwd())
    file = place.parent / FILE
    found = load(file if file.is_file() else None)
    if found.postgres.url is not None and found.nats.url:
        return found
    servers = Embedded(place)
    running = {server.name: Url(server.url) for server in servers.status() if server.pid}
    if found.postgres.url is None and (url := running.get(servers.postgres.name)):
        found = _using(found, "postgres", url, url)
    if not found.nats.url and (url := running.get(servers.nats.name)):
        found = _using(found, "nats", (url,), url)
    return found


def _using(found: Settings, section: str, value: object, url: Url) -> Settings:
    note(f"note: {section}.url is not set, using {url} of `projectionist dev`")
    changed = msgspec.structs.replace(getattr(found, section), url=value)
    return msgspec.structs.replace(found, **{section: changed})
