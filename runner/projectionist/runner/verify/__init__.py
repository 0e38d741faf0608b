"""Rows against the events that made them: verify, recompute, replay.

It may import rebuild, history and what lies below. Read `verify` first, then `refold_rows`.
"""
