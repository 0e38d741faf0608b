"""Numbered SQL, forward only: what the tables are, and the applier that brings a database to them."""

from projectionist.migrations.apply_migrations import migrate, plan, refuse_unprepared, script
from projectionist.migrations.catalog import Migration, MigrationError

__all__ = ["Migration", "MigrationError", "migrate", "plan", "refuse_unprepared", "script"]
