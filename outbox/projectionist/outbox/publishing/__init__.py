"""Publishing events: drafts, derived ids, acks.

It may import intents and core. Read `publisher` first, then `draft`.
"""
