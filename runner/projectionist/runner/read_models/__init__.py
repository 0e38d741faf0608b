"""runner/read_models."""
