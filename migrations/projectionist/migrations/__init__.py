"""Numbered SQL, forward only: what the tables are, and the applier that brings a database to them."""

from projectionist.migrations.applier import migrate, plan, script
from projectionist.migrations.released import Migration, MigrationError

__all__ = ["Migration", "MigrationError", "migrate", "plan", "script"]
