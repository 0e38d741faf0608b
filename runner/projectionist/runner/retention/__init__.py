"""Retention: which settled rows may go, when, and where to before."""
