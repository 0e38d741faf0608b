"""The demo: a small shop whose producer duplicates, reorders and loses events, and read models that come out right."""
