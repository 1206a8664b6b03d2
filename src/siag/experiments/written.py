"""A part from a text as Python writes it, "Prox(SIAG(wait=1.0), l1=0.1)": names and literals; nothing else is run."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from siag.experiments.making import make_part, maker, signature_of
from siag.foundations.errors import BadInput, Missing, guess

OWN = re.compile(r"""(?P<text>"[^"]*"|'[^']*')|(?P<own>(?<![\w.])[A-Za-z_./][\w./-]*:[A-Za-z_][\w.]*)""")


class Call(NamedTuple):
    """A name and arguments, as written; the arguments are literals, and calls of their own."""

    kind: str
    make: Callable[..., Any]
    positional: list[Any]
    named: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.kind}(…)"


Makers = dict[str, tuple[str, Callable[..., Any]]]


def made(role: str, text: str, makers: Makers, folder: Path | None = None) -> Any:
    """What a text says is called with what.

    Args:
        role: what is made, for messages.
        text: a call of a name, with arguments that are literals or calls of names.
        makers: the known names; of each how it is shown, and what is called.
        folder: if it is given, names may also be the user's own as "module:name", the modules being looked for there
            too, and a name alone is called without arguments. A text that nobody here has typed has none.
    """
    if folder is None:
        return _called(role, _parsed(role, text, text, makers, tuple(makers)))
    own: Makers = {}

    def name_of(match: re.Match[str]) -> str:
        if match["own"] is None:
            return match[0]
        name = f"own_{len(own)}"
        own[name] = match["own"], maker(role, match["own"], {}, folder)
        return name

    code, known = OWN.sub(name_of, text).strip(), {**makers, **own}
    allowed = () if code.startswith("own_0") else tuple(makers)
    return _called(role, _parsed(role, text, f"{code}()" if code in known else code, known, allowed))


def _parsed(role: str, text: str, code: str, makers: Makers, names: tuple[str, ...]) -> Call:
    """What is written, of which nothing has been called yet."""
    try:
        return _call(ast.parse(code, mode="eval").body, makers)
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError):
        allowed = f"one of {', '.join(names)}" if names else '"module:name"'
        first = text.partition("(")[0].strip()
        remedy = "" if first in names else guess(first, names)
        raise BadInput(role, text, f"{allowed}, with arguments as in Python", remedy) from None


def _call(node: ast.expr, makers: Makers) -> Call:
    """A call of a known name; whatever else it is, is refused."""
    if not isinstance(node, ast.Call):
        raise ValueError
    kind, make = makers[ast.unparse(node.func)]
    named = {each.arg: _argument(each.value, makers) for each in node.keywords if each.arg is not None}
    if len(named) < len(node.keywords):  # one of them twice, or **
        raise ValueError
    return Call(kind, make, [_argument(each, makers) for each in node.args], named)


def _argument(node: ast.expr, makers: Makers) -> Any:
    """A call of a known name, or a literal."""
    return _call(node, makers) if isinstance(node, ast.Call) else ast.literal_eval(node)


def _called(role: str, call: Call) -> Any:
    """What a call makes, its arguments first."""
    arguments = {
        name: _called(role, value) if isinstance(value, Call) else value for name, value in _by_name(role, call).items()
    }
    try:
        return make_part(role, call.kind, call.make, arguments)
    except Missing as error:
        parameters = signature_of(role, call.kind, call.make).parameters.values()
        needed = [each.name for each in parameters if each.default is each.empty and each.name not in arguments]
        raise Missing(error.parameter, f"write {call.kind}({', '.join(f'{name}=…' for name in needed)})") from None


def _by_name(role: str, call: Call) -> dict[str, Any]:
    """The arguments of a call, those without a name under the names that Python gives them."""
    parameters = signature_of(role, call.kind, call.make).parameters
    free = [name for name, each in parameters.items() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    for value in call.positional[len(free) :]:
        raise BadInput(role, value, f"an argument with its name, one of {', '.join(parameters) or 'none'}")
    for name in free[: len(call.positional)]:
        if name in call.named:
            raise BadInput(f"{role}.{name}", call.named[name], f"given once to {call.kind}")
    return {**dict(zip(free, call.positional, strict=False)), **call.named}
