"""Python functions that compiled code calls, by an address that is a number among its arrays.

A callback of ctypes has an address, and machine code may call any address. So a loop stays compiled, is cached on disk,
and runs without Python's lock but for the calls themselves. A callback must never raise: it keeps the error, says so,
and the function that started the loop raises it afterwards.

A signal is handled by the next Python code that the main thread runs. If that is the first instruction of a callback,
Ctrl-C is lost there. So loops with callbacks run in other threads: `run_all(…, apart=True)`.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from siag.foundations.dispatch import INLINED, Part
from siag.foundations.memory import arrays_within
from siag.foundations.parallel import Cancelled
from siag.foundations.types import Floats, Record

Function: TypeAlias = Callable[[int, int, int, int, Floats, Floats], bool]
"""function(what, i, a, b, w, out): write to `out` what worker i makes of w and of the random words a and b.

It returns whether all of it is finite.
"""

FINE, RAISED, INFINITE = range(3)  # what a call returns

WORD, UNSIGNED = ctypes.c_int64, ctypes.c_uint64
PROTOTYPE = ctypes.CFUNCTYPE(WORD, WORD, WORD, UNSIGNED, UNSIGNED, WORD, WORD)
MANY = 1 << 14  # views that are kept; there are as many as there are rows that are read or written

_callbacks: dict[int, Callback] = {}


class Callback:
    """A Python function at an address.

    Args:
        function: it sees w as a read-only array.
        d: how many numbers w and `out` have.
        token: an array beside the address; once it is gone, nobody will call.

    Attributes:
        address: for machine code.
        error: what the function has raised.
    """

    def __init__(self, function: Function, d: int, token: np.ndarray[Any, Any]) -> None:
        self.function, self._d = function, d
        self.error: BaseException | None = None
        self._stopped: Callable[[], bool] = lambda: False
        self._lent: list[tuple[int, Floats]] = []
        self._read: dict[int, Floats] = {}
        self._written: dict[int, Floats] = {}
        self._numbers = ctypes.c_double * d
        self._thunk = PROTOTYPE(self._enter)
        self.address = ctypes.cast(self._thunk, ctypes.c_void_p).value or 0
        _callbacks[self.address] = self
        weakref.finalize(token, _callbacks.pop, self.address)

    def prepare(self, records: Iterable[Record], stopped: Callable[[], bool]) -> None:
        """Get ready for a loop.

        Args:
            records: whose arrays the function may be shown as they are; what else it is shown is a copy.
            stopped: says whether the loop is to end: calls fail from then on.
        """
        whole = (array for array in arrays_within(records) if array.dtype == np.float64 and array.flags.c_contiguous)
        self._lent = [(array.ctypes.data, array) for array in whole]
        self._stopped = stopped

    def _enter(self, what: int, i: int, a: int, b: int, w: int, out: int) -> int:
        """What machine code calls; w and out are addresses."""
        try:
            if self._stopped():
                raise Cancelled
            shown, room = self._read.get(w), self._written.get(out)
            shown = self._show(w) if shown is None else shown
            finite = self.function(what, i, a, b, shown, self._make_room(out) if room is None else room)
        except BaseException as error:
            self.error = error
            return RAISED
        return FINE if finite else INFINITE

    def _show(self, address: int) -> Floats:
        """A read-only view of w that keeps its array alive, since a user may keep the view; or a copy."""
        for start, array in self._lent:
            if start <= address and address + 8 * self._d <= start + array.nbytes:
                view: Floats = np.ndarray(self._d, np.float64, array, address - start)
                _keep(self._read, address, view)
                break
        else:
            view = self._at(address).copy()
        view.setflags(write=False)
        return view

    def _make_room(self, address: int) -> Floats:
        """The array to write to; nobody keeps it."""
        return _keep(self._written, address, self._at(address))

    def _at(self, address: int) -> Floats:
        return np.asarray(self._numbers.from_address(address))


def _keep(views: dict[int, Floats], address: int, view: Floats) -> Floats:
    if len(views) >= MANY:
        views.clear()
    views[address] = view
    return view


def callback_of(oracle: Record) -> Callback | None:
    """The callback whose address is in an oracle, if there is one."""
    return _callbacks.get(getattr(oracle, "address", 0))


def _lowered(typing: Any, address: Any, what: Any, i: Any, a: Any, b: Any, w: Any, out: Any) -> Any:
    """The machine code of `call`: numbers as they are, and where the arrays begin."""
    from llvmlite import ir
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        arrays = zip(signature.args[5:], args[5:], strict=True)
        begin = [builder.ptrtoint(context.make_array(kind)(context, builder, it).data, word) for kind, it in arrays]
        function = builder.inttoptr(args[0], ir.FunctionType(word, [word] * 6).as_pointer())
        return builder.call(function, [*args[1:5], *begin])

    numbers = (types.int64, types.int64, types.int64, types.uint64, types.uint64)
    return types.int64(*numbers, w, out), generate


class Call(Part[..., int]):
    """A function that is a call of an address in machine code."""

    lowered = staticmethod(_lowered)

    def _register(self) -> None:
        from numba.extending import intrinsic, overload

        enter = intrinsic(_lowered)

        def resolve(address: Any, what: Any, i: Any, a: Any, b: Any, w: Any, out: Any) -> Any:
            def through(address: Any, what: Any, i: Any, a: Any, b: Any, w: Any, out: Any) -> Any:
                return enter(address, what, i, a, b, w, out)

            return through

        overload(self, strict=False, jit_options=INLINED)(resolve)


@Call
def call(address: int, what: int, i: int, a: int, b: int, w: Floats, out: Floats) -> int:
    """Call the function at an address; say how that went. As plain Python it raises what the function does."""
    shown = w.view()
    shown.setflags(write=False)
    return FINE if _callbacks[address].function(what, i, int(a), int(b), shown, out) else INFINITE
