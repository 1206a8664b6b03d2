"""How a snapshot looks on a terminal: the numbers beside the ages, then problems, then the workers.

Names, reasons and problems come from other machines. Characters in them that are not printable are replaced, and
nothing in them is taken for markup.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.bar import Bar
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from siag.server.status import Snapshot, State, WorkerView, bin_label, oldest

MANY = 20  # of more workers than that, only the most noteworthy are shown
NOTEWORTHY = 10
BINS = 7  # rows of the histogram
PROBLEMS, NAMES, OWN = 5, 3, 4  # problems, names and metrics that are shown, of more of them
NARROW, WIDE = 64, 100  # columns

LOOKS = {  # the mark and the colour of each state, the most noteworthy first
    State.REFUSED: ("✕", "red"),
    State.STALLED: ("◐", "yellow"),
    State.AWAY: ("◌", "blue"),
    State.WORKING: ("●", "green"),
    State.EXPECTED: ("○", "bright_black"),
    State.LEFT: ("–", "bright_black"),
}
ALARM, WARNING, LABEL = "bold red", "bold yellow", "dim"
PLAIN = str.maketrans("█▉▊▋▌▍▎▏●○◐◌✕–·…", "######:.*o%-x-.~")  # where there is no Unicode


class Screen(Console):
    """A console that draws in characters its terminal has, and for which a broken pipe is an error like others."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The same in letters where there is no Unicode."""
        segments = super().render(renderable, options)
        return segments if self.encoding.startswith("utf") else map(self._plain, segments)

    def _plain(self, segment: Segment) -> Segment:
        text = segment.text.translate(PLAIN).encode(self.encoding, "replace").decode(self.encoding)
        return Segment(text, segment.style, segment.control)

    def on_broken_pipe(self) -> None:
        """Raise, instead of leaving."""
        raise BrokenPipeError


def view(snapshot: Snapshot, console: Console, final: bool = False) -> Group:
    """A snapshot to be drawn, fitted to the size of the terminal; `final` if training has ended."""
    width, height = console.size
    above = Group(*_above(snapshot, width, final))
    lines = console.render_lines(above, pad=False)
    return Group(above, *_workers(snapshot.workers, width, height - len(lines) - 1))


def _above(snapshot: Snapshot, width: int, final: bool) -> Iterable[RenderableType]:
    """All but the workers."""
    yield _title(snapshot, final)
    yield _states(snapshot.workers)
    yield ""
    if width < NARROW:
        yield _numbers(snapshot, width)
        yield ""
        yield _ages(snapshot.ages, width)
    else:
        left = min(width // 2, 48)
        both = Table.grid(padding=(0, 4, 0, 0))
        both.add_column(width=left)
        both.add_row(_numbers(snapshot, left), _ages(snapshot.ages, min(width - left - 4, 52)))
        yield both
    if snapshot.problems or snapshot.warnings:
        yield ""
    for lines, mark, style in ((snapshot.problems, "✕", ALARM), (snapshot.warnings, "!", WARNING)):
        for line in lines[:PROBLEMS]:
            yield Text(f"{mark} {clean(line)}", style)
        if len(lines) > PROBLEMS:
            yield Text(f"and {len(lines) - PROBLEMS:,} more", style)


def summary(snapshot: Snapshot) -> Text:
    """A snapshot in one line."""
    parts = [Text.assemble(f"{label} ", value) for label, value in _facts(snapshot).items()]
    parts.insert(1, _states(snapshot.workers))
    parts += [Text(f"problem: {clean(problem)}", ALARM) for problem in snapshot.problems]
    parts += [Text(f"warning: {clean(warning)}", WARNING) for warning in snapshot.warnings]
    return Text(" · ").join(parts)


def remark(text: str, snapshot: Snapshot | None) -> Text:
    """A remark, with the time of the last snapshot before it."""
    when = 0.0 if snapshot is None else snapshot.seconds
    return Text.assemble((f"{duration(when):>7}  ", LABEL), clean(text))


def clean(text: str) -> str:
    """The text on one line, without characters that a terminal might obey."""
    return "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))


def duration(seconds: float) -> str:
    """A time in two units at most: 0.3s, 42s, 3m 07s, 2h 05m, 3d 04h.

    >>> [duration(seconds) for seconds in (0.26, 42, 187, 7500, 273600, float("inf"))]
    ['0.3s', '42s', '3m 07s', '2h 05m', '3d 04h', 'never']
    """
    if not math.isfinite(seconds):
        return "–" if math.isnan(seconds) else "never"
    whole = round(seconds)
    for large, small, names in ((86400, 3600, "dh"), (3600, 60, "hm"), (60, 1, "ms")):
        if whole >= large:
            return f"{whole // large}{names[0]} {whole % large // small:02d}{names[1]}"
    return f"{seconds:.1f}s" if abs(seconds) < 9.95 else f"{whole}s"


def number(value: float) -> str:
    """A count or a rate, short: 0.25, 3.2, 87, 12,345, 3.4e+07.

    >>> [number(value) for value in (0, 0.25, 3.21, 87.4, 12345, 34_000_000, float("nan"))]
    ['0', '0.25', '3.2', '87', '12,345', '3.4e+07', '–']
    """
    if not math.isfinite(value):
        return "–"
    if isinstance(value, int) or value >= 9.95 or value == 0:
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.2g}"
    return f"{value:.2g}" if value < 1 else f"{value:.1f}"


def _title(snapshot: Snapshot, final: bool) -> Text:
    """What this is, how it ended, and after what time."""
    done = snapshot.done or {worker.state for worker in snapshot.workers} == {State.LEFT}
    word = ("done" if done else "stopped") if final else "training"
    style = "bold green" if done or not final else "bold yellow"
    return Text.assemble(("siag", "bold"), "  ", (word, style), (f"  {duration(snapshot.seconds)}", LABEL))


def _states(workers: Sequence[WorkerView]) -> Text:
    """How many workers are in each state; states that no worker is in are left out."""
    count = Counter(worker.state for worker in workers)
    shown = [Text(f"{mark} {count[state]:,} {state}", style) for state, (mark, style) in LOOKS.items() if count[state]]
    return Text("  ").join(shown) or Text("no workers yet", LABEL)


def _facts(snapshot: Snapshot) -> dict[str, Text]:
    """What is one number."""
    refused = Text(f", {number(snapshot.refused)} refused" if snapshot.refused else "", "red")
    facts = {
        "iteration": Text(_progress(snapshot), "bold"),
        "updates": Text(f"{number(snapshot.rate)} /s{_remaining(snapshot)}"),
        "reports": Text.assemble(number(snapshot.reports), refused),
    }
    if snapshot.loss is not None:
        facts["loss"] = Text(f"{snapshot.loss:.5g}", "" if math.isfinite(snapshot.loss) else ALARM)
    if snapshot.progressive is not None:
        facts["new loss"] = Text(f"{snapshot.progressive:.5g}")
    for name, value in list(snapshot.metrics.items())[:OWN]:
        facts[clean(name)[:16]] = Text(f"{value:.5g}")
    facts["saved"] = Text("no", LABEL) if snapshot.saved is None else Text(f"{duration(snapshot.saved)} ago")
    return facts


def _numbers(snapshot: Snapshot, width: int) -> Table:
    """The facts below each other, with a bar towards the target."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style=LABEL, no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    if snapshot.target is not None:
        grid.add_row("", ProgressBar(max(snapshot.target, 1), snapshot.version, width=max(width - 11, 4)))
    for label, value in _facts(snapshot).items():
        grid.add_row(label, value)
    return grid


def _progress(snapshot: Snapshot) -> str:
    if snapshot.target is None:
        return f"{snapshot.version:,}"
    percent = math.floor(100 * snapshot.version / max(snapshot.target, 1))
    return f"{snapshot.version:,} of {snapshot.target:,}, {percent} %"


def _remaining(snapshot: Snapshot) -> str:
    """The time to the target at the present rate, if that can be told."""
    if snapshot.target is None or snapshot.version >= snapshot.target or not 0 < snapshot.rate < math.inf:
        return ""
    return f", {duration((snapshot.target - snapshot.version) / snapshot.rate)} left"


def _bar(fraction: float, width: int, color: str = "cyan") -> Bar:
    """A bar, to an eighth of a character; a fraction above 0 is always visible."""
    return Bar(1.0, 0.0, max(min(fraction, 1.0), 0.125 / width) if fraction > 0 else 0.0, width=width, color=color)


def _ages(ages: Sequence[int], width: int) -> Group:
    """The histogram of ages; where there are too many bins, the thinner end is merged."""
    bins = [[k, k, count] for k, count in enumerate(ages)]
    while bins and not bins[-1][2]:
        bins.pop()
    while len(bins) > BINS:
        left, right = bins[0][2] + bins[1][2], bins[-1][2] + bins[-2][2]
        k = 0 if left <= right else len(bins) - 2
        bins[k : k + 2] = [[bins[k][0], bins[k + 1][1], bins[k][2] + bins[k + 1][2]]]
    total, most = sum(count for *_, count in bins), max((count for *_, count in bins), default=0)
    labels = [_bin_name(first, last) for first, last, _ in bins]
    room = max(width - max(map(len, labels), default=0) - 9, 4)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True, style=LABEL)
    for label, (*_, count) in zip(labels, bins, strict=True):
        grid.add_row(label, _bar(count / most, room), f"{100 * count / total:.0f} %")
    return Group(Text("age of reports" if bins else "no reports yet", LABEL), grid)


def _bin_name(first: int, last: int) -> str:
    return bin_label(first) if first == last else f"{bin_label(first).partition('-')[0]}-{oldest(last)}"


def _workers(workers: Sequence[WorkerView], width: int, room: int) -> Iterable[RenderableType]:
    """A table of the workers and the reasons they have; of the most noteworthy if not all fit into `room` lines."""
    chosen, reasons = list(workers), _reasons(workers)
    if len(chosen) > MANY or len(chosen) + len(reasons) + 2 > room:
        chosen = sorted(workers, key=_noteworthiness)[:NOTEWORTHY]
        while len(chosen) > 1 and len(chosen) + len(_reasons(chosen)) + 3 > room:
            chosen.pop()
        reasons = _reasons(chosen)
    if chosen:
        yield ""
        yield _table(chosen, width)
        yield from reasons
    if len(chosen) < len(workers):
        yield Text(f"and {len(workers) - len(chosen):,} more, less noteworthy", LABEL)


def _noteworthiness(worker: WorkerView) -> tuple[int, int, float]:
    """The smaller, the sooner it is shown: by state, then those with the most refusals, then the slowest."""
    return list(LOOKS).index(worker.state), -worker.refused, worker.rate


def _reasons(workers: Sequence[WorkerView]) -> list[Text]:
    """Why workers were refused or are gone: each reason on a line, after the workers that have it."""
    names: dict[tuple[str, str], list[str]] = {}
    for worker in workers:
        if worker.reason:
            style = LABEL if worker.state == State.LEFT else "red"
            names.setdefault((clean(worker.reason), style), []).append(clean(worker.name))
    lines = []
    for (reason, style), who in names.items():
        more = f" and {len(who) - NAMES} more" if len(who) > NAMES else ""
        text = f"  {', '.join(who[:NAMES])}{more}: {reason}"
        lines.append(Text(text, style, no_wrap=True, overflow="ellipsis"))
    return lines


def _table(workers: Sequence[WorkerView], width: int) -> Table:
    """A line for each worker; a narrow terminal has fewer columns."""
    fastest = max((worker.rate for worker in workers if math.isfinite(worker.rate)), default=0.0)
    rows = [_cells(worker, fastest) for worker in workers]
    grid = Table(box=None, pad_edge=False, header_style=LABEL)
    grid.add_column("worker", no_wrap=True, max_width=max(width // 5, 8))
    grid.add_column("state", no_wrap=True)
    least = {"rate /s": 0, "": WIDE, "reports": NARROW, "counts": NARROW, "age": 0}
    least |= {"loss": NARROW, "silent": NARROW, "refused": NARROW}
    if all(worker.loss is None for worker in workers):
        del least["loss"]
    if len({worker.share for worker in workers if worker.share > 0.0}) < 2:  # all alike
        del least["counts"]
    for name in (name for name in least if width >= least[name]):
        grid.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        grid.add_row(*(row[str(column.header)] for column in grid.columns))
    return grid


def _cells(worker: WorkerView, fastest: float) -> dict[str, RenderableType]:
    """What the table says of one worker, all columns."""
    mark, style = LOOKS[worker.state]
    return {
        "worker": Text(clean(worker.name)),
        "state": Text(f"{mark} {worker.state}", style),
        "rate /s": Text(number(worker.rate), "" if worker.rate else LABEL),
        "": _bar(worker.rate / fastest if fastest > 0 else 0.0, 16, style),
        "reports": Text(number(worker.reports), "" if worker.reports else LABEL),
        "counts": Text("–" if math.isnan(worker.share) else f"{worker.share:.1%}"),
        "age": Text("–" if worker.age < 0 else number(worker.age)),
        "loss": Text("–" if worker.loss is None else f"{worker.loss:.3g}"),
        "silent": Text(duration(worker.silent), "yellow" if worker.state == State.STALLED else ""),
        "refused": Text(number(worker.refused), "red" if worker.refused else LABEL),
    }
