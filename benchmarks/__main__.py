"""All sides in one run, interleaved, medians, as ratios: writes benchmarks/RESULTS.md and its figures."""

from __future__ import annotations

import os
import platform

from benchmarks import live, simulator
from benchmarks.sides import HERE, PYTHON
from siag.foundations.files import write_text


def main() -> None:
    """Measure everything and write it down."""
    if not PYTHON.exists():
        raise SystemExit("no environment for the peers; run: make bench")
    text = "\n".join(chapter()[0] for chapter in (simulator.chapter, live.chapter))
    head = f"""# Benchmarks

Written by `make bench`; no figure is typed by hand. Medians of at least five rounds in which all sides take turns;
ratios are medians of the rounds' ratios. Python {platform.python_version()}, {platform.machine()},
{os.cpu_count()} cores.

"""
    write_text(HERE / "RESULTS.md", head + text)
    print(head + text)


if __name__ == "__main__":
    main()
