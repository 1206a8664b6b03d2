"""A file to follow."""

import pytest


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data"
    path.write_text("")
    return path
