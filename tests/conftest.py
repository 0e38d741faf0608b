"""What every test may ask for."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.deadlines", "tests.support.fixtures"]

# How long an example takes says how busy the machine is. A test as a whole has its deadline.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
