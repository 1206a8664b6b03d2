"""What "module:attribute" names: gradients, streams, losses and problems of the user's own."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siag.experiments import config
from siag.foundations.errors import BadInput
from siag.problems import Problem


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


def problem_named(text: str, folder: Path) -> tuple[Problem, int]:
    """The problem of a TOML file, or "module:attribute", which may be a function that makes it; and the file's seed."""
    path = folder / text
    if os.path.exists(path) or ":" not in text:
        return config.read_problem(path)
    found = reference("problem", text, folder)
    if not isinstance(found, Problem) and callable(found):
        try:
            found = found()
        except Exception as error:  # whatever the user's code raises
            remedy = f"it raised {type(error).__name__}: {error}"
            raise BadInput("problem", text, "a Problem, or a function that makes it", remedy) from error
    if not isinstance(found, Problem):
        raise BadInput("problem", text, "a Problem, or a function that makes it")
    return found, 0


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
