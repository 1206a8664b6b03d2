"""A fingerprint of a function and of everything it may run: its own code, what it calls, constants it reads."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

LENGTH = 16
CONSTANTS = (np.ndarray, np.generic, int, float, complex, str, bytes, tuple, type(None))


def fingerprint(function: types.FunctionType, kinds: Iterable[type], options: str = "") -> str:
    """A short name of all code that `function` runs when its verbs meet values of `kinds`, compiled with `options`.

    It follows the globals each function names: functions, compiled functions, verbs (in their meanings for `kinds`),
    modules' attributes, numbers and arrays. Byte code is hashed, not files, so that a comment costs nothing and a
    function typed into a notebook counts as much as one in a file.
    """
    digest = hashlib.sha256(options.encode())
    kinds = tuple(kinds)
    for kind in kinds:
        digest.update(f"{kind.__module__}.{kind.__qualname__}{getattr(kind, '_fields', ())}".encode())
    seen: dict[int, int] = {}
    queue: list[Any] = [function]
    while queue:
        item = queue.pop()
        if isinstance(item, CONSTANTS):
            digest.update(_constant(item))
            continue
        if id(item) in seen:
            digest.update(f"as item {seen[id(item)]};".encode())
            continue
        seen[id(item)] = len(seen)
        if isinstance(item, types.FunctionType):
            digest.update(_bytes(item.__code__))
            digest.update(_constant((item.__defaults__, tuple(sorted((item.__kwdefaults__ or {}).items())))))
            queue.extend(_named(item))
        elif (plain := _inner(item)) is not None:
            queue.extend((plain, item.lowered) if hasattr(item, "lowered") else (plain,))
        elif isinstance(meanings := getattr(item, "meanings", None), dict):
            known = [k for k, kind in enumerate(kinds) if kind in meanings]
            digest.update(f"for {known};".encode())  # whose it is decides who is asked
            queue.extend(meanings[kinds[k]] for k in known)
            queue.append(getattr(item, "otherwise", None))
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
        yield from _taken(value, names, set())


def _taken(value: Any, names: list[str], seen: set[int]) -> Iterator[Any]:
    """The value itself, or of a module what the names take from it, and from the modules within."""
    if not isinstance(value, types.ModuleType):
        yield value
    elif id(value) not in seen:
        seen.add(id(value))
        for name in names:
            if hasattr(value, name):
                yield from _taken(getattr(value, name), names, seen)


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
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype}{value.shape}".encode() + value.tobytes() + b";"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_constant, value)) + b")"
    return repr(value).encode() + b";"
