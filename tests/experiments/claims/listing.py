"""docs/reference/claims.md: what the papers claim, what is measured of it here, and what breaks it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from ablations import Ablation, gathered

from siag.experiments.claims import CLAIMS, NOT_MEASURED, claims_of, verdict
from siag.report import Basis, Claim

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "claims.md"
WIDTH = 120
OPENING = """# Claims

Every method here comes from a paper, and the paper claims something of it. This page lists for each what is claimed,
what is predicted and measured here, what is not measured, and what has to be taken away from the method for a claim to
fail. The claims are the functions of `siag.experiments.claims`; `siag compare` shows the verdicts. The page is made by
`python -m tests.experiments.claims`; a test compares its statements, bases and ablations with the code.

- **proved**: a theorem of the paper, or what its construction implies. A method *reaches* it.
- **observed**: an experiment of the paper. What is measured here can only be *consistent with* it.
- **ours**: derived here. It is put to the test, but not counted for the paper.

Rates are fitted: y ∝ xᵃ is a straight line through points on logarithmic axes, a its slope. All problems are convex
unless a prediction says otherwise; seeds are fixed. Errors are ‖w − w*‖², and their means over runs.
"""
TAKEN = """## What is taken away

Each line is a test: with that taken away the claims with these numbers fail, and with the method as it is they hold.
Every claim that counts for a paper is among them.

| method | taken away | claims that fail |
|---|---|---|
"""


def page() -> str:
    """The whole page; it takes as long as all claims do."""
    rows = [f"| {each.method} | {each.taken} | {_numbers(each)} |" for each in _in_order()]
    return "\n".join([OPENING, TAKEN + "\n".join(rows), "", *(section(name) for name in CLAIMS)])


def section(name: str) -> str:
    """What is to be said of one method."""
    claims = claims_of(name)
    own = [each for each in gathered() if each.method == name]
    parts = [_item(number, claim, own) for number, claim in enumerate(claims, 1)]
    left_out = _wrapped(f"Not measured here: {NOT_MEASURED[name]}.", "")
    return f"## {name}\n\nVerdict: {verdict(claims)}.\n\n" + "\n".join(parts) + f"\n\n{left_out}\n"


def skeleton(text: str) -> str:
    """A section without what may differ in its last digits from machine to machine: predictions and measurements."""
    return re.sub(r"^ +- (predicted|measured): .*\n(?: {5,}\S.*\n)*", "", text, flags=re.M)


def _in_order() -> list[Ablation]:
    return [each for name in CLAIMS for each in gathered() if each.method == name]


def _numbers(ablation: Ablation) -> str:
    return ", ".join(str(index + 1) for index in ablation.breaks)


def _item(number: int, claim: Claim, ablations: Sequence[Ablation]) -> str:
    lost = "; ".join(each.taken for each in ablations if number - 1 in each.breaks)
    fails = [f"fails without: {lost}"] if lost else []
    counted = "" if claim.basis is not Basis.OURS else ", not counted"
    head = _wrapped(f"{number}. **{claim.statement}.** {claim.source} ({claim.basis.value}{counted})", "   ")
    parts = [f"predicted: {claim.prediction}", f"measured: {claim.measured}", *fails]
    return "\n".join([head, *(_wrapped(f"   - {part}", "     ") for part in parts)])


def _wrapped(text: str, indent: str) -> str:
    """At most so wide; asterisks, but for those of bold words, are no marks."""
    text = re.sub(r"(?<!\*)\*(?!\*)", r"\\*", text)
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
