import sys

import pytest

from siag.foundations.errors import Missing
from siag.foundations.extras import needed


def test_what_is_installed_is_returned() -> None:
    assert needed("os.path", "nothing") is sys.modules["os.path"]


def test_what_is_missing_names_the_extra() -> None:
    with pytest.raises(Missing, match=r"no_such_library is missing; install it with pip install 'siag\[torch\]'"):
        needed("no_such_library.part", "torch")


def test_an_error_inside_a_library_is_not_hidden(tmp_path, monkeypatch) -> None:
    (tmp_path / "broken_library.py").write_text("import something_it_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_it_needs") as caught:
        needed("broken_library", "torch")
    assert not isinstance(caught.value, Missing)
