"""The product's rebuild as it is: `projectionist rebuild`, in a process like the other contenders'."""

from __future__ import annotations

import sys

from projectionist.ops.main import main

if __name__ == "__main__":
    sys.exit(main(["rebuild", "projectionist.bench.variants:plain", "BenchOrders", "--json"]))
