"""The command line."""

from siag.cli import live
from siag.cli.app import main, siag

__all__ = ["live", "main", "siag"]
