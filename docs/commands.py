"""The page on the command line: what each command says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import click

from siag.cli import siag as group


def write_commands(path: Path) -> None:
    """Write the help of every command, as it is printed."""
    parts = [f"## `siag`\n\n{_help(group, 'siag')}"]
    parts += [f"## `siag {name}`\n\n{_help(each, f'siag {name}')}" for name, each in sorted(group.commands.items())]
    text = "\n".join(parts)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _help(command: click.Command, name: str) -> str:
    os.environ["NO_COLOR"] = "1"
    shown = command.get_help(click.Context(command, info_name=name, terminal_width=100, max_content_width=100))
    return f"```text\n{shown}\n```\n"
