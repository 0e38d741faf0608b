"""`python -m projectionist.ops` is `projectionist`: for processes that start another one."""

from __future__ import annotations

import sys

from projectionist.ops.main import main

sys.exit(main())
