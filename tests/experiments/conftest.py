"""How comparisons are made in tests."""

import pytest

from siag.experiments.comparison import contest


@pytest.fixture(scope="module")
def compiled_here():
    """Machine code is made in this process, which may have some of it; tests of `warm` itself start others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contest, "warm", lambda work: 0)
        yield
