"""runner/consumers."""
