"""What every test may ask for."""

pytest_plugins = ["tests.support.deadlines", "tests.support.fixtures"]
