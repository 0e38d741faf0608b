"""runner/verify."""
