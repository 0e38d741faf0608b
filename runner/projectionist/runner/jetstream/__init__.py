"""runner/jetstream."""
