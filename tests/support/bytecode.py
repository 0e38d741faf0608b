"""Compiles once what the processes that tests start import: where no bytecode is written each would do it again.

They are some hundreds, and compiling takes longer than all that most of them do. `python -m tests.support.bytecode`
"""

from __future__ import annotations

import compileall
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("runner", "outbox", "projections", "migrations", "ops", "tests/support")
PROCESSES = ("projectionist.ops.main", "projectionist.runner.process.run", "projectionist.outbox.relay.relay")
"""With these come the packages of others that nearly every process imports."""


def main() -> None:
    """Write the bytecode beside the sources, as Python does by itself where it may."""
    for part in PARTS:
        compileall.compile_dir(ROOT / part, quiet=2)
    for name in PROCESSES:
        import_module(name)
    files = {file for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    for file in files:
        if file.endswith(".py"):
            compileall.compile_file(file, quiet=2)


if __name__ == "__main__":
    main()
