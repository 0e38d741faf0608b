"""runner/pipeline."""
