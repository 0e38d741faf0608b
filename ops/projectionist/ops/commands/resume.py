"""`projectionist resume`: let a paused consumer go on."""

from __future__ import annotations

import argparse

from projectionist.ops import pausing
from projectionist.ops.help import Topic

TOPIC = Topic.DECIDE
HELP = "let a paused consumer go on"
EXAMPLE = """
projectionist resume OrderSummary --reason "the address service has moved"
"""

arguments = pausing.arguments


def run(args: argparse.Namespace) -> int:
    """Resume it, and say whether it was paused."""
    from projectionist.runner.admin.pause import resume

    return pausing.run(args, resume, "goes on", "was not paused")
