"""The product as it is: `projectionist run`, in a process like the other contenders'. Its argument names the app."""

from __future__ import annotations

import sys

from projectionist.ops.main import main

if __name__ == "__main__":
    sys.exit(main(["run", f"projectionist.bench.variants:{sys.argv[1]}"]))
