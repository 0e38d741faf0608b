"""The settings of a command: those of every process, and a line where they are those of `projectionist dev`."""

from __future__ import annotations

from projectionist.core.settings import settings as core
from projectionist.core.settings.settings import Settings
from projectionist.ops.cli.output import note


def settings() -> Settings:
    """Return what `projectionist.core.settings.settings.settings` returns.

    Which servers it found is said in one line beside the result.
    """
    return core.settings(log_line=lambda text: note(f"note: {text}"))
