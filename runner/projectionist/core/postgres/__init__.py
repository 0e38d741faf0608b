"""core/postgres."""
