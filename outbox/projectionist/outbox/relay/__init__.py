"""outbox/relay."""
