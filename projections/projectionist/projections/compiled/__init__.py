"""A consumer class, checked and made ready: definition, fingerprint, subjects, keys of rows.

It may import tables, handlers, events and errors. Read `definition` first.
"""
