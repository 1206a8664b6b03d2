"""What is on disk, or at a URL: the state of a live server, its log and its trace."""

from siag.storage.history import Version, read_version, read_versions
from siag.storage.saved_model import SavedModel, read_model
from siag.storage.store import Store
from siag.storage.trace_writer import TraceWriter

__all__ = ["SavedModel", "Store", "TraceWriter", "Version", "read_model", "read_version", "read_versions"]
