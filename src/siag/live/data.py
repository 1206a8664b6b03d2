"""The data of all workers, looked at together before a run: what is refused, and what is known of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from siag.foundations.errors import BadInput, Unsuitable
from siag.live.task import check_stream
from siag.live.until import Until
from siag.streams.finite import columns_of, is_table_with_labels
from siag.streams.labelled import Columns
from siag.streams.repeated import data_within, never_ends

ALIKE = "give all frames the same columns in the same order"


def check_streams(streams: Any) -> None:
    """Refuse what is no list of streams, and DataFrames whose columns differ from worker to worker."""
    if isinstance(streams, str | bytes) or not isinstance(streams, Sequence) or not streams:
        raise BadInput("streams", streams, "a list with one stream for each worker")
    if is_table_with_labels(streams):
        raise BadInput("streams", streams, "a list with one stream for each worker", "did you mean [(X, y)]?")
    for k, stream in enumerate(streams):
        check_stream(f"streams[{k}]", stream)
    _check_columns(streams)


def check_epochs(streams: Sequence[Any], until: Until | int | None) -> None:
    """Refuse a stream that never ends in a run that is to end by epochs alone."""
    if not isinstance(until, Until) or until != Until(epochs=until.epochs) or until.epochs is None:
        return
    for k, stream in enumerate(streams):
        if never_ends(stream):
            remedy = "end the run by iterations, reports or seconds instead, or as well"
            raise BadInput(f"streams[{k}]", stream, "data with an end, where a run ends by epochs", remedy)


def known_of_files(streams: Sequence[Any]) -> dict[str, Any]:
    """What the samples of files are, as `siag.streams.labelled` reads them: a run that goes on must have the same."""
    read = [getattr(data_within(stream), "parse", None) for stream in streams]
    files = [each if isinstance(each, Columns) else None for each in read]
    for known in filter(None, files):
        names = [None if each is None else each.file for each in files]
        return {"files": names, "label": known.label, "row of features": list(known.features)}
    return {}


def _check_columns(streams: Sequence[Any]) -> None:
    """Refuse DataFrames with names of columns that are not the same, in the same order: w would mix them up."""
    named = [(k, names) for k, stream in enumerate(streams) if (names := columns_of(data_within(stream)))]
    for k, names in named[1:]:
        first, wanted = named[0]
        for j in range(max(len(wanted), len(names))):
            if wanted[j : j + 1] != names[j : j + 1]:
                there, here = (repr(each[j]) if j < len(each) else "missing" for each in (wanted, names))
                both = f"column {j + 1} is {there} in streams[{first}] and {here} in streams[{k}]"
                raise Unsuitable(f"{both}; {ALIKE}")
