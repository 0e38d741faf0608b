"""runner/database."""
