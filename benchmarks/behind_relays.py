"""Workers behind relays beside the same at one server: what the root has to do, how good the model gets."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.relays import PLAYERS, RELAYS, WORKERS, D
from benchmarks.sides import HERE
from benchmarks.targets import Target, table

ROUNDS, SECONDS, SIMULATED = 40, 40, 20  # reports of each worker; how long, if a relay is killed; in simulation
LIMIT = 90.0  # seconds for each part
CHANCE = 2.5  # β²/(2βμ − 1) = 4/3 is expected, times 1.88, which χ² of 20 degrees, over 20, exceeds once in a hundred


Found = dict[str, Any]


def measured(what: str, rounds: int) -> list[Found]:
    """What `benchmarks.relays` prints."""
    command = [sys.executable, "-m", "benchmarks.relays", what, str(rounds)]
    done = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    return [json.loads(line) for line in done.stdout.splitlines()]


def excess(found: Found) -> float:
    """The error as a multiple of d/T, T being the reports of workers."""
    return float(found["error"] / found["d / reports"])


def goals(relayed: Found, flat: Found, killed: Found, million: dict[str, Found]) -> list[Target]:
    """What was asked for."""
    each = {name: found["reports of workers"] for name, found in (("relayed", relayed), ("flat", flat))}
    bytes_each = flat["MB at the root"] / each["flat"], relayed["MB at the root"] / each["relayed"]
    return [
        Target(
            each["relayed"] / relayed["updates"],
            f"reports of workers for each update of the root, {WORKERS:,} behind {RELAYS}",
            least=WORKERS / RELAYS,
        ),
        Target(
            bytes_each[0] / bytes_each[1],
            "× fewer bytes at the root for a report of a worker",
            least=WORKERS / RELAYS,
            because=f"a sum has 32 bytes more than a report, of {8 * D} bytes and a header where d = {D}",
        ),
        Target(excess(relayed), "× d/T is the error behind relays, T reports of workers, one run", most=CHANCE),
        Target(
            excess(killed),
            "× d/T is the error in the end if a relay was killed for ten seconds",
            most=CHANCE,
            because="T counts the reports of all others meanwhile, too, which say nothing about its members",
        ),
        Target(
            million["relays"]["error"] / million["flat"]["error"],
            "× the error at one server is that of 1,000,000 workers behind 1000 relays, simulated",
            most=1.05,
        ),
    ]


def row(name: str, found: Found) -> str:
    """A line of the table."""
    return (
        f"| {name} | {found['updates']:,} | {found['MB at the root']:.2f} | {found['cpu of the root']:.2f} | "
        f"{found['reports of workers']:,} | {found['error']:.1e} | {found['d / reports']:.1e} |"
    )


def staleness(killed: Found) -> str:
    """How the error went while a relay was away."""
    away, back, curve = killed["killed"], killed["started again"], killed["curve"]
    before = [error for seconds, _, error in curve if seconds <= away]
    after = [error for seconds, _, error in curve if seconds > away]
    known = f"{before[-1]:.1e} when it was killed, after {away:.1f} s" if before else "not looked at before"
    most = max(after, default=float("nan"))
    return f"{known}; at most {most:.1e} after that; it was started again after {back:.1f} s"


def chapter() -> tuple[str, list[Target]]:
    """In words, and what was asked for."""
    relayed, flat = measured("live", ROUNDS)
    (killed,) = measured("kill", SECONDS)
    million = {name: found for part in measured("simulated", SIMULATED) for name, found in part.items()}
    targets = goals(relayed, flat, killed, million)
    here, there = million["flat"], million["relays"]
    text = f"""## Relays

{WORKERS:,} workers, played by {PLAYERS} processes, d = {D}; each reports {ROUNDS} times, as soon as it is answered, and
a relay sends its sum after as many reports as it has members. Gradients are w − x_i with noise of unit variance. One
run each; bytes are computed from the lengths of frames.

| | updates of the root | MB there | its CPU time, s | reports of workers | error | d/T |
|---|---:|---:|---:|---:|---:|---:|
{row(f"behind {RELAYS} relays", relayed)}
{row("all at one server", flat)}
{row("behind relays, one killed for 10 s", killed)}

The error of the last was {staleness(killed)}.

In simulation, {here["workers"]:,} workers, {SIMULATED} rounds of all: {here["updates"]:,} updates at one server,
{here["GB at the root, d = 20"]:.2f} GB where d = 20, error {here["error"]:.4e}; behind 1000 relays {there["updates"]:,}
updates, {1000 * there["GB at the root, d = 20"]:.1f} MB, error {there["error"]:.4e}.

{table(targets)}
"""
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
