"""runner/stream_guard."""
