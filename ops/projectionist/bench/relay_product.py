"""The product as it is: `projectionist relay`, in a process like the other contenders'. Its argument names the app."""

from __future__ import annotations

import sys

from projectionist.ops.main import main

if __name__ == "__main__":
    sys.exit(main(["relay", f"projectionist.bench.relay_app:{sys.argv[1]}"]))
