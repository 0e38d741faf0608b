"""What tests of telemetry may ask for."""

from __future__ import annotations

import pytest
from tests.support.spans import listening_to_spans

kept = pytest.fixture(listening_to_spans)
