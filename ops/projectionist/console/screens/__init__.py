"""The pages, a module each: what it reads, and the template that shows it.

They may import context, acts, pages, needs and what the commands call. Read `overview` first.
"""
