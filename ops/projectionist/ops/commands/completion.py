"""`projectionist completion`: have a shell complete commands, acts and options."""

from __future__ import annotations

import argparse

from projectionist.ops.completion import SHELLS
from projectionist.ops.help import Topic
from projectionist.ops.terminal import Exit, say

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
    from projectionist.ops import completion, main

    say(completion.script(args.shell, "projectionist", completion.words(main.parser())).rstrip("\n"))
    return Exit.DONE
