"""The rows of one read model, on one connection: read by key, written set-based."""
