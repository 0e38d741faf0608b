"""Waiting until a consumer has applied what was written: read your own writes."""
