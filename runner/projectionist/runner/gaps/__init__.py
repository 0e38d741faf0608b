"""Missing versions: looked up in the stream, diagnosed, and where an aggregate begins.

It may import failures, batch and what lies below. Read `fetcher` first, then `diagnosis`.
"""
