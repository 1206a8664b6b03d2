"""A class or function called with the keys of a table, once they are known to fit; mistakes become one clear line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from siag.experiments.references import reference
from siag.foundations.errors import BadInput, Missing, SiagError, guess

WORDS = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}


def maker(place: str, kind: object, known: Mapping[str, Callable[..., Any]], folder: Path) -> Callable[..., Any]:
    """The class, or function, that a kind names: a known one, or the user's own as "module:name"."""
    if isinstance(kind, str) and kind in known:
        return known[kind]
    allowed = "".join(f"{name}, " for name in known) + 'or one of yours as "module:name"'
    if not isinstance(kind, str) or ":" not in kind:
        raise BadInput(place, kind, f"one of {allowed}", guess(kind, tuple(known)))
    found = reference(place, kind, folder)
    if not callable(found):
        raise BadInput(place, kind, "a class or function", f"{kind.partition(':')[2]} cannot be called")
    return found  # type: ignore[no-any-return]  # what the user's module holds is known only when it runs


def make_part(place: str, kind: object, make: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a class or function with the keys of its table, once they are known to fit."""
    signature = signature_of(place, kind, make)
    parameters = {name: each for name, each in signature.parameters.items() if name != "self"}
    needed = [name for name, each in parameters.items() if each.default is inspect.Parameter.empty]
    check_names(place, arguments, tuple(parameters), needed=tuple(needed))
    _types(place, arguments, {name: each.annotation for name, each in parameters.items()})
    try:
        return make(**arguments)
    except BadInput as error:
        raise error.inside(place) from None
    except SiagError:
        raise
    except Exception as error:
        raise BadInput(place, arguments, f"what {kind} takes", f"it raised {error!r}") from error


def signature_of(role: str, kind: object, make: Callable[..., Any]) -> inspect.Signature:
    """The arguments of a class or function, with their types where those can be found."""
    try:
        return inspect.signature(make, eval_str=True)
    except (NameError, TypeError, ValueError):
        pass
    try:
        return inspect.signature(make)
    except (ValueError, TypeError):
        raise BadInput(f"{role}.kind", kind, "a class or function whose arguments Python can tell") from None


def check_names(place: str, table: Mapping[str, Any], allowed: tuple[str, ...], needed: tuple[str, ...]) -> None:
    """Refuse unknown keys, with a guess at what was meant, and missing ones."""
    prefix = "" if place == "file" else f"{place}."
    for name, value in table.items():
        if name not in allowed:
            raise BadInput(prefix + name, value, "one of " + (", ".join(allowed) or "no keys"), guess(name, allowed))
    for name in needed:
        if name not in table:
            remedy = f"add the table [{name}]" if place == "file" else f"add {name} = … to [{place}]"
            raise Missing(prefix + name, remedy)


def _types(place: str, table: Mapping[str, Any], annotations: Mapping[str, Any]) -> None:
    """Refuse values of a wrong TOML type early, in TOML's words; ranges are the constructors' own affair."""
    for name, value in table.items():
        wanted = annotations[name]
        if wanted not in WORDS:
            continue
        fits = isinstance(value, (int, float) if wanted is float else wanted)
        if not fits or (isinstance(value, bool) and wanted is not bool):
            raise BadInput(f"{place}.{name}", value, WORDS[wanted])
