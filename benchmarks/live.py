"""The live server against its peers, the limits of the machine, a crowd of workers, and a disk."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks import callers, durability, rehearsal
from benchmarks.live_limits import FEW, LARGE, MANY, SMALL, Limits, limits
from benchmarks.network import alone
from benchmarks.peers.live_job import ETA, PROBES, center
from benchmarks.rounds import ratio, ratios, rounds, undecided
from benchmarks.sides import HERE, PYTHON
from benchmarks.targets import Target, table

ROUNDS, SECONDS = 6, 0.6
SIZES = [(d, n) for d in (SMALL, LARGE) for n in (FEW, MANY)]
EMBEDDED, TCP, TLS = "siag, embedded", "siag, TCP", "siag, TLS"
GRPC = ("gRPC, a call each", "gRPC, streams, threads", "gRPC, streams, asyncio")
RAY = ("Ray, as documented", "Ray, workers call the server")
TORCH, FLOWER = "torch.distributed.rpc", "Flower, simulation engine"
BARE, BARE_TLS = "bare copies, TCP", "bare copies, TLS"
OURS = {EMBEDDED: "embedded", TCP: "tcp", TLS: "tls"}
COPIES = {BARE: "copies", BARE_TLS: "copies-tls"}
THEIRS = {
    **dict(zip(GRPC, (["grpc_server", way] for way in ("unary", "stream", "asyncio")), strict=True)),
    **dict(zip(RAY, (["ray_actor", way] for way in ("driver", "direct")), strict=True)),
    TORCH: ["torch_rpc"],
    FLOWER: ["flower_round"],
}
CROWD, WORKING, PAIRS = 1000, 50, 9

Size = tuple[int, int]
Rates = dict[str, dict[Size, list[float]]]


class Side:
    """A side in a process of its own, with processes of its own.

    Args:
        name: how it is called.
        command: what to start.
        cwd: where.
        log: name of the file for what it has to say.
    """

    def __init__(self, name: str, command: list[str | Path], cwd: Path, log: str) -> None:
        self.name = name
        self._log = open(HERE / "peers" / f"{log}.log", "w")  # noqa: SIM115  # it lives as long as the process
        self._process = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def __call__(self, d: int, workers: int, seconds: float = SECONDS) -> float:
        """Updates per second; what was computed is checked."""
        try:
            self._process.stdin.write(f"{d} {workers} {seconds}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words are in the log
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended unexpectedly; see {self._log.name}")
        self.found = found = json.loads(line)
        wrong = "" if self.name in COPIES else amiss(found, d, workers, seconds)
        if wrong:
            raise SystemExit(f"{self.name} does not compute the same thing, d = {d}, {workers} workers: {wrong}")
        return found["rate"]

    def close(self) -> None:
        """Let it end."""
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def our_side(name: str, job: str) -> Side:
    """One of siag's own, see `jobs.py`."""
    command = [sys.executable, "-m", "benchmarks.jobs", job]
    return Side(name, alone(command) if job.startswith("ray") else command, HERE.parent, job)


def peer(name: str, python: Path | str = PYTHON) -> Side:
    """A peer, in its own environment unless it is said otherwise."""
    command = [python, f"{THEIRS[name][0]}.py", *THEIRS[name][1:]]
    if name in (*RAY, FLOWER):
        command = alone(command)
    return Side(name, command, HERE / "peers", "_".join(THEIRS[name]))


def amiss(found: dict, d: int, workers: int, seconds: float) -> str:
    """What a run got wrong, given how many updates it says it did; nothing if all is well.

    With one worker everything is known: w − c shrinks by 1 − η an update. With several, all have reported from some
    time on, and from then on w goes to the mean of the c_i; elsewhere w is one multiple of the fixed numbers at all
    coordinates, −η times the updates, or less as long as not all have reported.
    """
    updates, probes, exact = found["updates"], np.array(found["probes"]), found.get("rough", 1e-9)
    if found["gap"] > 1e-9:
        return f"the sum of the rows is off by {found['gap']:.1e}"
    if workers == 1:
        wanted, near = center(0) * (1 - (1 - ETA) ** updates), exact
    else:
        wanted = np.mean([center(i) for i in range(workers)], axis=0)
        near = max(1e-6, exact) + 3 * (1 - ETA / 2) ** (0.8 * found["rate"] * seconds)
    if np.abs(probes - wanted).max() > near:
        return f"w is {np.abs(probes - wanted).max():.1e} from where it should be, after {updates} updates"
    if d > PROBES:
        low, high = (-multiple / ETA for multiple in found["multiples"][::-1])
        least = updates if workers == 1 else updates / workers
        if high - low > exact * high or not least * (1 - exact) <= low <= updates * (1 + exact):
            return f"w is {low:.6f} to {high:.6f} times −η the fixed numbers after {updates} updates"
    return ""


def side_by_side() -> Rates:
    """Updates per second of all sides, round by round, all sides taking turns."""
    rates: Rates = {name: {size: [] for size in SIZES} for name in (*OURS, *COPIES, *THEIRS)}
    for name in (TLS, *COPIES):
        rates[name] = {size: [] for size in SIZES if size[1] == MANY}
    own = OURS | COPIES
    sides = [our_side(name, own[name]) if name in own else peer(name) for name in rates]
    try:
        for side in sides:
            side(SMALL, MANY, 0.1)
        for _ in rounds(ROUNDS, lambda: unclear(rates)):
            for size in SIZES:
                for side in sides:
                    if size in rates[side.name]:
                        rates[side.name][size].append(side(*size))
    finally:
        for side in sides:
            side.close()
    return rates


def unclear(rates: Rates) -> bool:
    """Whether a target may or may not be reached."""
    wired = (undecided(ratios(rates[over][size], rates[under][size]), least) for over, under, size, least in WIRE)
    return any(wired) or any(
        undecided(ratios(rates[ours][size], best(rates, ways, size)), small if size[0] == SMALL else large)
        for ours, _, ways, small, large in ASKED
        for size in SIZES
    )


def best(rates: Rates, ways: tuple[str, ...], size: Size) -> list[float]:
    """The rates of the way that is fastest at this size."""
    return max((rates[way][size] for way in ways), key=statistics.median)


def crowd() -> tuple[float, float, float]:
    """Rate with a crowd over the rate without; the same of the server's time per report; bytes its memory grew by."""
    crowds = [f"{WORKING}:{WORKING}", f"{CROWD}:{WORKING}"] * PAIRS
    command = [sys.executable, "-m", "benchmarks.crowd", "tcp", *crowds]
    done = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    alone, crowded = results[::2], results[1::2]
    ratios = [
        ratio([result[what] for result in crowded], [result[what] for result in alone]) for what in ("rate", "cpu")
    ]
    return ratios[0], ratios[1], max(result["grown"] for result in crowded)


# The chapter


ASKED = (  # siag's side, the peer, its ways, how many times faster at d = 20 and at d = 10⁶
    (EMBEDDED, "Ray", RAY, 20, 4),
    (EMBEDDED, "gRPC", GRPC, 10, 4),
    (TCP, "gRPC", GRPC, 4, 1.5),
)

WIRE = (  # what is compared, and how many times the second the first does
    (TLS, TCP, (SMALL, MANY), 0.7),
    (TLS, TCP, (LARGE, MANY), 0.5),
    (TCP, BARE, (LARGE, MANY), 0.6),
)


def on_the_wire(rates: Rates) -> list[Target]:
    """TLS beside TCP, and TCP beside bare copies of as many bytes."""
    secret = {size: ratio(rates[BARE_TLS][size], rates[BARE][size]) for _, _, size, _ in WIRE}
    return [
        Target(
            ratio(rates[over][size], rates[under][size]),
            f"× the rate of {under}, by {over}, {words(size)}",
            least=least,
            because=f"bare copies over TLS, by OpenSSL as Python calls it, are {secret[size]:.2f} of those over TCP",
        )
        for over, under, size, least in WIRE
    ]


def virtual_and_strangers() -> list[Target]:
    """A rehearsal in virtual time, and callers that hang up."""
    return [
        Target(
            rehearsal.seconds(),
            f"s for {rehearsal.REPORTS:,} reports of {rehearsal.WORKERS:,} simulated workers with a Python gradient",
            most=60,
            because="every report is a Python call of the user's, and a few of the session's",
        ),
        Target(
            callers.grown(),
            f"MB of memory kept after {callers.CALLERS:,} callers over TLS that hung up",
            most=60,
            because="buffers of OpenSSL",
        ),
    ]


def goals(rates: Rates, machine: Limits, many: tuple[float, float, float]) -> list[Target]:
    """What was asked for."""
    return [
        Target(
            ratio(rates[ours][size], best(rates, ways, size)),
            f"× {name}'s updates per second, {ours.removeprefix('siag, ')}, {words(size)}",
            least=small if size[0] == SMALL else large,
            because=held_back(rates, machine, ours, ways, size),
        )
        for size in sorted(SIZES, key=lambda size: -size[1])
        for ours, name, ways, small, large in ASKED
    ] + [
        Target(
            machine.over_copy,
            "× the time to copy as many bytes as it reads and writes, for the fused update at d = 10⁶",
            most=1.5,
            because="the sum is read twice, by the update of the row and by the step, and a copy of this size writes "
            f"past the caches; NumPy's five passes take {machine.plain / machine.fused:.1f} times as long",
        ),
        Target(
            many[0],
            f"× the rate of {WORKING} connected workers with {CROWD - WORKING} idle ones beside them",
            least=0.8,
            because=f"the server's own time per report is {many[1]:.2f} times that without them; the rest is what the "
            "machine does beside",
        ),
        Target(
            (many[2] - CROWD * 8 * SMALL) / 1e6,
            f"MB of memory beyond the table for {CROWD:,} connected workers",
            most=100,
            because="buffers of the connections",
        ),
    ]


def words(size: Size) -> str:
    """A size as people read it."""
    d, workers = size
    return f"d = {'20' if d == SMALL else '10⁶'}, {workers} worker{'s' if workers > 1 else ''}"


def held_back(rates: Rates, machine: Limits, ours: str, ways: tuple[str, ...], size: Size) -> str:
    """What keeps one of siag's sides from being more times faster than a peer."""
    (d, workers), embedded = size, ours == EMBEDDED
    rest = (
        f"The rest, carrying, waking processes and sharing {os.cpu_count()} cores with the workers, was not measured "
        "apart"
    )
    if d == SMALL:
        seconds, what = machine.push, "what the server does with a report, nothing being carried,"
    elif embedded:
        seconds, what = machine.fused + machine.handed, "updating, and copying w to a worker's place,"
    else:
        seconds, what = machine.carried, "carrying 8 MB to a process and back over a connection that does nothing else"
    if workers == FEW:
        rest = "With one worker every side does one round trip after the other: latency counts, not throughput"
        if d == SMALL:
            seconds += machine.pipes if embedded else machine.loopback
            what = "the server's work on a report, with one switch to another process and one back,"
    unit, scale = ("µs", 1e6) if seconds < 1e-3 else ("ms", 1e3)
    between, theirs = scale / statistics.median(rates[ours][size]), statistics.median(best(rates, ways, size))
    took = f"{what} takes {seconds * scale:.1f} {unit}"
    if seconds * scale > between:  # measured at another moment
        return f"{took}, measured apart, and all of an update takes {between:.1f} {unit}. {rest}"
    times = 1 / seconds / theirs
    return (
        f"{took} of the {between:.1f} {unit} between two updates: with nothing else it would be {times:.1f} ×. {rest}"
    )


def chapter() -> tuple[str, list[Target]]:
    """Measure everything; the text and the targets."""
    machine = limits()
    rates, many = side_by_side(), crowd()
    targets = goals(rates, machine, many) + on_the_wire(rates) + virtual_and_strangers()
    lines = [
        f"| {name} | "
        + " | ".join(f"{statistics.median(found[size]):,.0f}" if size in found else "" for size in SIZES)
        + " |"
        for name, found in rates.items()
    ]
    ratios = []
    for name, ways in (("gRPC", GRPC), ("Ray", RAY), (TORCH, (TORCH,)), (FLOWER, (FLOWER,))):
        cells = [f"{ratio(rates[ours][k], best(rates, ways, k)):,.1f}" for ours in (EMBEDDED, TCP) for k in SIZES]
        ratios.append(f"| {name} | " + " | ".join(cells) + " |")
    text = f"""## The live server

A parameter server doing sIAG's update: a gradient comes, the sum, the worker's row and w are updated, w goes back. The
workers' gradient costs next to nothing and is the same code on all sides; the peers update with NumPy or torch in
place. Updates per second of the whole server, from when all workers have reported; server and workers are processes of
this machine, so with 4 workers five processes or more share {os.cpu_count()} cores.

| updates per second | d = 20, 1 worker | d = 20, 4 workers | d = 10⁶, 1 worker | d = 10⁶, 4 workers |
|---|---:|---:|---:|---:|
{chr(10).join(lines)}

How many times faster siag is than the faster way of each peer:

| | embedded: d = 20, 1 | 20, 4 | 10⁶, 1 | 10⁶, 4 | TCP: 20, 1 | 20, 4 | 10⁶, 1 | 10⁶, 4 |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
{chr(10).join(ratios)}

Every run of every side was checked. With one worker the final w is known from the number of updates. With four, w must
be one multiple of the fixed gradient wherever that does not depend on w, near the optimum where it does (at d = 10⁶ the
slower sides do too few updates for this to say much), and the sum must be that of the rows (peers only: siag does not
show its table). A siag run in which the workers joined late is repeated with more time; the peers' clock starts when
theirs have joined. Bare copies are arrays of d doubles that go to another process and back: nothing is computed.
Flower's engine looks for messages ten times a second, which is what its rate shows.

{table(targets)}

### The limits of the machine

At d = 20 the server takes {machine.push * 1e6:.1f} µs for a report, nothing being carried; a byte to another process
and back takes {machine.pipes * 1e6:.1f} µs through pipes and {machine.loopback * 1e6:.1f} µs over a connection. At
d = 10⁶ the fused update takes {machine.fused * 1e3:.2f} ms, NumPy's {machine.plain * 1e3:.2f} ms, copying w to a
worker's place {machine.handed * 1e3:.2f} ms; carrying 8 MB to another process and back over a connection takes
{machine.carried * 1e3:.1f} ms. {CROWD:,} connected workers of which {WORKING} report cost the server {many[1]:.2f}
times the time per report of {WORKING} alone; one process that never sleeps plays them all, so that it costs the server
nothing to wake them.

### Durability

{durability.compare()}"""
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
