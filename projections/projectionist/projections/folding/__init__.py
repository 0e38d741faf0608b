"""projections/folding."""
