"""What may go and when: rules, the purge, archives.

It may import batch, consumers and what lies below. Read `rules` first, then `purge`.
"""
