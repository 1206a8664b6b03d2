"""Ten thousand connected workers on one server, against fifty: its rate, its own time for a report, its memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from benchmarks.rounds import beat, ratio
from benchmarks.sides import HERE
from benchmarks.targets import Target, table

FEW, MANY = 50, 10_000
ROUNDS = {"tcp": 5, "tls": 1}  # ten thousand handshakes take half a minute
KINDS = {"few": f"{FEW}:{FEW}", "idle": f"{MANY}:{FEW}", "all": f"{MANY}:{MANY}"}
TAKEN = {"tcp": ("few", "idle", "all"), "tls": ("few", "all")}
WORDS = {
    "few": f"{FEW}, all report",
    "idle": f"{MANY:,}, {FEW} report, the others give signs of life",
    "all": f"{MANY:,}, all report",
}
Found = dict[str, dict[str, list[float]]]


def measured(transport: str) -> Found:
    """What `benchmarks.crowd` prints, by kind of crowd, round by round, all kinds taking turns."""
    kinds = TAKEN[transport] * ROUNDS[transport]
    command = [sys.executable, "-m", "benchmarks.crowd", transport, *(KINDS[kind] for kind in kinds)]
    beat()
    done = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
    beat()
    found: Found = {kind: {} for kind in TAKEN[transport]}
    for kind, line in zip(kinds, done.stdout.splitlines(), strict=True):
        for what, figure in json.loads(line).items():
            found[kind].setdefault(what, []).append(figure)
    return found


def goals(tcp: Found, tls: Found) -> list[Target]:
    """What was asked for."""
    cpu = ratio(tcp["all"]["cpu"], tcp["few"]["cpu"])
    idle = ratio(tcp["idle"]["cpu"], tcp["few"]["cpu"])
    secret = ratio(tls["all"]["cpu"], tls["few"]["cpu"])
    each = (max(tls["all"]["memory"]) - max(tls["few"]["memory"])) / (MANY - FEW)
    return [
        Target(
            ratio(tcp["all"]["rate"], tcp["few"]["rate"]),
            f"× the updates per second of {FEW} workers with {MANY:,}, all of which report, TCP",
            least=0.8,
            because=f"a report takes the server {cpu:.2f} times as long, for what it knows of a worker is seldom still "
            "in a cache",
        ),
        Target(
            ratio(tcp["idle"]["rate"], tcp["few"]["rate"]),
            f"× the updates per second of {FEW} workers with {MANY - FEW:,} others that only give signs of life, TCP",
            least=0.8,
            because=f"for each report the server works {idle:.2f} times as long, since {MANY // 2:,} signs of life a "
            "second are as many frames as half of its reports",
        ),
        Target(max(tcp["all"]["memory"]) / 1e6, f"MB of memory of the server with {MANY:,} workers, TCP", most=400),
        Target(
            ratio(tls["all"]["rate"], tls["few"]["rate"]),
            f"× the updates per second of {FEW} workers with {MANY:,}, all of which report, TLS",
            least=0.8,
            because=f"a report takes the server {secret:.2f} times as long",
        ),
        Target(
            max(tls["all"]["memory"]) / 1e6,
            f"MB of memory of the server with {MANY:,} workers, TLS",
            most=400,
            because=f"a connection takes {each / 1000:.0f} kB, most of it OpenSSL's: 400 MB hold "
            f"{(400e6 - max(tls['few']['memory'])) / each:,.0f}",
        ),
    ]


def chapter() -> tuple[str, list[Target]]:
    """In words, and what was asked for."""
    found = {transport: measured(transport) for transport in TAKEN}
    lines = [
        f"| {transport.upper()} | {WORDS[kind]} | {statistics.median(figures['rate']):,.0f} | "
        f"{1e6 * statistics.median(figures['cpu']):.1f} | {max(figures['memory']) / 1e6:,.0f} |"
        for transport, kinds in found.items()
        for kind, figures in kinds.items()
    ]
    targets = goals(found["tcp"], found["tls"])
    text = f"""## Ten thousand workers

sIAG with d = 20. One process serves, another plays all workers, each with a connection of its own. Over TCP
{ROUNDS["tcp"]} rounds in which all kinds take turns, over TLS {ROUNDS["tls"]}. The server's memory includes some 180 MB
of Python, NumPy, Numba and machine code. Joining is not measured.

| | connected | updates per second | µs of the server's for a report | MB, at most |
|---|---|---:|---:|---:|
{chr(10).join(lines)}

{table(targets)}
"""
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
