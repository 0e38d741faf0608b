"""runner/failures."""
