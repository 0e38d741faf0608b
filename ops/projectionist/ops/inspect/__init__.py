"""Looks at a stream or an aggregate as a whole: the audit of a stream, timelines.

It may import runner, projections and core. Read `stream_audit` first.
"""
