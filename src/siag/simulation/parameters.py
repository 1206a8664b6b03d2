"""The parameters of problems, methods, activities and steps, by name: what a sweep is read by."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from siag.foundations.errors import shorten
from siag.problems import Problem

Scalar: TypeAlias = bool | int | float | str
KIND = "kind"  # the name of a part's class, as in a TOML file
WIDE = 40  # characters of a label


def parameters_of(part: object) -> dict[str, Scalar]:
    """The kind of a part and those of its parameters that are numbers or words; of parts within it after a point.

    A problem has n and d, and what it was drawn from.

    >>> from siag.activity import Clock, Exponential
    >>> found = parameters_of(Clock(compute=Exponential(2.0), slowness=[1, 2]))
    >>> found["compute.mean"], found["server.kind"], "slowness" in found
    (2.0, 'EveryArrivals', False)
    """
    found: dict[str, Scalar] = {KIND: type(part).__name__}
    if isinstance(part, Problem):
        found |= {"n": part.n, "d": part.d, **_drawn(repr(part))}
    for name, value in _values(part).items():
        if isinstance(value, str | Real):
            found[name] = value.item() if isinstance(value, np.generic) else value  # type: ignore[assignment]
        elif is_dataclass(value):
            found |= {f"{name}.{inner}": each for inner, each in parameters_of(value).items()}
    return found


def _values(part: object) -> dict[str, Any]:
    """What a part was made with; of a class of the user's that is no dataclass, its public attributes."""
    if is_dataclass(part):
        return {field.name: getattr(part, field.name) for field in fields(part) if field.init}
    return {name: value for name, value in getattr(part, "__dict__", {}).items() if not name.startswith("_")}


def _drawn(text: str) -> dict[str, Scalar]:
    """What a random problem was drawn from, which is only in how it prints: `Ridge.random(…, spread=0.5, seed=1)`."""
    try:
        call = ast.parse(text, mode="eval").body
        named = call.keywords if isinstance(call, ast.Call) else []
        found = {each.arg: ast.literal_eval(each.value) for each in named if each.arg is not None}
    except (SyntaxError, ValueError):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str | int | float)}


def columns_of(rows: Sequence[Mapping[str, Scalar]]) -> dict[str, list[Any]]:
    """Parameters as columns: numbers, NaN where a row has none; or words, empty where a row has none."""
    parts = list(dict.fromkeys(name.partition(".")[0] for row in rows for name in row))
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, list[Any]] = {}
    for name in sorted(names, key=lambda name: parts.index(name.partition(".")[0])):
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            columns[name] = ["" if value is None else str(value) for value in values]
        else:
            columns[name] = [float("nan") if value is None else value for value in values]
    return columns


def labels_of(parts: Iterable[object]) -> list[str]:
    """A short name for each of several parts: its kind, and in what it differs from others of that kind.

    >>> from siag.methods import SGD, SIAG
    >>> labels_of([SIAG(), SIAG(average=4), SGD()])
    ['SIAG average=1', 'SIAG average=4', 'SGD']
    """
    rows = [parameters_of(part) for part in parts]
    apart: dict[str, list[str]] = {}  # of each kind, in which parameters its parts differ
    for kind in dict.fromkeys(str(row[KIND]) for row in rows):
        like = [row for row in rows if row[KIND] == kind]
        names = dict.fromkeys(name for row in like for name in row)
        apart[kind] = [name for name in names if any(row.get(name) != like[0].get(name) for row in like)]
    labels = []
    for row in rows:
        kind = str(row[KIND])
        own = [f"{name}={shown(row[name])}" for name in row if name in apart[kind]]
        labels.append(_cut(" ".join([*([kind] if len(apart) > 1 or not own else []), *own])))
    often = Counter(labels)
    return [label if often[label] == 1 else f"{label} #{k}" for k, label in enumerate(labels, 1)]


def _cut(text: str) -> str:
    return text if len(text) <= WIDE else text[: WIDE - 1] + "…"


def shown(value: object) -> str:
    """A value as it is read in a figure."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else shorten(value)
