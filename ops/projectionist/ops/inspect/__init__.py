"""Looks at a stream as a whole: the audit of a stream.

It may import runner, projections and core. Read `stream_audit` first.
"""
