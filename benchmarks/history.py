"""Results of earlier versions, `benchmarks/history.csv`: what a target measured when, so that a regression is seen."""

from __future__ import annotations

import csv
import subprocess
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

PATH = Path(__file__).parent / "history.csv"


@dataclass(frozen=True)
class Entry:
    """One figure."""

    date: str
    commit: str
    processor: str
    chapter: str
    what: str
    measured: float


def processor() -> str:
    """What the machine has: figures of another one say nothing."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else "unknown"


def entries() -> list[Entry]:
    """All, the oldest first."""
    if not PATH.exists():
        return []
    with PATH.open(newline="") as file:
        return [Entry(**{**row, "measured": float(row["measured"])}) for row in csv.DictReader(file)]


def last(what: str) -> Entry | None:
    """The newest figure of this kind, of whichever machine."""
    return next((entry for entry in reversed(entries()) if entry.what == what), None)


def add(chapter: str, measured: dict[str, float]) -> None:
    """Figures of today's code."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, cwd=PATH.parent, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M}", commit, processor(), chapter
    write([*entries(), *(Entry(*made, what, float(f"{figure:.4g}")) for what, figure in measured.items())])


def write(all_of_them: list[Entry]) -> None:
    """Have these in the file."""
    with PATH.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Entry))
        writer.writerows(map(astuple, all_of_them))
