"""runner/history."""
