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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

from siag.foundations.compile_errors import explain
from siag.foundations.errors import SiagError
from siag.foundations.fingerprint import fingerprint
from siag.foundations.lean_compiling import part_compiler
from siag.foundations.made_once import made_once
from siag.foundations.numba_arrays import import_arrays
from siag.foundations.shape import Shape, kinds_within, shape_of, structure_of

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K", bound=type)

FORWARDER = "def forward({parameters}):\n    return verb({asked})\n"
BARE = {"no_cfunc_wrapper": True}  # no wrapper for callers in C: there are none, and it is a tenth of compiling
INLINED = {"forceinline": True, **BARE}  # a call with a dozen arrays costs as much as the work on twenty numbers

_lock = threading.RLock()
_unregistered: list[Verb[Any, Any] | Compiled[Any, Any]] = []
_verbs: list[Verb[Any, Any]] = []
_interpreted: set[type] = set()
_plainly: set[int] = set()  # the threads in which all is plain Python now


class Verb(Generic[P, R]):
    """A function whose meaning is chosen by the type of its first argument.

    Args:
        example: its signature and docstring say what meanings must do.
        optional: do what the example does where nothing else is said.
        delegated: before that, ask the one field of the first argument that has a meaning, itself or within it.
    """

    def __init__(self, example: Callable[P, R], *, optional: bool = False, delegated: bool = False) -> None:
        functools.update_wrapper(self, example)
        self.__name__: str = example.__name__
        self.otherwise = example if optional else None
        self.delegated = delegated
        self.meanings: dict[type, Callable[..., R]] = {}
        self._settled: set[type] = set()
        self._forwarders: dict[str, Callable[..., R]] = {}
        _verbs.append(self)
        _unregistered.append(self)

    def __repr__(self) -> str:
        """Its name: what Numba's messages call it by."""
        return self.__name__

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
        """Whether `kind` itself was given a meaning."""
        return kind in self.meanings

    def reaches(self, value: object) -> bool:
        """Whether the value's class was given a meaning, or for a delegated verb a field of it."""
        return self.knows(type(value)) or self._choose(shape_of(value)) is not self.otherwise

    def meaning(self, kind: type) -> Callable[..., R]:
        """The function that `kind` itself gives it, or its default."""
        return self._choose(Shape(kind, ()))

    def meaning_for(self, value: object) -> Callable[..., R]:
        """The function that runs for this value: its class's, or one that asks the field it is delegated to."""
        return self._choose(shape_of(value))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Do what it means for the first argument's type."""
        meaning = self.meanings.get(type(args[0])) or self._choose(shape_of(args[0]))
        return meaning(*args, **kwargs)

    def _choose(self, shape: Shape) -> Callable[..., R]:
        """The meaning for a value of this shape: its own, else that of the one field that has one, else the default."""
        if shape.kind in self.meanings:
            return self.meanings[shape.kind]
        fields = self._fields(shape) if self.delegated else []
        name, kind = self.__name__, getattr(shape.kind, "__name__", "a tuple")
        if len(fields) > 1:
            both = " and ".join(field.lstrip(".") for field in fields)
            raise SiagError(f"`{name}` is ambiguous for `{kind}`: {both} could answer; say which: @{name}.when({kind})")
        if fields:
            return self._forwarder(fields[0])
        if self.otherwise is None:
            raise SiagError(f"`{name}` is not defined for `{kind}`; write one: @{name}.when({kind})")
        return self.otherwise

    def _fields(self, shape: Shape) -> list[str]:
        """How to reach the outermost tuples within that have a meaning, as in `.inner.table`."""
        found = []
        for step, part in shape.parts:
            if part.kind in self.meanings:
                found.append(step)
            else:
                found += [step + rest for rest in self._fields(part)]
        return found

    def _forwarder(self, field: str) -> Callable[..., R]:
        """A function that asks the field: in source, because Numba has to see the field's name in it."""
        if field not in self._forwarders:
            code: types.CodeType = cast(Any, self).__wrapped__.__code__
            first, *rest = code.co_varnames[: code.co_argcount]
            source = FORWARDER.format(parameters=", ".join([first, *rest]), asked=", ".join([first + field, *rest]))
            names: dict[str, Any] = {"verb": self}
            exec(source, names)  # made of names that are Python's own already
            self._forwarders[field] = names["forward"]
        return self._forwarders[field]

    def _register(self) -> None:
        from numba.core.types.containers import BaseTuple
        from numba.extending import overload

        def shape(subject: Any) -> Shape:
            return Shape.of(getattr(subject, "instance_class", None), subject.types, BaseTuple, shape)

        def resolve(subject: Any, *_: Any) -> Callable[..., R] | None:
            kind = getattr(subject, "instance_class", None)  # what Numba's types of NamedTuples have
            if kind is None:
                return None
            self._settled.add(kind)
            return self._choose(shape(subject))

        overload(self, strict=False, jit_options=_as_part(INLINED))(resolve)


class Compiled(Generic[P, R]):
    """A function that runs as machine code; `plain` is the same function as Python."""

    def __init__(self, plain: Callable[P, R], *, inlined: bool = True) -> None:
        functools.update_wrapper(self, plain)
        self.plain, self.inlined = plain, inlined
        self._for: dict[tuple[Any, ...], Any] = {}
        _unregistered.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run as machine code, made first if it is not there yet."""
        if _plainly and threading.get_ident() in _plainly:
            return self.plain(*args, **kwargs)
        structure = structure_of(args)
        made = self._for.get(structure)
        if made is None:
            with _lock:
                made = self._for.get(structure) or self._specialise(structure, args)
        try:
            return cast(R, made(*args, **kwargs))
        except _compile_error() as error:  # raised before any of it has run
            self._instead(structure, args, made, error)
        return self(*args, **kwargs)

    def __repr__(self) -> str:
        """Its name: what Numba's messages call it by."""
        return str(getattr(self.plain, "__name__", self.plain))

    def settled(self, *args: P.args, **kwargs: P.kwargs) -> Callable[P, R]:
        """The machine code for arguments like these, once it has run: a call of it takes half the time.

        Only for arguments of the very same types from then on.
        """
        return cast(Callable[P, R], self._for.get(structure_of(args), self))

    def bare(self, *args: P.args, **kwargs: P.kwargs) -> Callable[P, R]:
        """The same without Numba's look at the arguments, which takes ten times as long as a call.

        Only for arguments of the very same types and layouts from then on: nothing checks them.
        """
        made: Any = self.settled(*args, **kwargs)
        overloads = getattr(made, "overloads", {})
        known = overloads.get(tuple(map(made.typeof_pyval, args))) if overloads else None
        return cast(Callable[P, R], made if known is None else known.entry_point)

    def _specialise(self, structure: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        """Machine code for arguments of this structure; Numba makes it at the first call, or finds it in its cache."""
        source: Any = self.plain
        kinds = kinds_within(args)
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
        twin.__qualname__ = f"{source.__qualname__}_{fingerprint(source, parts, repr((INLINED, FORWARDER)))}"
        made = _lean(twin, _lasting(kinds))
        self._for[structure] = made
        return made

    def _instead(self, structure: tuple[Any, ...], args: tuple[Any, ...], made: Any, error: Exception) -> None:
        """Turn from lean to ordinary code; if that was it already, say what cannot be compiled."""
        kinds = kinds_within(args)
        if made.targetoptions.get("_nrt", True):
            raise SiagError(explain(error, meanings_for(kinds), repr(self))) from error
        with _lock:
            self._for[structure] = _ordinary(made.py_func, _lasting(kinds))

    def _register(self) -> None:
        from numba.extending import overload

        plain = self.plain
        overload(self, strict=False, jit_options=_as_part(INLINED if self.inlined else BARE))(lambda *_: plain)


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
    made = numba.njit(cache=lasting, nogil=True, **BARE)(function)
    return made_once(made) if lasting else made


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
        made = numba.njit(cache=lasting, nogil=True, _nrt=False, **BARE)(function)
    except KeyError:  # a Numba that does not know the option
        return _ordinary(function, lasting)
    return made_once(made) if lasting else made


def _as_part(options: dict[str, Any]) -> dict[str, Any]:
    """Options for what is compiled where compiled code calls it."""
    return {**options, "no_cpython_wrapper": True, "pipeline_class": part_compiler()}


def _compile_error() -> type[Exception]:
    from numba.core.errors import NumbaError

    return cast(type[Exception], NumbaError)


def verb(example: Callable[P, R]) -> Verb[P, R]:
    """Make a verb; the example's signature and docstring say what its meanings must do."""
    return Verb(example)


def optional_verb(example: Callable[P, R]) -> Verb[P, R]:
    """Make a verb that does what the example does wherever it has no meaning of its own."""
    return Verb(example, optional=True)


def delegated_verb(example: Callable[P, R]) -> Verb[P, R]:
    """Make an optional verb that a `NamedTuple` without a meaning of its own passes on to the field that has one.

    If several fields have one, it is an error that asks for a meaning. Only if none has, the example's code runs.
    """
    return Verb(example, optional=True, delegated=True)


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


@contextmanager
def plainly() -> Iterator[None]:
    """Meanwhile run all compiled functions, in this thread, as plain Python, which checks every index."""
    _plainly.add(threading.get_ident())
    try:
        yield
    finally:
        _plainly.discard(threading.get_ident())


def meanings_for(kinds: set[type]) -> list[tuple[str, Callable[..., Any]]]:
    """The functions that these classes give to verbs, each with what to call it: "`receive` for `Ball`"."""
    return [
        (f"`{known.__name__}` for `{kind.__name__}`", meaning)
        for known in _verbs
        for kind, meaning in known.meanings.items()
        if kind in kinds
    ]


def is_own(thing: object) -> bool:
    """Whether a class or function is the package's own."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]


def is_foreign(*values: object) -> bool:
    """Whether a `NamedTuple` class among the values, or within them, is not the package's own."""
    return not all(map(is_own, kinds_within(values)))


def is_interpreted(*values: object) -> bool:
    """Whether compiled functions run as plain Python where they meet these values."""
    return bool(kinds_within(values) & _interpreted)


def _register_all() -> None:
    """Tell Numba about what was defined since; put off until code is compiled because importing it takes long."""
    import_arrays()
    while _unregistered:
        _unregistered.pop()._register()
