"""`projectionist pause`: stop applying events of one consumer, and keep everything as it is."""

from __future__ import annotations

import argparse

from projectionist.ops.cli import consumer_command
from projectionist.ops.cli.help_topics import Topic

TOPIC = Topic.DECIDE
HELP = "have a consumer apply nothing, in all processes and after restarts, until it is resumed"
EXAMPLE = """
projectionist pause OrderSummary --reason "the address service is being moved"
projectionist resume OrderSummary --reason "moved"
"""

arguments = consumer_command.arguments


def run(args: argparse.Namespace) -> int:
    """Pause it, and say whether it was not paused already."""
    from projectionist.runner.admin.pause import pause

    return consumer_command.run(args, pause, "is paused", "was paused already")
