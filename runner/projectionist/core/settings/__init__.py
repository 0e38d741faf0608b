"""What a file and the environment may set, and how a wrong setting is told.

It may import identifiers and errors of core and nothing that connects or listens. Read `settings` first, then
`sources`.
"""
