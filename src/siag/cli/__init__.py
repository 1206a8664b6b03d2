"""The command line. What it is made of is imported when it is run, so that signals are answered from the start."""

from typing import Any

__all__ = ["main", "siag"]


def main() -> None:
    """Run the command line."""
    import sys

    from siag.cli.early import INTERRUPTED, at_once, stoppable

    try:
        with stoppable():
            with at_once():
                run = _complete().main
            run()
    except KeyboardInterrupt:
        print("siag: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _complete() -> Any:
    """The module of the command line, once it has all its commands."""
    from siag.cli import app, compare, demo, export, live  # noqa: F401  # a command is there once its module is imported

    return app


def __getattr__(name: str) -> Any:
    """The group of all commands, which is imported only when it is asked for."""
    if name != "siag":
        raise AttributeError(f"module 'siag.cli' has no attribute {name!r}")
    return _complete().siag
