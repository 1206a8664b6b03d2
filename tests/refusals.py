"""Errors by their types and parts, for tests that do not own the words."""

import pytest

from siag import BadInput


def refused(*parameters):
    """Expects that one of these parameters is refused, in whatever words."""
    return pytest.raises(BadInput, check=lambda error: error.parameter in parameters)


def failing(*numbers):
    """Expects an error of the system's with one of these numbers (`errno`)."""
    return pytest.raises(OSError, check=lambda error: error.errno in numbers)
