"""outbox/intents."""
