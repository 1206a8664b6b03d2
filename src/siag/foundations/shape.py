"""What tuples are made of: the classes by which verbs choose and machine code is told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Shape(NamedTuple):
    """What a tuple is made of, as far as verbs look: the same for a value and for its type in compiled code."""

    kind: type | None  # the `NamedTuple` class; `None` for a plain tuple
    parts: tuple[tuple[str, Shape], ...]  # the tuples within, each with how to reach it: `.table`, or `[0]`

    @classmethod
    def of(cls, kind: type | None, items: Iterable[Any], nested: type, shape: Callable[[Any], Shape]) -> Shape:
        """The shape of a tuple of these items, those of class `nested` being tuples themselves."""
        names: tuple[str, ...] = getattr(kind, "_fields", ())
        found = [
            (f".{names[k]}" if names else f"[{k}]", shape(item))
            for k, item in enumerate(items)
            if isinstance(item, nested)
        ]
        return cls(kind, tuple(found))


def shape_of(value: object) -> Shape:
    """The shape of a value; what is no tuple has no parts."""
    if not isinstance(value, tuple):
        return Shape(type(value), ())
    return Shape.of(type(value) if hasattr(value, "_fields") else None, value, tuple, shape_of)


def structure_of(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The classes of the tuples among the values, each with those within it."""
    return tuple((type(value), *structure_of(value)) for value in values if isinstance(value, tuple))


def kinds_within(values: tuple[Any, ...]) -> set[type]:
    """The `NamedTuple` classes among the values and, nested, within them."""
    found: set[type] = set()
    for value in values:
        if isinstance(value, tuple):
            found |= kinds_within(tuple(value))
            if hasattr(value, "_fields"):
                found.add(type(value))
    return found
