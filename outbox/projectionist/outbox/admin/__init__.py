"""The operators' view of intents, and their acts on them.

It may import intents and core. Read `intent_actions` first.
"""
