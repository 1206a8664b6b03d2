"""Saving the state of a live server: its own store against SQLite, on the disk this project is on."""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from siag.storage.store import Store

ROUNDS = 15
SAVES = ((1000, 20, 1000), (1000, 20, 50), (100, 100_000, 10))  # n, d, rows that changed
COMMITS = (1, 50)  # entries forced to disk together
ENTRY = 160  # bytes

Side = Callable[[], None]


def state(n: int, d: int) -> dict[str, np.ndarray]:
    """What a server of that size keeps."""
    rng = np.random.default_rng(0)
    return {
        "rows": rng.standard_normal((n, d)),
        "w": rng.standard_normal(d),
        "total": rng.standard_normal(d),
        "seen": np.ones(n, bool),
        "tally": np.array(n),
    }


def database(path: Path) -> sqlite3.Connection:
    """An empty database that loses nothing it has committed."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, data BLOB)")
    connection.execute("CREATE TABLE parts (name TEXT PRIMARY KEY, data BLOB)")
    connection.execute("CREATE TABLE entries (number INTEGER PRIMARY KEY, data BLOB)")
    return connection


def save_to_database(connection: sqlite3.Connection, arrays: dict[str, np.ndarray], changed: np.ndarray) -> None:
    """Some rows and all that is small, in one transaction."""
    rows = arrays["rows"]
    parts = [(name, array.tobytes()) for name, array in arrays.items() if name != "rows"]
    connection.execute("BEGIN")
    connection.executemany("REPLACE INTO rows VALUES (?, ?)", ((i, rows[i].data) for i in changed.tolist()))
    connection.executemany("REPLACE INTO parts VALUES (?, ?)", [*parts, ("meta", json.dumps({"version": 1}))])
    connection.execute("COMMIT")


def taking_turns(sides: list[Side], rounds: int = ROUNDS) -> list[list[float]]:
    """Milliseconds of every side in every round, after one round that does not count."""
    times: list[list[float]] = [[] for _ in sides]
    for k in range(rounds + 1):
        for side, taken in zip(sides, times, strict=True):
            began = time.perf_counter()
            side()
            if k:
                taken.append(1e3 * (time.perf_counter() - began))
    return times


def saves(folder: Path, n: int, d: int, k: int) -> list[list[float]]:
    """Until k changed rows are on disk: here, in SQLite."""
    arrays, changed = state(n, d), np.sort(np.random.default_rng(1).choice(n, k, replace=False))
    connection = database(folder / "state.db")
    try:
        with Store(folder / "store", {"n": n, "d": d}) as store:
            store.save(arrays, changed, {"version": 1}, wait=True)
            save_to_database(connection, arrays, np.arange(n))
            return taking_turns(
                [
                    lambda: check(store.save(arrays, changed, {"version": 1}, wait=True)),
                    lambda: save_to_database(connection, arrays, changed),
                ]
            )
    finally:
        connection.close()


def commits(folder: Path, count: int) -> list[list[float]]:
    """Until some entries are on disk: here, in SQLite."""
    entry = bytes(range(ENTRY))
    connection = database(folder / "log.db")

    def log() -> None:
        for _ in range(count):
            store.log(entry)
        store.sync()

    def insert() -> None:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO entries (data) VALUES (?)", ((entry,) for _ in range(count)))
        connection.execute("COMMIT")

    try:
        with Store(folder / "log", {"n": 1}, durable=True) as store:
            store.save({"w": np.zeros(1)}, np.arange(0), {}, wait=True)
            return taking_turns([log, insert], rounds=10 * ROUNDS)
    finally:
        connection.close()


def check(saved: bool) -> None:
    if not saved:
        raise SystemExit("the disk is full or fails; nothing was measured")


def compare() -> str:
    """Measure, and say in Markdown what came out and what follows from it."""
    lines, ratios = [], []
    measured: list[tuple[str, list[list[float]]]] = []
    with tempfile.TemporaryDirectory(prefix=".durability-", dir=Path(__file__).parent) as top:
        for number, (n, d, k) in enumerate(SAVES):
            folder = Path(top, f"save-{number}")
            folder.mkdir()
            measured.append((f"save {k:,} of {n:,} rows of {d:,} numbers", saves(folder, n, d, k)))
        for count in COMMITS:
            folder = Path(top, f"commit-{count}")
            folder.mkdir()
            what = "entry" if count == 1 else "entries"
            measured.append((f"commit {count} {what} of {ENTRY} bytes", commits(folder, count)))
    for what, (ours, theirs) in measured:
        ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        ratios.append(ratio)
        lines.append(f"| {what} | {statistics.median(ours):.2f} | {statistics.median(theirs):.2f} | {ratio:.2f} |")
    return f"""Milliseconds until it is on disk (`fsync`), medians of at least {ROUNDS} rounds in which both take turns.
SQLite {sqlite3.sqlite_version}: WAL, `synchronous = FULL`, rows as blobs by number, one transaction per save or commit.

| | store | SQLite | SQLite / store |
|---|---:|---:|---:|
{chr(10).join(lines)}

{verdict(ratios)}
"""


def verdict(ratios: list[float]) -> str:
    """What the ratios say."""
    span = f"{min(ratios):.2f} to {max(ratios):.2f} times as long as the store"
    faster, mean = sum(ratio > 1 for ratio in ratios), statistics.geometric_mean(ratios)
    if mean > 1:
        return (
            f"The server uses its own store: SQLite takes {span} (geometric mean {mean:.2f}; the store is faster in "
            f"{faster} of {len(ratios)} cases), its file can be read with `struct` and NumPy alone, and the same code "
            f"runs on a simulated disk."
        )
    return (
        f"SQLite is the better choice on this disk: it takes {span} (geometric mean {mean:.2f}; the store is faster in "
        f"{faster} of {len(ratios)} cases). The server uses its own store all the same, at this price."
    )


if __name__ == "__main__":
    print(compare())
