"""projections/compiled."""
