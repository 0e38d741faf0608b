"""core/nats."""
