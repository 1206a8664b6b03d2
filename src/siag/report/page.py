"""The page: one self-contained HTML file for a person to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

from siag.report.chapter import Chapter, Claim
from siag.report.slips import SLIPS


def render(
    title: str,
    facts: Mapping[str, str],
    chapters: Sequence[Chapter],
    pictures: Mapping[str, str],
    *,
    paper: bool = True,
) -> str:
    """Chapters and claims as HTML; `pictures` are data URLs by chapter name.

    A page about the paper opens with what it claims and how much of that holds, and ends with its slips.
    """
    claims = [claim for chapter in chapters for claim in chapter.claims]
    source = files("siag.report")
    return Template((source / "page.html").read_text()).substitute(
        title=escape(title),
        kicker="reproduction report" if paper else "comparison",
        style=(source / "page.css").read_text(),
        opening=_opening(claims) if paper else "",
        contents="\n".join(f'<a href="#{chapter.name}">{escape(chapter.title)}</a>' for chapter in chapters),
        claims=_section("claims", "What the paper claims, and what was measured", _claims(claims)) if paper else "",
        chapters="\n".join(_chapter(chapter, pictures[chapter.name]) for chapter in chapters),
        slips=_section("slips", "Where this follows a corrected form of the paper", _slips()) if paper else "",
        facts="\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()),
    )


def _opening(claims: Sequence[Claim]) -> str:
    """What the paper is about, and how much of it holds."""
    held = sum(claim.holds for claim in claims)
    return Template((files("siag.report") / "paper.html").read_text()).substitute(
        verdict=f"{held} of {len(claims)} claims hold", mood="good" if held == len(claims) else "bad"
    )


def _section(name: str, heading: str, content: str) -> str:
    return f'<section id="{name}">\n<h2>{escape(heading)}</h2>\n{content}\n</section>'


def _slips() -> str:
    return "<ol>\n" + "\n".join(f"<li>{escape(slip)}</li>" for slip in SLIPS) + "\n</ol>"


def _claims(claims: Iterable[Claim]) -> str:
    rows = [
        f"<tr class='{'good' if claim.holds else 'bad'}'><td>{escape(claim.statement)} "
        f"<span class='source'>{escape(claim.source)}</span></td><td>{escape(claim.prediction)}</td>"
        f"<td>{escape(claim.measured)}</td><td class='mark'>{'✓ holds' if claim.holds else '✗ fails'}</td></tr>"
        for claim in claims
    ]
    head = "<tr><th>claim</th><th>predicts</th><th>measured</th><th></th></tr>"
    return f"<table class='claims'><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _chapter(chapter: Chapter, picture: str) -> str:
    paragraphs = "\n".join(f"<p>{paragraph}</p>" for paragraph in chapter.text)
    tables = ", ".join(f'<a href="{name}.csv">{name}.csv</a>' for name in chapter.tables)
    claims = _claims(chapter.claims) if chapter.claims else ""
    return f"""<section id="{chapter.name}">
<h2>{escape(chapter.title)}</h2>
{paragraphs}
<figure>
<img src="{picture}" alt="{escape(chapter.caption, quote=True)}">
<figcaption>{escape(chapter.caption)} <span class="source">Numbers: {tables}.</span></figcaption>
</figure>
{claims}
</section>"""
