"""The command line `projectionist`: finds the commands, runs one, turns what happened into an exit code."""

from __future__ import annotations

import argparse
import os
import pkgutil
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn, Protocol, cast

from projectionist.core.errors import ProjectionistError
from projectionist.core.printable_text import is_text
from projectionist.ops import commands
from projectionist.ops.cli.command_duties import explained
from projectionist.ops.cli.help_topics import Topic, overview
from projectionist.ops.cli.output import Exit, UsageError, hush, say, warn

_DESCRIPTION = "Keeps PostgreSQL read models in step with NATS JetStream; side effects happen once."
_EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done, but something needs attention."


class Command(Protocol):
    """The interface of a module in `commands`. Each call imports them all: what is heavy is imported in `run`."""

    TOPIC: Topic
    HELP: str
    EXAMPLE: str

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it, and return an `Exit`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors of ours become one line on standard error."""
    given = sys.argv[1:] if argv is None else argv
    if wrong := [word for word in given if not is_text(word)]:
        warn(f"error: an argument is no text in UTF-8: {wrong[0]!a}")
        return Exit.USAGE
    args = parser().parse_args(given)
    hush(quiet="quiet" in args)
    try:
        code = int(args.command.run(args))
        sys.stdout.flush()
    except ProjectionistError as error:
        warn(f"error: {error}")
        return Exit.USAGE if isinstance(error, UsageError) else Exit.FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # who read our output has enough of it; what is left must not fail at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:  # noqa: BLE001  of all others those of PostgreSQL alone have something to say
        told = _told(args, error)
        # What is left is a bug, of ours or of the user's modules: its author needs the traceback.
        warn(traceback.format_exc().rstrip() if told is None else f"error: {told}")
        return Exit.FAILED
    return code


def _told(args: argparse.Namespace, error: Exception) -> ProjectionistError | None:
    """Return what to say of an error of PostgreSQL that somebody, or time, may mend."""
    from projectionist.ops.cli.interrupted_command import interrupted  # noqa: PLC0415  no other end needs the driver

    try:
        return interrupted(error) or explained(args, error)
    except ProjectionistError as away:  # nobody is there to be asked which right is missing
        return away


def found() -> Iterator[tuple[str, Command]]:
    """Yield the commands by name: the modules of the `commands` package, in alphabetical order."""
    for module in pkgutil.iter_modules(commands.__path__):
        name = module.name.replace("_", "-")
        yield name, cast(Command, import_module(f"{commands.__name__}.{module.name}"))


class _Version(argparse.Action):
    """Looks the version up only when asked: that reads files, which no other call should wait for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        say(f"projectionist {version('projectionist')}")
        parser.exit()


class _CommandParser(argparse.ArgumentParser):
    """Answers a command that is not there with the nearest one, where argparse would list all."""

    def error(self, message: str) -> NoReturn:
        wrong = re.match(r"argument COMMAND: invalid choice: '([^']*)'", message)
        if wrong is not None:
            near = get_close_matches(wrong[1], [name for name, _ in found()], n=1)
            hint = f" Did you mean `projectionist {near[0]}`?" if near else ""
            message = f"there is no command {wrong[1]!r}.{hint} All of them: projectionist --help"
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line, with a parser of its own for each command."""
    known = list(found())
    parser = _CommandParser(
        prog="projectionist",
        usage="projectionist [-h] [--version] [-q] COMMAND ...",
        description=_DESCRIPTION,
        epilog=f"{overview((name, command.TOPIC, command.HELP) for name, command in known)}\n\n{_EPILOG}",
        allow_abbrev=False,  # an option added later must not change what a script means
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    _add_quiet(parser)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, help=argparse.SUPPRESS)
    for name, command in known:
        _add(subparsers, name, command)
    return parser


def _add(subparsers: argparse._SubParsersAction[_CommandParser], name: str, command: Command) -> None:
    sub = subparsers.add_parser(
        name,
        description=command.HELP,
        epilog=f"example:\n{_indented(command.EXAMPLE)}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.arguments(sub)
    _add_quiet(sub)
    sub.set_defaults(command=command)


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add the option both before and behind the command; without a default, which would undo what stood before it."""
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="tell nothing but results, warnings and errors",
    )


def _indented(example: str) -> str:
    return "\n".join(f"  {line}" for line in example.strip().splitlines())
