"""runner/admin."""
