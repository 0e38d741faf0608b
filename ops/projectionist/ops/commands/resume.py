"""`projectionist resume`: let a paused consumer go on."""

from __future__ import annotations

import argparse

from projectionist.ops.cli import consumer_command
from projectionist.ops.cli.help_topics import Topic

TOPIC = Topic.DECIDE
HELP = "let a paused consumer go on"
EXAMPLE = """
projectionist resume OrderSummary --reason "the address service has moved"
"""

arguments = consumer_command.arguments


def run(args: argparse.Namespace) -> int:
    """Resume it, and say whether it was paused."""
    from projectionist.runner.admin.pause import resume

    return consumer_command.run(args, resume, "goes on", "was not paused")
