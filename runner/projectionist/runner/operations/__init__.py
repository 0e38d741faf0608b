"""Operations: what takes long is a row that one process at a time carries out, and that all can see and stop.

It may import admin and what lies below. Read `operation` first, then `carrier` and `parked_retry`.
"""
