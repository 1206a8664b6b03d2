"""A fingerprint of a function and of everything it may run: its own code, what it calls, constants it reads."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

LENGTH = 16


def fingerprint(function: types.FunctionType, kinds: Iterable[type]) -> str:
    """A short name of all code that `function` runs when its verbs meet values of `kinds`.

    It follows the globals each function names: functions, compiled functions, verbs (in their meanings for `kinds`),
    modules' attributes, numbers and arrays. Byte code is hashed, not files, so that a comment costs nothing and a
    function typed into a notebook counts as much as one in a file.
    """
    digest = hashlib.sha256()
    kinds = tuple(kinds)
    for kind in kinds:
        digest.update(f"{kind.__module__}.{kind.__qualname__}{getattr(kind, '_fields', ())}".encode())
    seen: set[int] = set()
    queue: list[Any] = [function]
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, types.FunctionType):
            digest.update(_bytes(item.__code__))
            digest.update(repr((item.__defaults__, item.__kwdefaults__)).encode())
            queue.extend(_named(item))
        elif (plain := _inner(item)) is not None:
            queue.append(plain)
        elif isinstance(meanings := getattr(item, "meanings", None), dict):
            queue.extend(meanings[kind] for kind in kinds if kind in meanings)
        elif isinstance(item, np.ndarray | np.generic):
            digest.update(f"{item.dtype}{item.shape}".encode() + item.tobytes())
        elif isinstance(item, int | float | complex | str | bytes | tuple | None):
            digest.update(repr(item).encode())
    return digest.hexdigest()[:LENGTH]


def _inner(item: Any) -> Any:
    """The function inside one of ours or one of Numba's, or `None`."""
    return getattr(item, "plain", None) or getattr(item, "py_func", None)


def _named(function: types.FunctionType) -> Iterator[Any]:
    """What the global names and the closure of a function stand for; of modules only what is taken from them."""
    for cell in function.__closure__ or ():
        yield cell.cell_contents
    names = sorted(_names(function.__code__))
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    for value in values:
        if isinstance(value, types.ModuleType):
            yield from (getattr(value, name) for name in names if hasattr(value, name))
        else:
            yield value


def _names(code: types.CodeType) -> set[str]:
    """The names a function refers to, its inner functions' included."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _bytes(code: types.CodeType) -> bytes:
    """What a code object does: its instructions, names and constants, but not its line numbers."""
    constants = [_constant(constant) for constant in code.co_consts]
    return b"\0".join([code.co_code, repr((code.co_names, code.co_varnames)).encode(), *constants])


def _constant(value: object) -> bytes:
    if isinstance(value, types.CodeType):
        return _bytes(value)
    if isinstance(value, frozenset):
        return repr(sorted(map(repr, value))).encode()  # a set has no order of its own across processes
    return repr(value).encode()
