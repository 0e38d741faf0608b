"""Everything that is said to NATS about streams, durables and messages.

It may import core alone. Read `api` first, then `pull_source`.
"""
