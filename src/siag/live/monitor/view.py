"""How a snapshot looks on a terminal: the numbers beside the ages, then problems, then the workers.

Names, reasons and problems come from other machines: what is not printable in them is not printed, and nothing in them
is taken for markup.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from siag.server.snapshot import Snapshot, State, WorkerView, bin_label, oldest

MANY = 20  # more workers than that are summed up
NOTEWORTHY = 10
BINS = 7  # rows of the histogram
PROBLEMS = 5
NARROW, WIDE = 64, 100  # columns

LOOKS = {  # the mark and the style of each state
    "expected": ("○", "dim"),
    "working": ("●", "green"),
    "stalled": ("◐", "yellow"),
    "away": ("◌", "blue"),
    "left": ("–", "dim"),
    "refused": ("✕", "bold red"),
}
UNKNOWN = ("?", "")
GOOD, ALARM, LABEL, FILLED, EMPTY = "bold green", "bold red", "dim", "cyan", "bright_black"
EIGHTHS = " ▏▎▍▌▋▊▉█"
PLAIN = str.maketrans("━█▉▊▋▌▍▎▏●○◐◌✕└–·…", "=######:.*o%-x`-.~")  # where there is no Unicode


class Screen(Console):
    """A console for which a broken pipe is an error like others, not the end of the program."""

    def on_broken_pipe(self) -> None:
        """Raise, instead of leaving."""
        raise BrokenPipeError


def standard_error() -> Console:
    """The console that a live view is drawn on."""
    return Screen(stderr=True)


class Encodable:
    """The same in characters that the terminal has."""

    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self.inner, options):
            if control or options.encoding.startswith("utf"):
                yield Segment(text, style, control)
            else:
                plain = text.translate(PLAIN).encode(options.encoding, "replace").decode(options.encoding)
                yield Segment(plain, style)


class View:
    """A snapshot to be drawn, fitted to the size of the terminal at the time of drawing.

    Args:
        snapshot: what to draw.
        final: whether training has ended.
    """

    def __init__(self, snapshot: Snapshot, final: bool = False) -> None:
        self.snapshot, self.final = snapshot, final

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        above = Group(*self._above(options.max_width))
        lines = console.render_lines(Encodable(above), options.update(height=None), pad=False)
        for line in lines:
            yield from line
            yield Segment.line()
        yield Encodable(
            Group(*_workers(self.snapshot.workers, options.max_width, options.size.height - len(lines) - 1))
        )

    def _above(self, width: int) -> Iterable[RenderableType]:
        snapshot = self.snapshot
        yield from _heading(snapshot, self.final, width)
        yield ""
        if width < NARROW:
            yield _numbers(snapshot, self.final, width)
            if any(snapshot.ages):
                yield ""
                yield _ages(snapshot.ages, width)
        else:
            left = min(width // 2, 48)
            both = Table.grid(padding=(0, 4, 0, 0))
            both.add_column(width=left)
            both.add_column()
            both.add_row(_numbers(snapshot, self.final, left), _ages(snapshot.ages, min(width - left - 4, 52)))
            yield both
        if snapshot.problems:
            yield ""
            yield _problems(snapshot.problems)


def summary(snapshot: Snapshot) -> Encodable:
    """A snapshot in one line."""
    parts = [Text(_progress(snapshot)), Text(f"{number(snapshot.rate)} updates/s")]
    remaining = _remaining(snapshot)
    if remaining is not None:
        parts.append(Text(f"{duration(remaining)} left"))
    parts.append(Text(", ").join(_states(snapshot.workers)))
    if snapshot.refused:
        parts.append(Text(f"{number(snapshot.refused)} reports refused"))
    if snapshot.loss is not None:
        parts.append(Text.assemble("loss ", _loss(snapshot.loss)))
    if snapshot.saved is not None:
        parts.append(Text(f"saved {duration(snapshot.saved)} ago"))
    parts += [Text(f"problem: {clean(problem)}", ALARM) for problem in snapshot.problems]
    return Encodable(Text(" · ").join(parts))


def remark(text: str, snapshot: Snapshot | None) -> Encodable:
    """A remark, with the time of the last snapshot before it."""
    when = 0.0 if snapshot is None else snapshot.seconds
    return Encodable(Text.assemble((f"{duration(when):>7}  ", LABEL), clean(text)))


def clean(text: str) -> str:
    """The text on one line, without what a terminal might obey."""
    return "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))


def duration(seconds: float) -> str:
    """A time in two units at most: 0.3s, 42s, 3m 07s, 2h 05m, 3d 04h.

    >>> [duration(seconds) for seconds in (0.26, 42, 187, 7500, 273600, float("inf"))]
    ['0.3s', '42s', '3m 07s', '2h 05m', '3d 04h', 'never']
    """
    if math.isnan(seconds):
        return "–"
    if math.isinf(seconds):
        return "never"
    if abs(seconds) < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    for small, large, limit, names in ((1, 60, 3600, "ms"), (60, 3600, 86400, "hm")):
        if whole < limit:
            return f"{whole // large}{names[0]} {whole % large // small:02d}{names[1]}"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


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


def _heading(snapshot: Snapshot, final: bool, width: int) -> Iterable[Text]:
    """What this is and for how long; how many workers are in which state."""
    reached = snapshot.target is not None and snapshot.version >= snapshot.target
    done = (
        snapshot.done
        or reached
        or (bool(snapshot.workers) and all(worker.state == "left" for worker in snapshot.workers))
    )
    word = ("done" if done else "stopped") if final else "training"
    title = Text.assemble(("siag", "bold"), "  ", (word, GOOD if done or not final else "bold yellow"))
    title.append(f"  {duration(snapshot.seconds)}", LABEL)
    states = Text("  ").join(_states(snapshot.workers, marked=True))
    gap = min(width, 48 + 4 + 52) - title.cell_len - states.cell_len
    if gap >= 4:
        yield Text.assemble(title, " " * gap, states)
    else:
        yield title
        yield states


def _states(workers: Sequence[WorkerView], marked: bool = False) -> list[Text]:
    """How many workers are in each state, those in none left out."""
    count = Counter(worker.state for worker in workers)
    found = [state for state in State if count[state]] + sorted(set(count) - set(State))
    shown = []
    for state in found:
        mark, style = LOOKS.get(state, UNKNOWN)
        shown.append(Text(f"{mark + ' ' if marked else ''}{count[state]:,} {clean(state)}", style))
    return shown or [Text("no workers yet", LABEL)]


def _numbers(snapshot: Snapshot, final: bool, width: int) -> Table:
    """Iterations, with a bar towards the target, and what else is one number."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style=LABEL, no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_row("iteration", Text(_progress(snapshot), "bold"))
    if snapshot.target is not None:
        remaining = None if final else _remaining(snapshot)
        tail = "" if remaining is None else f"  {duration(remaining)} left"
        grid.add_row(
            "", _track(snapshot.version / max(snapshot.target, 1), max(width - 11 - len(tail), 4)).append(tail)
        )
    grid.add_row("updates", f"{number(snapshot.rate)} /s")
    refused = Text(f"  {number(snapshot.refused)} refused" if snapshot.refused else "", "red")
    grid.add_row("reports", Text.assemble(number(snapshot.reports), refused))
    if snapshot.loss is not None:
        grid.add_row("loss", _loss(snapshot.loss))
    grid.add_row("saved", Text("no", LABEL) if snapshot.saved is None else f"{duration(snapshot.saved)} ago")
    return grid


def _progress(snapshot: Snapshot) -> str:
    if snapshot.target is None:
        return f"{snapshot.version:,}"
    percent = math.floor(100 * snapshot.version / max(snapshot.target, 1))
    return f"{snapshot.version:,} of {snapshot.target:,}  {percent} %"


def _remaining(snapshot: Snapshot) -> float | None:
    """Seconds to the target at the present rate; None if there is none, or no telling."""
    if snapshot.target is None or snapshot.version >= snapshot.target:
        return None
    return (snapshot.target - snapshot.version) / snapshot.rate if 0 < snapshot.rate < math.inf else None


def _loss(loss: float) -> Text:
    return Text(f"{loss:.5g}", "" if math.isfinite(loss) else ALARM)


def _track(fraction: float, width: int) -> Text:
    """A thin bar of constant width, filled from the left."""
    filled = math.floor(_within(fraction) * width)
    return Text.assemble(("━" * filled, FILLED), ("━" * (width - filled), EMPTY))


def _bar(fraction: float, width: int, style: str = FILLED) -> Text:
    """A thick bar, to an eighth of a character; what is there at all shows."""
    eighths = round(_within(fraction) * 8 * width)
    if fraction > 0:
        eighths = max(eighths, 1)
    return Text(("█" * (eighths // 8) + EIGHTHS[eighths % 8]).strip().ljust(width), style)


def _within(fraction: float) -> float:
    """The fraction, brought between 0 and 1; NaN is 0."""
    return 0.0 if math.isnan(fraction) else min(max(fraction, 0.0), 1.0)


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
        grid.add_row(label, _bar(count / most, room), _share(count, total))
    return Group(Text("age of reports" if bins else "no reports yet", LABEL), grid)


def _bin_name(first: int, last: int) -> str:
    return bin_label(first) if first == last else f"{bin_label(first).partition('-')[0]}-{oldest(last)}"


def _share(count: int, total: int) -> str:
    percent = 100 * count / total
    if 0 < percent < 1:
        return "<1 %"
    return f"{'>99' if 99 < percent < 100 else round(percent)} %"


def _problems(problems: Sequence[str]) -> Table:
    """One after the other, in red; of many, the first."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for problem in problems[:PROBLEMS]:
        grid.add_row(Text("✕", ALARM), Text(clean(problem), ALARM))
    if len(problems) > PROBLEMS:
        grid.add_row("", Text(f"and {len(problems) - PROBLEMS:,} more", ALARM))
    return grid


def _workers(workers: Sequence[WorkerView], width: int, room: int) -> Iterable[Text]:
    """A table of the workers; of those most noteworthy if they are many, or the lines too few."""
    if not workers:
        return
    chosen = list(workers)
    blocks = _table(chosen, width) if len(chosen) <= MANY else []
    if not blocks or sum(map(len, blocks)) + 1 > room:
        chosen = sorted(workers, key=_noteworthiness)[:NOTEWORTHY]
        blocks = _table(chosen, width)
        while len(chosen) > 1 and sum(map(len, blocks)) + 2 > room:
            chosen.pop()
            blocks.pop()
    yield Text()
    for block in blocks:
        yield from block
    hidden = len(workers) - len(chosen)
    if hidden:
        yield Text(f"and {hidden:,} more, less noteworthy", LABEL)


def _noteworthiness(worker: WorkerView) -> tuple[int, float]:
    """The smaller, the sooner to be shown: refused, stalled, with refusals, away; then the slowest at work."""
    order = {"refused": 0, "stalled": 1, "away": 3, "working": 4, "expected": 5, "left": 6}
    rank = order.get(worker.state, 4)
    if worker.refused and rank > 2:
        rank = 2
    return rank, worker.rate if rank == 4 else -worker.refused


def _table(workers: Sequence[WorkerView], width: int) -> list[list[Text]]:
    """The header and each worker as a line, or two where the reason does not fit behind."""
    fastest = max((worker.rate for worker in workers if math.isfinite(worker.rate)), default=0.0)
    wanted = range(8) if width >= WIDE else (0, 1, 2, 4, 5, 6, 7) if width >= NARROW else (0, 1, 2, 5)
    header = [Text(name, LABEL) for name in ("worker", "state", "rate /s", "", "reports", "age", "silent", "refused")]
    rows = [header, *(_cells(worker, fastest, width) for worker in workers)]
    sizes = {k: max(row[k].cell_len for row in rows) for k in wanted}
    blocks = []
    for row, reason in zip(rows, [Text(), *map(_reason, workers)], strict=True):
        line = Text()
        for k in wanted:
            row[k].align("left" if k in {0, 1, 3} else "right", sizes[k])
            line.append("  " if k else "").append_text(row[k])
        block = [line]
        if reason and line.cell_len + 2 + reason.cell_len <= width:
            line.append("  ").append_text(reason)
        elif reason:
            block.append(Text("  └ ", reason.style).append_text(reason))
        for each in block:
            each.truncate(width, overflow="ellipsis")
        blocks.append(block)
    return blocks


def _reason(worker: WorkerView) -> Text:
    return Text(clean(worker.reason), LABEL if worker.state == "left" else "red")


def _cells(worker: WorkerView, fastest: float, width: int) -> list[Text]:
    """What the table says of one worker, all columns."""
    mark, style = LOOKS.get(worker.state, UNKNOWN)
    name = Text(clean(worker.name) or f"#{worker.row}")
    name.truncate(24 if width >= WIDE else 14 if width >= NARROW else 10, overflow="ellipsis")
    return [
        name,
        Text(f"{mark} {clean(worker.state)}", style),
        Text(number(worker.rate), "" if worker.rate else LABEL),
        _bar(worker.rate / fastest if fastest > 0 else 0.0, 16, style),
        Text(number(worker.reports), "" if worker.reports else LABEL),
        Text("–" if worker.age < 0 else number(worker.age)),
        Text(duration(worker.silent), "yellow" if worker.state == "stalled" else ""),
        Text(number(worker.refused), "red") if worker.refused else Text("0", LABEL),
    ]
