"""runner/decoding."""
