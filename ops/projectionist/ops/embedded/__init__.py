"""A real PostgreSQL and a real nats-server under one folder, for development, tests, demo and bench."""

from projectionist.ops.embedded.errors import EmbeddedError
from projectionist.ops.embedded.servers import Addresses, Embedded, ServerStatus
from projectionist.ops.embedded.temporary import temporary

__all__ = ["Addresses", "Embedded", "EmbeddedError", "ServerStatus", "temporary"]
