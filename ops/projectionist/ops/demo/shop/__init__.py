"""A small shop, to be copied: its events, its read models, its app."""
