"""PostgreSQL and NATS as child processes, for development, tests and the demo.

It may import core alone. Read `servers` first.
"""

from projectionist.ops.embedded.errors import EmbeddedError
from projectionist.ops.embedded.servers import Addresses, Embedded, ServerStatus
from projectionist.ops.embedded.temporary import temporary

__all__ = ["Addresses", "Embedded", "EmbeddedError", "ServerStatus", "temporary"]
