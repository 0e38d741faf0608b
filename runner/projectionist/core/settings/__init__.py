"""core/settings."""
