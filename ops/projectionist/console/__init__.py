"""The console: see it, understand it, mend it, in a browser. Needs `projectionist[console]`.

It may import ops (doctor, inspect, cli), runner, outbox and core, and calls what the commands call: it has no SQL of
its own, and no act that the command line lacks. Read `application` first, then `access`, `console_context` and
`screens`.
"""

from __future__ import annotations

from projectionist.console.access.sessions import Person, Role
from projectionist.console.application import app

__all__ = ["Person", "Role", "app"]
