"""The command line."""

from siag.cli import compare, export, live, train
from siag.cli.app import main, siag

__all__ = ["compare", "export", "live", "main", "siag", "train"]
