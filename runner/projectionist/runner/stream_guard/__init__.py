"""Whether stream, durable and database are still those we knew, and what an operator decides if not.

It may import batch, consumers and what lies below. Read `guard` first, then `verdict`.
"""
