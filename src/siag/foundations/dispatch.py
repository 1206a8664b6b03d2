"""One definition, two lives: functions that run compiled in the engine's loop and, unchanged, as plain Python.

A *verb* is a function whose meaning depends on the type of its first argument, a `NamedTuple`:
`@receive.when(Table)`. A *compiled* function is an ordinary function in the subset of Python that Numba compiles:
called from Python it runs as machine code, `.plain` is the function itself. Compiled functions may call
verbs and each other, and are specialised and cached for the types they meet. Given an *interpreted* `NamedTuple`,
which holds what machine code cannot bear, such as a user's function, they run as plain Python.

Numba's own cache looks only at the file of the outermost function and would run stale code after an edit
elsewhere. Here the name under which machine code is cached holds a fingerprint of all code it was made from
(`siag.foundations.fingerprint`), a user's own included, so an edit is a different name.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

from siag.foundations.errors import SiagError
from siag.foundations.fingerprint import fingerprint

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K", bound=type)

INLINED = {"forceinline": True}  # a call with a dozen arrays costs as much as the work on twenty numbers

_lock = threading.RLock()
_unregistered: list[Verb[Any, Any] | Compiled[Any, Any]] = []
_verbs: list[Verb[Any, Any]] = []
_interpreted: set[type] = set()


class Verb(Generic[P, R]):
    """A function whose meaning is chosen by the type of its first argument."""

    def __init__(self, example: Callable[P, R], *, optional: bool = False) -> None:
        functools.update_wrapper(self, example)
        self.__name__: str = example.__name__
        self.otherwise = example if optional else None
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
        if kind not in self.meanings and self.otherwise is not None:
            return self.otherwise
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
            return self.meanings.get(kind, self.otherwise)

        overload(self, strict=False, jit_options=INLINED)(resolve)


class Compiled(Generic[P, R]):
    """A function that runs as machine code; `plain` is the same function as Python."""

    def __init__(self, plain: Callable[P, R], *, inlined: bool = True) -> None:
        functools.update_wrapper(self, plain)
        self.plain, self.inlined = plain, inlined
        self._for: dict[tuple[Any, ...], Any] = {}
        _unregistered.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run as machine code, made first if it is not there yet."""
        structure = _structure(args)
        made = self._for.get(structure)
        if made is None:
            with _lock:
                made = self._for.get(structure) or self._specialise(structure, args)
        try:
            return cast(R, made(*args, **kwargs))
        except _compile_error() as error:  # raised before any of it has run
            self._instead(structure, args, made, error)
        return self(*args, **kwargs)

    def settled(self, *args: P.args, **kwargs: P.kwargs) -> Callable[P, R]:
        """The machine code for arguments like these, once it has run: a call of it takes half the time.

        Only for arguments of the very same types from then on.
        """
        return cast(Callable[P, R], self._for.get(_structure(args), self))

    def _specialise(self, structure: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        """Machine code for arguments of this structure; Numba makes it at the first call, or finds it in its cache."""
        source: Any = self.plain
        kinds = _kinds_within(args)
        if kinds & _interpreted:
            self._for[structure] = source
            return source
        _register_all()
        for known in _verbs:  # machine code from the cache asks no verb for its meaning
            known._settled |= kinds if known.otherwise is not None else kinds & known.meanings.keys()
        parts = sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__))
        given = source.__globals__, source.__name__, source.__defaults__, source.__closure__
        twin = types.FunctionType(source.__code__, *given)
        twin.__module__ = source.__module__
        twin.__qualname__ = f"{source.__qualname__}_{fingerprint(source, parts, repr(INLINED))}"
        made = _lean(twin, _lasting(kinds))
        self._for[structure] = made
        return made

    def _instead(self, structure: tuple[Any, ...], args: tuple[Any, ...], made: Any, error: Exception) -> None:
        """Turn from lean to ordinary code; if that was it already, say what cannot be compiled."""
        kinds = _kinds_within(args)
        if made.targetoptions.get("_nrt", True):
            name, given = getattr(self.plain, "__name__", "it"), ", ".join(sorted(kind.__name__ for kind in kinds))
            raise SiagError(
                f"{name} could not be compiled for {given}: {_essence(error)}; "
                "write it in the subset of Python that Numba compiles, or use compiled=False"
            ) from error
        with _lock:
            self._for[structure] = _ordinary(made.py_func, _lasting(kinds))

    def _register(self) -> None:
        from numba.extending import overload

        plain = self.plain
        overload(self, strict=False, jit_options=INLINED if self.inlined else {})(lambda *_: plain)


class Part(Compiled[P, R]):
    """A function that is compiled where compiled code calls it, and plain Python where that does."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run as plain Python."""
        return self.plain(*args, **kwargs)


def _lasting(kinds: set[type]) -> bool:
    """Whether to keep machine code on disk: a class of a script has no name by which another process could find it."""
    return all(kind.__module__ != "__main__" for kind in kinds)


def _ordinary(function: Any, lasting: bool) -> Any:
    """Numba's usual machine code, made when it is first called."""
    import numba

    function.__qualname__ = function.__qualname__.removesuffix("_lean")
    return numba.njit(cache=lasting, nogil=True)(function)


def _lean(function: Any, lasting: bool) -> Any:
    """Machine code without reference counts, for functions that allocate no arrays; `_ordinary` serves the others.

    Numba counts references to every array it takes out of a tuple, with atomic instructions; that made half of the cost
    of a gradient. The caller holds all arrays meanwhile, so code that allocates nothing can do without. If ordinary
    code is in the cache already, an earlier process has found that it is needed.
    """
    import numba

    usual = _ordinary(function, lasting)
    name = function.__qualname__.rpartition(".")[2]
    if lasting and any(Path(usual.stats.cache_path).glob(f"*{name}-*.nbi")):
        return usual
    function.__qualname__ += "_lean"  # Numba's cache does not look at options
    try:
        return numba.njit(cache=lasting, nogil=True, _nrt=False)(function)
    except KeyError:  # a Numba that does not know the option
        return _ordinary(function, lasting)


def _compile_error() -> type[Exception]:
    from numba.core.errors import NumbaError

    return cast(type[Exception], NumbaError)


def _essence(error: Exception) -> str:
    """The line of one of Numba's long messages that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("No implementation", "Unknown attribute", "Untyped"))]
    return (telling or lines or ["no reason given"])[0].rstrip(":.")


def verb(example: Callable[P, R]) -> Verb[P, R]:
    """Make a verb; the example's signature and docstring say what its meanings must do."""
    return Verb(example)


def optional_verb(example: Callable[P, R]) -> Verb[P, R]:
    """Make a verb that does what the example does wherever it has no meaning of its own."""
    return Verb(example, optional=True)


def compiled(plain: Callable[P, R]) -> Compiled[P, R]:
    """Make a function compiled; where compiled code calls it, it is inlined."""
    return Compiled(plain)


def part(plain: Callable[P, R]) -> Part[P, R]:
    """Make a function a part of others: compiled code has it inlined, plain Python runs it as such."""
    return Part(plain)


def rarely(plain: Callable[P, R]) -> Compiled[P, R]:
    """Make a function compiled that is seldom needed, and so is better kept out of line."""
    return Compiled(plain, inlined=False)


def interpreted(kind: K) -> K:
    """Have compiled functions run as plain Python where they meet this `NamedTuple` class."""
    _interpreted.add(kind)
    return kind


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
