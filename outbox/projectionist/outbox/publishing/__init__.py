"""outbox/publishing."""
