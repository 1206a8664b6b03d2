"""One definition, two lives: functions that run compiled in the engine's loop and, unchanged, as plain Python.

A *verb* is a function whose meaning depends on the type of its first argument, a `NamedTuple`:
`@receive.when(Table)`. A *compiled* function is an ordinary function in the subset of Python that Numba compiles:
called from Python it runs as machine code, `.plain` is the function itself. Compiled functions may call
verbs and each other, and are specialised and cached for the types they meet.

Numba's own cache looks only at the file of the outermost function and would run stale code after an edit
elsewhere. Here the name under which machine code is cached holds a fingerprint of all code it was made from
(`siag.foundations.fingerprint`), a user's own included, so an edit is a different name.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from siag.foundations.errors import SiagError
from siag.foundations.fingerprint import fingerprint

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.RLock()
_unregistered: list[Verb[Any, Any] | Compiled[Any, Any]] = []
_verbs: list[Verb[Any, Any]] = []


class Verb(Generic[P, R]):
    """A function whose meaning is chosen by the type of its first argument."""

    def __init__(self, example: Callable[P, R]) -> None:
        functools.update_wrapper(self, example)
        self.__name__: str = example.__name__
        self.meanings: dict[type, Callable[..., R]] = {}
        self._settled: set[type] = set()
        _verbs.append(self)
        _unregistered.append(self)

    def when(self, kind: type) -> Callable[[F], F]:
        """Give the verb a meaning for `kind`, a `NamedTuple` class."""

        def learn(function: F) -> F:
            if kind in self._settled:
                raise SiagError(
                    f"{self.__name__} has been compiled for {kind.__name__} already; "
                    f"define the class {kind.__name__} anew, then its meanings"
                )
            self.meanings[kind] = function
            return function

        return learn

    def knows(self, kind: type) -> bool:
        """Whether the verb has a meaning for `kind`."""
        return kind in self.meanings

    def meaning(self, kind: type) -> Callable[..., R]:
        """The function that `kind` gives it."""
        if kind not in self.meanings:
            raise SiagError(
                f"{self.__name__} has no meaning for {kind.__name__}; write one: @{self.__name__}.when({kind.__name__})"
            )
        return self.meanings[kind]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what it means for the first argument's type."""
        return self.meaning(type(args[0]))(*args, **kwargs)

    def _register(self) -> None:
        from numba.extending import overload

        def resolve(subject: Any, *_: Any) -> Callable[..., R] | None:
            kind = getattr(subject, "instance_class", None)  # what Numba's types of NamedTuples have
            if kind is None:
                return None
            self._settled.add(kind)
            return self.meanings.get(kind)

        overload(self, strict=False)(resolve)


class Compiled(Generic[P, R]):
    """A function that runs as machine code; `plain` is the same function as Python."""

    def __init__(self, plain: Callable[P, R]) -> None:
        functools.update_wrapper(self, plain)
        self.plain = plain
        self._for: dict[tuple[type, ...], Callable[..., R]] = {}
        _unregistered.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run as machine code, made first if it is not there yet."""
        kinds = _structure(args)
        made = self._for.get(kinds)
        if made is None:
            with _lock:
                made = self._for.get(kinds) or self._specialise(kinds, self._bound(args, kwargs))
        return made(*args, **kwargs)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults included."""
        call = inspect.signature(self.plain).bind(*args, **kwargs)
        call.apply_defaults()
        return call.args

    def _specialise(self, kinds: tuple[type, ...], args: tuple[Any, ...]) -> Callable[..., R]:
        _register_all()
        source: Any = self.plain
        for known in _verbs:  # machine code from the cache asks no verb for its meaning
            known._settled |= _kinds_within(args) & known.meanings.keys()
        parts = sorted(_kinds_within(args), key=lambda kind: (kind.__module__, kind.__qualname__))
        twin = types.FunctionType(source.__code__, source.__globals__, source.__name__, source.__defaults__)
        twin.__module__ = source.__module__
        twin.__qualname__ = f"{source.__qualname__}_{fingerprint(source, parts)}"
        # A class of a script has no name by which another process could find it: its code is not worth keeping.
        lasting = all(kind.__module__ != "__main__" for kind in parts) and inspect.getsourcefile(source) is not None
        made = _compile(twin, args, lasting)
        self._for[kinds] = made
        return made

    def _register(self) -> None:
        from numba.extending import overload

        plain = self.plain
        overload(self, strict=False)(lambda *_: plain)


def _compile(function: Callable[..., R], args: tuple[Any, ...], lasting: bool) -> Callable[..., R]:
    """Machine code for these arguments, without reference counts unless the function allocates arrays.

    Numba counts references to every array it takes out of a tuple, with atomic instructions; that made half of the cost
    of a gradient. The caller holds all arrays meanwhile, so code that allocates nothing can do without.
    """
    import numba
    from numba.core.errors import NumbaError

    name = function.__qualname__
    try:
        function.__qualname__ = f"{name}_lean"  # Numba's cache does not look at options
        lean: Any = numba.njit(cache=lasting, nogil=True, _nrt=False)(function)
        lean.compile(tuple(numba.typeof(arg) for arg in args))
    except (NumbaError, KeyError):  # it allocates, or this Numba does not know the option
        function.__qualname__ = name
        return numba.njit(cache=lasting, nogil=True)(function)  # type: ignore[no-any-return]  # Numba has no types
    return lean  # type: ignore[no-any-return]  # Numba has no types


def verb(example: Callable[P, R]) -> Verb[P, R]:
    """Make a verb; the example's signature and docstring say what its meanings must do."""
    return Verb(example)


def compiled(plain: Callable[P, R]) -> Compiled[P, R]:
    """Make a function compiled."""
    return Compiled(plain)


def _register_all() -> None:
    """Tell Numba about what was defined since; put off until code is compiled because importing it takes long."""
    while _unregistered:
        _unregistered.pop()._register()


def _structure(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The classes of the tuples among the values, each with those within it."""
    return tuple((type(value), *_structure(value)) for value in values if isinstance(value, tuple))


def _kinds_within(values: tuple[Any, ...]) -> set[type]:
    """The `NamedTuple` classes among the values and, nested, within them."""
    found: set[type] = set()
    for value in values:
        if isinstance(value, tuple):
            found |= _kinds_within(tuple(value))
            if hasattr(value, "_fields"):
                found.add(type(value))
    return found
