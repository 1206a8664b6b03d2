"""How large a run may be: memory, traffic and updates per second for n workers and d parameters, from measured costs.

`python -m benchmarks ray` measures the costs and writes the table of docs/howto/cluster.md.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from siag.foundations.files import write_text
from siag.live.protocol.wire import HEADER

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "cluster.md"
BEGIN, END = "<!-- sizing: written by `python -m benchmarks ray` -->", "<!-- end of sizing -->"
SIZES = [(n, d) for d in (1_000, 100_000, 10_000_000) for n in (10, 100, 1000)]
LINK = 10  # Gbit/s
Costs = Sequence[tuple[int, float]]  # d, seconds of the server's own time for an update


def memory(n: int, d: int) -> int:
    """Bytes of the table of all servers together."""
    return 8 * n * d


def traffic(d: int) -> int:
    """Bytes that travel for an update: the report there, w back."""
    return 2 * (8 * d + HEADER.size)


def cost(costs: Costs, d: int) -> float:
    """Seconds of the server's own for an update: between two measured sizes by interpolation, beyond in proportion."""
    sizes, seconds = zip(*costs, strict=True)
    return float(np.interp(d, sizes, seconds) * max(1.0, d / sizes[-1]))


def rate(costs: Costs, d: int) -> tuple[float, str]:
    """Updates per second to expect of one server, and what limits them."""
    carried = LINK * 1e9 / 8 / (traffic(d) / 2)  # it can send and receive at the same time
    computed = 1 / cost(costs, d)
    return (carried, "network") if carried < computed else (computed, "server")


def in_bytes(number: float) -> str:
    """A number of bytes to read."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5 or unit == "GB":
            return f"{number:.3g} {unit}" if number < 100 else f"{number:,.0f} {unit}"
        number /= 1000
    raise AssertionError


def in_words(number: float) -> str:
    """A rate, to two figures."""
    return f"{number:.2g}" if number < 10 else f"{round(number, 2 - len(str(int(number)))):,.0f}"


def table(costs: Costs) -> str:
    """The table in Markdown, and what it was computed from."""
    lines = []
    for n, d in SIZES:
        expected, limit = rate(costs, d)
        cells = [f"{n:,}", f"{d:,}", in_bytes(memory(n, d)), in_bytes(traffic(d)), in_words(expected), limit]
        lines.append("| " + " | ".join(cells) + " |")
    measured = ", ".join(f"{1e6 * seconds:,.0f} µs at d = {d:,}" for d, seconds in costs)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"""| n | d | memory of the server | bytes an update | updates/s | limited by |
|---:|---:|---:|---:|---:|---|
{chr(10).join(lines)}

Computed from the server's own time for an update: {measured}.
It was measured over TCP with 4 workers on {machine}.
Between these sizes it is interpolated, beyond them in proportion.
The network is assumed to carry {LINK} Gbit/s each way. What workers need for their gradients is not in it:
n workers that take s seconds each make at most n/s updates a second."""


def write(costs: Costs, page: Path = PAGE) -> None:
    """Put the table between its marks on the page."""
    text = page.read_text()
    wanted = f"{BEGIN}\n{table(costs)}\n{END}"
    found, count = re.subn(re.escape(BEGIN) + ".*?" + re.escape(END), lambda match: wanted, text, flags=re.S)
    if count != 1:
        raise SystemExit(f"{page}: {BEGIN} and {END} must be there once")
    write_text(page, found)
