"""Which coordinates a shard has."""

from __future__ import annotations

from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.memory import check_fits, size
from siag.foundations.types import Floats
from siag.methods import Method, shown


def bounds(d: int, shards: int, k: int) -> tuple[int, int]:
    """The first coordinate of shard k, and the first after it; sizes differ by at most one.

    >>> [bounds(10, 3, k) for k in range(3)]
    [(0, 4), (4, 7), (7, 10)]
    """
    base, rest = divmod(d, shards)
    first = k * base + min(k, rest)
    return first, first + base + (1 if k < rest else 0)


def needed_bytes(method: Method, w0: Floats, n: int, width: int) -> int:
    """What a server of so many coordinates holds: the method's arrays, and a report of every worker."""
    return size(method.init(w0[:1], n)) * width + 8 * n * width


def check_slice(method: Method, w0: Floats, n: int, shards: int, k: int) -> int:
    """Refuse a slice that does not fit into this machine's memory; the bytes it takes."""
    first, last = bounds(w0.size, shards, k)
    needed = needed_bytes(method, w0, n, last - first)
    check_fits(needed, f"{method!r} with {n} workers, coordinates {first} to {last - 1}", "use more shards")
    return needed


def check_split(method: Method, w0: Floats, n: int, shards: int) -> None:
    """Refuse more shards than coordinates, and a method that cannot be split."""
    if shards > w0.size:
        raise BadInput("shards", shards, f"at most {w0.size}, the length of w0", "use fewer")
    if not method.split or method.message(1, n) != 1 or shown(method.init(w0[:1], n)).size != 1:
        name = type(method).__name__
        raise Unsuitable(f"{name}'s server cannot be split over {shards} shards; use shards=1, or SIAG")
