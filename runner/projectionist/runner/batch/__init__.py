"""runner/batch."""
