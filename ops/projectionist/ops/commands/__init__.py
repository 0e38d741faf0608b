"""One module a command: `HELP`, `EXAMPLE`, `arguments(parser)` and `run(args)`, found by its name."""
