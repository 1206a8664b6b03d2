"""Steps from how they print."""

from __future__ import annotations

import ast
from typing import Any

from siag.steps.constant import Constant
from siag.steps.harmonic import Harmonic
from siag.steps.step import Step
from siag.steps.switched import Switched

KNOWN = {kind.__name__: kind for kind in (Constant, Harmonic, Switched)}


def from_text(text: str) -> Step | None:
    """The step that prints like this; `None` if it is not one of these that see t alone. Nothing else is run.

    >>> from_text("Switched(before=Constant(eta=0.5), at=7, after=Harmonic(beta=1.0, gamma=2.0))").at
    7
    """
    try:
        made = _made(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, TypeError):
        return None
    return made if isinstance(made, Step) else None


def _made(node: ast.expr) -> Any:
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    kind: Any = KNOWN[ast.unparse(node.func)]
    return kind(*map(_made, node.args), **{str(each.arg): _made(each.value) for each in node.keywords})
