"""`projectionist asyncapi`: what an app publishes, reads and asks for, as an AsyncAPI document."""

from __future__ import annotations

import argparse

from projectionist.ops.cli import app_arguments
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say_json

TOPIC = Topic.DEVELOP
HELP = "write streams, events, consumers and intents of an app as an AsyncAPI 3.0 document"
EXAMPLE = """
projectionist asyncapi shop.app:app > asyncapi.json   JSON, the same for the same app
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    app_arguments.declare(parser)


def run(args: argparse.Namespace) -> int:
    """Write it. Neither servers nor settings but `app` are needed."""
    from projectionist.core.settings.settings import settings
    from projectionist.ops.inspect.async_api import async_api
    from projectionist.runner.app import App

    name, _ = app_arguments.split(args, None if args.words else settings().app)
    app = app_arguments.load(name, App)
    say_json(async_api(name, app.definitions, app.streams))
    return Exit.DONE
