"""The page about providers says what the code knows."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from projectionist.outbox.providers.http import HttpSettings
from projectionist.outbox.providers.nats import NatsSettings
from projectionist.outbox.providers.profiles import PROFILES, Profile, Signal
from projectionist.outbox.providers.settings import ProviderRetry, ProviderSettings
from projectionist.outbox.providers.smtp import SmtpSettings
from projectionist.outbox.providers.webhook import WebhookSettings

PAGE = (Path(__file__).parents[3] / "docs" / "providers.md").read_text("utf-8")
"""To renew the table after a profile changed, put the rows that the failing test prints into the page."""


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "none"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds % size == 0 and (unit != "d" or seconds > 3 * size):
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def told(signals: tuple[Signal, ...]) -> str:
    return ", ".join(f"{s.status} `{s.code}`" if s.code else str(s.status) for s in signals) or "-"


def row(profile: Profile) -> str:
    memory = (
        "set by the user"
        if profile.key_header and profile.name == "ietf-draft"
        else duration(profile.memory_s)
    )
    cells = (
        f"`{profile.name}`",
        f"`{profile.key_header}`{', quoted' if profile.key_quoted else ''}" if profile.key_header else "-",
        memory,
        told(profile.mismatch),
        told(profile.in_flight),
        ", ".join(map(str, profile.sticky)) or "-",
        f"`{profile.replay_header}`" if profile.replay_header else "-",
        "yes" if profile.lookup else "no",
        profile.checked_on.isoformat(),
    )
    return f"| {' | '.join(cells)} |"


def test_the_table_of_profiles_is_the_profiles() -> None:
    heading = PAGE.index("| profile | key goes in |")
    rows = PAGE[heading : PAGE.index("\n\n", heading)].splitlines()[2:]
    expected = [row(profile) for profile in PROFILES.values()]
    assert rows == expected, "\n".join(expected)
    assert all(profile.note in PAGE for profile in PROFILES.values())


def test_every_key_of_every_provider_is_on_the_page() -> None:
    kinds = (ProviderSettings, ProviderRetry, HttpSettings, WebhookSettings, SmtpSettings, NatsSettings)
    keys = {field.name for kind in kinds for field in msgspec.structs.fields(kind)}
    assert sorted(key for key in keys if not re.search(rf"`{key}`|^{key} = ", PAGE, re.MULTILINE)) == []
