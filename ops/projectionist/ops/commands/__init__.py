"""One module a command of the command line, with help, example, arguments and run.

It may import every other room of ops. Read `status` first.
"""
