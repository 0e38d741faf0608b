"""What tests of one's own are written with: `given` and `check_projection` without servers, `Live` with them, and a
suite for providers.

Every run of pytest imports this module, since the plugin lies beside it: nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projectionist.testing.live import Live
    from projectionist.testing.properties import check_projection
    from projectionist.testing.provider_properties import check_provider
    from projectionist.testing.scenario import OldEvent, Scenario, given

__all__ = ["Live", "OldEvent", "Scenario", "check_projection", "check_provider", "given"]

_HOMES = {
    "Live": "live",
    "OldEvent": "scenario",
    "Scenario": "scenario",
    "check_projection": "properties",
    "check_provider": "provider_properties",
    "given": "scenario",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name when it is first asked for."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return found
