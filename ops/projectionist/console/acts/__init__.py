"""What somebody may do: each act has a page before it, which says what it touches, and the command that does the same.

It may import context, pages and what the commands call. Read `verb` first.
"""
