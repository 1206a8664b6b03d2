"""The command line."""

from siag.cli import export, live
from siag.cli.app import main, siag

__all__ = ["export", "live", "main", "siag"]
