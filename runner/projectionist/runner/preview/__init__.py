"""What code makes of history before it runs: streams checked dry, new rows beside the live ones, rows as they were.

It may import verify, rebuild, history and what lies below, and writes nothing. Read `event_check` first, then
`preview`.
"""
