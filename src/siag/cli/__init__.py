"""The command line."""

from siag.cli import compare, export, live
from siag.cli.app import main, siag

__all__ = ["compare", "export", "live", "main", "siag"]
