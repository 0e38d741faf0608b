"""runner/process."""
