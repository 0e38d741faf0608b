"""Recording events of an aggregate: through the outbox in the caller's own transaction, or straight to the stream.

It may import publishing, intents and core. Read `call` first, then `outbox_steps` and `stream_recorder`.
"""
