"""A ready-made loss by name, and files as streams: what a run without Python is made of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from siag import losses
from siag.experiments.config import written
from siag.experiments.making import make_part
from siag.experiments.references import reference
from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, Missing, guess
from siag.foundations.types import Floats
from siag.live.data import far_label, one_class
from siag.live.weights import weights_by_row
from siag.losses import Huber, Logistic, Poisson, Softmax, Squared
from siag.streams import Repeated, labelled
from siag.streams.batched import stack

LOSSES: dict[str, type[losses.Loss]] = {kind.__name__: kind for kind in (Squared, Huber, Logistic, Softmax, Poisson)}
ROWS = 1000  # of each file that are looked at before a run, and of which the loss is shown
KEYS = ("label", "follow")  # what is said of files


@dataclass(frozen=True)
class Named:
    """A ready-made loss as it was written: a text such as "Logistic(ridge=0.01)", or a table with its kind."""

    written: str | dict[str, Any]

    def made(self, labels: Iterable[Any] | None) -> losses.Loss:
        """The loss; the classes of a Softmax that has none are the labels."""
        kinds: dict[str, Any] = dict(LOSSES)
        if labels is not None:
            found = {int(y) if isinstance(y, float) and y.is_integer() else y for y in labels}
            kinds["Softmax"] = partial(Softmax, classes=sorted(found, key=lambda y: (isinstance(y, str), y)))
        if isinstance(self.written, str):
            name, bracket, rest = self.written.partition("(")
            made = written("loss", f"{_kind(self.written, name.strip())}({rest if bracket else ')'}", kinds)
        else:
            table = dict(self.written)
            kind = _kind(table.get("kind"), table.pop("kind", None))
            made = make_part("loss", kind, kinds[kind], table)
        return made  # type: ignore[no-any-return]  # of the kinds above


@dataclass(frozen=True)
class MeanLoss:
    """w ↦ the mean over batches, one of each file, of the loss of w; files count for their weights, if they have."""

    loss: losses.Loss
    batches: Sequence[Any]
    weights: Sequence[float] | None = None

    def __call__(self, w: Floats) -> float:
        """The loss of w."""
        return float(np.average([self.loss.value(w, batch) for batch in self.batches], weights=self.weights))


def stream_named(parameter: str, text: object, folder: Path) -> Any:
    """What "module:attribute" names, or the path of a file."""
    if isinstance(text, str) and (":" not in text or os.path.exists(folder / text)):
        if not os.path.isfile(folder / text):
            remedy = "give each file by itself, as often as there are workers"
            several = os.path.isdir(folder / text) or any(sign in text for sign in "*?[")
            raise BadInput(parameter, text, 'a file that exists, or of the form "module:attribute"', remedy * several)
        return folder / text
    return reference(parameter, text, folder)


def is_ready_made(value: object) -> bool:
    """Whether a loss is one of siag's by name, rather than the user's as "module:attribute"."""
    return isinstance(value, dict) or (isinstance(value, str) and ":" not in value.partition("(")[0])


def with_files(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of `Spec` in which files have become streams, and a loss by name the gradient on them.

    If all streams are files, w has as many parameters as the loss needs for their features, the classes of a Softmax
    are the labels found in their first rows, and the loss that is shown is the mean over the files on these rows, each
    counting for its weight, if that is given. Their
    workers have the names of the files, without folder and ending, if these differ.
    """
    fields = dict(fields)
    told = {name: fields.pop(name) for name in KEYS if name in fields}
    streams = list(fields.get("streams") or ())
    files = [k for k, stream in enumerate(streams) if isinstance(stream, Path)]
    for name, value in told.items() if not files else ():
        raise BadInput(name, value, "given with files as streams")
    paths, label = [streams[k] for k in files], told.get("label")
    if files:
        wait = check.truth("follow", told.get("follow", False))
        for k, stream in zip(files, labelled(paths, label, wait=wait), strict=True):
            streams[k] = stream if wait else Repeated(stream)
        fields["streams"] = streams
        stems = [path.stem for path in paths]
        if len(set(stems)) == len(streams) and fields.get("names") is None:
            fields["names"] = stems
    if isinstance(fields.get("loss"), Named):
        if fields.get("gradient") is not None:
            remedy = "leave out the gradient, or give the loss as module:attribute"
            raise BadInput("gradient", fields["gradient"], "left out with a loss by its name", remedy)
        named = fields.pop("loss")
        if paths and len(paths) == len(streams):
            first = [list(islice(rows, ROWS)) for rows in labelled(paths, label)]
            fields |= _fitted(named, paths, first, fields.get("w0"), _weights(fields, len(paths)))
            if not wait:  # what grows may have other labels later
                where = f" in the first {ROWS:,} rows of each file"
                loss, labels = fields["gradient"], [[y for _, y in rows] for rows in first]
                fields["doubts"] = (*one_class(loss, labels, where), *far_label(loss, labels))
        else:
            fields["gradient"] = named.made(None)
    return fields


def _weights(fields: dict[str, Any], n: int) -> Sequence[float] | None:
    """By which the files count in the loss that is shown; the same if their weights are numbers of reports."""
    names = fields.get("names") or [str(k) for k in range(n)]
    found = weights_by_row(fields.get("weights"), names)
    return None if isinstance(found, str) else found


def _fitted(
    named: Named, paths: list[Path], first: list[list[Any]], w0: Any, weights: Sequence[float] | None
) -> dict[str, Any]:
    """The gradient, the loss to show and the first w, given the first rows of each file."""
    loss = named.made(y for rows in first for _, y in rows)
    features = first[0][0][0].size
    size = loss.dimension(features)
    if w0 is not None and np.size(w0) != size:
        raise BadInput("w0", w0, f"{size} numbers for {features} feature{'s' * (features > 1)}", "or leave it out")
    w0 = np.zeros(size) if w0 is None else w0
    batches = []
    for path, rows in zip(paths, first, strict=True):
        try:
            batches.append(stack(rows))
            loss.value(w0, batches[-1])
        except BadInput as error:  # a label that does not fit is a mistake, before anything begins
            raise BadFile(f"{path}: {error}") from None
    return {"gradient": loss, "loss": MeanLoss(loss, batches, weights), "w0": w0}


def _kind(given: object, name: object) -> str:
    """The name of a loss, however its letters are written."""
    known = {kind.lower(): kind for kind in LOSSES}
    if name is None:
        raise Missing("loss.kind", f'write kind = "…", one of {", ".join(LOSSES)}')
    if not isinstance(name, str) or name.lower() not in known:
        allowed = f'one of {", ".join(LOSSES)}, or yours as "module:attribute"'
        raise BadInput("loss", given, allowed, guess(name, tuple(LOSSES)))
    return known[name.lower()]
