"""Tables, views and generations of read models: made, migrated, repointed, dropped.

It may import batch and what lies below. Read `migrate` first, then `change_plan` and `generations`.
"""
