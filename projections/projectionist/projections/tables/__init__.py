"""Tables of read models: columns, values, DDL and statements.

It may import errors and core's identifiers. Read `table` first, then `columns`.
"""
