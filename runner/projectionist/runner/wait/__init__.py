"""runner/wait."""
