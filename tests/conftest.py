"""The same tests every time: what hypothesis tries is fixed, as are all seeds."""

import signal

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts the tests may ignore it
