"""projections/tables."""
