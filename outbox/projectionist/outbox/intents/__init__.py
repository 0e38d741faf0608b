"""Intents as classes, their keys, the outbox of a producer, and the staging of a batch's intents.

It may import core alone. Read `intent` first, then `keys`.
"""
