"""ops/cli."""
