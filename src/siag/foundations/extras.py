"""Libraries that only some need: imported when first used, with a word on what to install if they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from siag.foundations.errors import Missing


def needed(module: str, extra: str) -> Any:
    """The module; if it is not installed, an error that says which extra of the package brings it.

    Example:
        >>> needed("json", "nothing").loads("[1]")
        [1]
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # it is there, and something it needs is not
        raise Missing(error.name, f"install it with pip install 'siag[{extra}]'") from None
