"""runner/gaps."""
