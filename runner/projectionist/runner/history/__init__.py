"""Holds what rebuild and verify share: which events live has applied, what the stream has lost, folding in bulk.

It may import read_models, batch and what lies below. Read `applied_filter` first, then `fold_stream`.
"""
