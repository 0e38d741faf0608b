"""runner/telemetry."""
