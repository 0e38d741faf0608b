"""The product with retention at work: it begins after a second, and has more to remove than it can during the run."""

from __future__ import annotations

import os
import sys

from projectionist.ops.cli import main

if __name__ == "__main__":
    os.environ |= {
        "PROJECTIONIST_RETENTION__EVERY_S": "1",
        "PROJECTIONIST_CONSUMER_DEFAULTS__RETENTION_S": "864000",
    }
    sys.exit(main(["run", "projectionist.ops.bench.shop:app"]))
