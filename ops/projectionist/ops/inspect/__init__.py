"""Looks at a whole: the audit of a stream, an app as an AsyncAPI document, its views as models.

It may import runner, projections, outbox and core. Read `stream_audit` first, then `async_api` and `row_models`.
"""
