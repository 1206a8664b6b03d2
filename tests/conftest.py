"""The same tests every time: what hypothesis tries is fixed, as are all seeds."""

import signal

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts the tests may ignore it


def pytest_collection_modifyitems(items):
    """First those that mostly wait: several processes share the others meanwhile."""
    items.sort(key=lambda item: not item.path.name.startswith("test_ray"))
