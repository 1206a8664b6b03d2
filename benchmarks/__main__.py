"""All sides in one run, interleaved, medians, as ratios: writes benchmarks/RESULTS.md and its figures.

`python -m benchmarks simulator` measures one chapter anew and leaves the others as they are. Only those on the
simulator and on the live server need the environment of the peers, which `make bench` makes.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import textwrap

from benchmarks import (
    alarms,
    automatic,
    behind_relays,
    dashboard,
    estimators,
    history,
    live,
    messages,
    methods,
    python_gradients,
    ray_cluster,
    simulator,
    thousands,
)
from benchmarks.rounds import noise
from benchmarks.sides import HERE, PYTHON
from siag.foundations.files import write_text

CHAPTERS = {
    "simulator": simulator.chapter,
    "gradients": python_gradients.chapter,
    "methods": methods.chapter,
    "automatic": automatic.chapter,
    "warnings": alarms.chapter,
    "live": live.chapter,
    "crowd": thousands.chapter,
    "relays": behind_relays.chapter,
    "messages": messages.chapter,
    "dashboard": dashboard.chapter,
    "ray": ray_cluster.chapter,
    "estimators": estimators.chapter,
}
TITLES = {
    "## The simulator": "simulator",
    "## Gradients in Python": "gradients",
    "## The methods": "methods",
    "## Automatic steps": "automatic",
    "## Warnings": "warnings",
    "## The live server": "live",
    "## Ten thousand workers": "crowd",
    "## Relays": "relays",
    "## Short messages": "messages",
    "## The dashboard": "dashboard",
    "## On Ray": "ray",
    "## scikit-learn": "estimators",
}
PEERS = {"simulator", "live"}  # chapters that need an environment of their own
RESULTS = HERE / "RESULTS.md"


def wrapped(line: str) -> str:
    """A line of text, broken where it is long; rows of tables stay whole."""
    return line if line.startswith("|") else textwrap.fill(line, 120, break_long_words=False, break_on_hyphens=False)


def main(wanted: list[str]) -> None:
    """Measure what is wanted, everything by default, and write it down."""
    unknown = set(wanted) - CHAPTERS.keys()
    if unknown:
        raise SystemExit(f"{unknown.pop()}: not one of {', '.join(CHAPTERS)}")
    if not PYTHON.exists() and PEERS & set(wanted or CHAPTERS):
        raise SystemExit("no environment for the peers; run: make bench")
    before = re.split(r"^(?=## )", RESULTS.read_text(), flags=re.M)[1:] if RESULTS.exists() else []
    kept = {TITLES[text.partition("\n")[0]]: text for text in before if text.partition("\n")[0] in TITLES}
    for name, chapter in CHAPTERS.items():
        if not wanted or name in wanted:
            text, targets = chapter()
            kept[name] = f"{text.rstrip()}\n\n{noise()}"
            history.add(name, {target.what: target.measured for target in targets})
            write(kept)  # each at once: a later one may fail
    print(RESULTS.read_text())


def write(kept: dict[str, str]) -> None:
    """Write the chapters there are."""
    head = f"""# Benchmarks

Written by `make bench`, or a chapter at a time by `python -m benchmarks CHAPTER`, so chapters may be of different runs;
no figure is typed by hand. Medians of at least five rounds in which all sides take turns; ratios are medians of the
rounds' ratios. Python {platform.python_version()}, {platform.machine()},
{os.cpu_count()} cores.

"""
    text = head + "\n".join(f"{kept[name].strip()}\n" for name in CHAPTERS if name in kept)
    text = "".join(f"{wrapped(line)}\n" for line in text.splitlines())
    write_text(RESULTS, text)


if __name__ == "__main__":
    main(sys.argv[1:])
