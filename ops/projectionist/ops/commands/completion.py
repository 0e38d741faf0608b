"""`projectionist completion`: have a shell complete commands, acts and options."""

from __future__ import annotations

import argparse

from projectionist.ops.cli.completion import SHELLS
from projectionist.ops.cli.help_topics import Topic
from projectionist.ops.cli.output import Exit, say

TOPIC = Topic.DEVELOP
HELP = "print a script that has bash, zsh or fish complete commands and options"
EXAMPLE = """
projectionist completion bash > ~/.local/share/bash-completion/completions/projectionist
projectionist completion zsh > ~/.zfunc/_projectionist        with ~/.zfunc in fpath, before compinit
projectionist completion fish > ~/.config/fish/completions/projectionist.fish
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that is to complete")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from projectionist.ops import main
    from projectionist.ops.cli import completion

    say(completion.script(args.shell, "projectionist", completion.words(main.parser())).rstrip("\n"))
    return Exit.DONE
