"""The relay: leases intents, has providers send them, records the replies.

It may import providers and what lies below. Read `relay` first, then `sender` and `state_machine`.
"""
