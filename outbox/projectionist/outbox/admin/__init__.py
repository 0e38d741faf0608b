"""outbox/admin."""
