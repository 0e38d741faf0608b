"""`projectionist pause`: stop applying events of one consumer, and keep everything as it is."""

from __future__ import annotations

import argparse

from projectionist.ops import pausing
from projectionist.ops.help import Topic

TOPIC = Topic.DECIDE
HELP = "have a consumer apply nothing, in all processes and after restarts, until it is resumed"
EXAMPLE = """
projectionist pause OrderSummary --reason "the address service is being moved"
projectionist resume OrderSummary --reason "moved"
"""

arguments = pausing.arguments


def run(args: argparse.Namespace) -> int:
    """Pause it, and say whether it was not paused already."""
    from projectionist.runner.admin.pause import pause

    return pausing.run(args, pause, "is paused", "was paused already")
