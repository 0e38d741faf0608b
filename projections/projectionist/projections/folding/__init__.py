"""The fold: runs handlers over events and rows, in memory. Pure.

It may import compiled, tables, handlers and events. Read `fold` first, then `step`.
"""
