"""Short messages: updates per second over TCP of a model of a million numbers, by how numbers travel."""

from __future__ import annotations

import statistics

from benchmarks.live import LARGE, MANY, our_side
from benchmarks.rounds import ratio, ratios, rounds, undecided
from benchmarks.targets import Target, table

ROUNDS, SECONDS = 9, 3.0
WAYS = {"float64": "tcp", "float32": "tcp-short", "int8": "tcp-int8"}
ASKED = {"float32": 1.8, "int8": 2.0}  # times the updates of doubles
BYTES = {"float64": (8, 8), "float32": (4, 4), "int8": (1, 4)}  # of a number of a gradient, and of w


def measured() -> dict[str, list[float]]:
    """Updates per second, round by round, all ways taking turns; what they compute is checked."""
    sides = {name: our_side(f"siag, TCP, {name}", job) for name, job in WAYS.items()}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    try:
        for side in sides.values():
            side(LARGE, MANY, 0.1)
        for _ in rounds(ROUNDS, lambda: unclear(rates)):
            for name, side in sides.items():
                rates[name].append(side(LARGE, MANY, SECONDS))
    finally:
        for side in sides.values():
            side.close()
    return rates


def unclear(rates: dict[str, list[float]]) -> bool:
    """Whether a target may or may not be reached."""
    return any(undecided(ratios(rates[name], rates["float64"]), asked) for name, asked in ASKED.items())


def chapter() -> tuple[str, list[Target]]:
    """In words, and what was asked for."""
    rates = measured()
    targets = [
        Target(
            ratio(rates["float32"], rates["float64"]),
            "× the updates per second of doubles with messages of float32, TCP, d = 10⁶, 4 workers",
            least=ASKED["float32"],
            because="the server's sum and w are doubles, and w is rounded for each version; what travels is halved",
        ),
        Target(
            ratio(rates["int8"], rates["float64"]),
            "× the updates per second of doubles with messages of int8, TCP, d = 10⁶, 4 workers",
            least=ASKED["int8"],
            because="workers round a million numbers at random for each report, and w comes back as float32; what "
            "travels is 5 bytes a number instead of 16",
        ),
    ]
    lines = (
        f"| {name} | {up} | {down} | {statistics.median(rates[name]):,.0f} | {min(rates[name]):,.0f} to "
        f"{max(rates[name]):,.0f} |"
        for name, (up, down) in BYTES.items()
    )
    text = f"""## Short messages

sIAG with {MANY} workers and d = 10⁶ over TCP, all on this machine. {len(rates["int8"])} rounds of {SECONDS:g} seconds
each, all ways taking turns. Where messages are short the rows of the table are of float32; the sum and w are doubles.

| messages | bytes a number of a gradient | of w | updates per second | of all rounds |
|---|---:|---:|---:|---:|
{chr(10).join(lines)}

Every run was checked as those of the live server are; with int8 w may differ by what rounding at random does, a tenth
at most.

{table(targets)}
"""
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
