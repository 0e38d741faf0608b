"""ops/inspect."""
