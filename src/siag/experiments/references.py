"""What "module:attribute" names: gradients, streams, losses, problems and methods of the user's own."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siag.foundations.errors import BadInput


def look_in(folder: Path) -> None:
    """Let modules be found in a folder, for good: what they import later is found as well, also by workers."""
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, place)


def reference(parameter: str, text: object, folder: Path) -> Any:
    """What "module:attribute" names; modules are looked for in the folder too."""
    module, colon, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not (module and colon and name):
        raise BadInput(parameter, text, 'of the form "module:attribute"')
    if module.endswith(".py") or "/" in module or os.sep in module:
        place = Path(module)
        where = "" if place.parent == Path() else f" in the folder {place.parent}"
        raise BadInput(parameter, text, "the name of a module, not of its file", f'write "{place.stem}:{name}"{where}')
    look_in(folder)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a module of the user's may do anything
        raise BadInput(parameter, text, "something that can be imported", f"importing it raised {error!r}") from error
    return found


def metrics_named(value: Any, folder: Path) -> dict[str, Any]:
    """The user's own metrics: a table, or texts NAME=module:function."""
    if isinstance(value, list):
        pairs = [str(each).partition("=") for each in value]
        for name, equals, _ in pairs:
            if not name or not equals:
                raise BadInput("evaluate", value, "NAME=module:function")
        value = {name: text for name, _, text in pairs}
    if not isinstance(value, dict):
        raise BadInput("evaluate", value, "a table, written [evaluate]")
    return {name: reference("evaluate", text, folder) for name, text in value.items()}


@dataclass(frozen=True)
class Loss:
    """The user's loss, which can be sent to other processes; what it raises becomes one line.

    Args:
        text: how the user named it.
        function: what is called with w.
    """

    text: str
    function: Callable[[Any], Any]

    def __call__(self, w: Any) -> float:
        """The loss of w."""
        try:
            return float(self.function(w))
        except Exception as error:  # whatever the user's code raises
            remedy = f"it raised {type(error).__name__}: {error}"
            raise BadInput("loss", self.text, "a function of w", remedy) from error
