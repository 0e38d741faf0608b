"""Slots are part of intent keys, so their names are frozen when first seen: a rename must say so. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from projectionist.core.errors import ProjectionistError


class SlotRenamed(ProjectionistError):
    """A slot is gone and another is new: if it is the same one, its keys would change."""


def frozen(name: str, known: Iterable[str], declared: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return under which registered name each declared slot goes on, for those that were renamed.

    `declared` maps the slots of today to the names they had. Raises SlotRenamed where a registered slot is gone
    while another has appeared that does not say what it was called before.
    """
    registered = set(known)
    kept = {
        slot: former for slot, formerly in declared.items() for former in formerly if former in registered
    }
    gone = sorted(registered - set(declared) - set(kept.values()))
    fresh = sorted(slot for slot in declared if slot not in registered and slot not in kept)
    if gone and fresh:
        raise SlotRenamed(
            f"{name}: intent slot {gone[0]!r} is gone and {fresh[0]!r} is new",
            remedy=f'If it was renamed, say formerly=("{gone[0]}",) on the Intent; if not, deploy the removal first',
        )
    return kept
