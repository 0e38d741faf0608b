"""The fold: what handlers make of events, row by row. Pure.

It may import compiled, tables, handlers and events. Read `fold` first, then `step`.
"""
