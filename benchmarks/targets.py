"""Targets: what was asked for, what was measured, and what holds it back if it was missed."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import history

WORSE = 1.1  # times what it was before


@dataclass(frozen=True)
class Target:
    """One figure that was asked for."""

    measured: float
    what: str  # reads on after the figure
    least: float | None = None
    most: float | None = None
    because: str = ""  # what holds it back, said only if it was missed

    @property
    def reached(self) -> bool:
        """Whether the figure is as asked."""
        return (self.least is None or self.measured >= self.least) and (self.most is None or self.measured <= self.most)

    @property
    def asked(self) -> str:
        """The target in words."""
        return f"at least {self.least:,g}" if self.least is not None else f"at most {self.most:,g}"


def table(targets: list[Target]) -> str:
    """All of them in Markdown, with what was measured before, and below what holds back those that were missed."""
    rows = [
        f"| {target.measured:,.2f} {target.what} | {target.asked} | {'reached' if target.reached else '**missed**'} | "
        f"{before(target)} |"
        for target in targets
    ]
    missed = [target for target in targets if not target.reached]
    held = [f"\n{target.measured:,.2f} {target.what} ({target.asked} asked): {target.because}" for target in missed]
    return "\n".join(["| measured | target | | before |", "|---|---|---|---:|", *rows, *held])


def before(target: Target) -> str:
    """What was measured the last time, and whether it is worse now by more than a tenth; nothing if it never was."""
    last = history.last(target.what)
    if last is None:
        return ""
    lower, higher = sorted((last.measured, target.measured))
    falls = (target.least is not None) == (target.measured < last.measured)
    return f"{last.measured:,.2f}{', **worse**' if falls and higher > WORSE * lower else ''}"
