"""Looks at a whole: the audit of a stream, the AsyncAPI document of an app.

It may import runner, projections, outbox and core. Read `stream_audit` first, then `async_api`.
"""
