"""A new generation beside the live one: build, bulk, catch up, compare, swap.

It may import history, read_models and what lies below. Read `rebuild` first, then `bulk_phase`, `catch_up` and `swap`.
"""
