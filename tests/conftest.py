"""What every test may ask for."""

import gc

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.deadlines", "tests.support.fixtures"]

# How long an example takes says how busy the machine is. A test as a whole has its deadline.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Collecting makes objects by the million and drops next to none: searching them for garbage takes half of that time.
gc.disable()


def pytest_collection_finish() -> None:
    """Search for garbage again, and not in what has been collected, which stays."""
    gc.freeze()
    gc.enable()
