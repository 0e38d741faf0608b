"""The demonstration: a shop, its history, and what has to come of it.

It may import runner, outbox, projections and embedded. Read `play` first.
"""
