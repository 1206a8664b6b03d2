"""Waiting for what happens in other threads and processes."""

import time

PATIENCE = 120.0  # seconds; nothing here takes nearly as long, however busy the machine is


def wait_until(condition, seconds=PATIENCE):
    """Wait for a condition; what it returned."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"not within {seconds} seconds"
        time.sleep(0.005)
    return found
