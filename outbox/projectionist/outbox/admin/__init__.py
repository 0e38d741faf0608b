"""What operators see and do about intents.

It may import intents and core. Read `intent_actions` first.
"""
