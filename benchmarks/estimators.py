"""scikit-learn: `SIAGClassifier` beside `SGDClassifier`, in time and in error."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import siag
from benchmarks.rounds import rounds
from benchmarks.targets import Target, table

ROUNDS, SPLITS, PASSES = 9, 5, (1, 10)
CALLS = {1: 300, 32: 300, 1000: 30}  # of partial_fit in a round, by rows of a call
MADE = {"n_samples": 20_000, "n_features": 50, "n_informative": 20, "flip_y": 0.1, "random_state": 1}
SIDES = {
    "siag": lambda seed: siag.adapters.SIAGClassifier(random_state=seed),
    "SGD": lambda seed: SGDClassifier(loss="log_loss", random_state=seed),
    "SGD, averaged": lambda seed: SGDClassifier(loss="log_loss", average=True, random_state=seed),
}


def costs(d: int, rows: int) -> tuple[list[float], list[float]]:
    """Microseconds a call of `partial_fit`, round by round: ours, and that of `SGDClassifier`."""
    X, y = make_classification(20_000, d, random_state=0)
    models = [SIDES[name](0).partial_fit(X[:100], y[:100], classes=[0, 1]) for name in ("siag", "SGD")]
    found: tuple[list[float], list[float]] = [], []
    for _ in rounds(ROUNDS):
        for model, times in zip(models, found, strict=True):
            began = time.perf_counter()
            for call in range(CALLS[rows]):
                at = call * rows % (len(X) - rows)
                model.partial_fit(X[at : at + rows], y[at : at + rows])
            times.append(1e6 * (time.perf_counter() - began) / CALLS[rows])
    return found


def data() -> Iterator[tuple[str, Any, Any]]:
    """Data sets by name."""
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    yield "digits", *load_digits(return_X_y=True)
    yield "wine", *load_wine(return_X_y=True)
    yield "made, 20 000 × 50", *make_classification(**MADE)


def errors(X: Any, y: Any) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Share of wrong labels, log loss and seconds, by side and reading: means over splits, on rows held out."""
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    classes = np.unique(y)
    for seed in range(SPLITS):
        train, test, labels, wanted = train_test_split(X, y, random_state=seed)
        scaler = StandardScaler().fit(train)
        train, test = scaler.transform(train), scaler.transform(test)
        for name, make in SIDES.items():
            stream, order = make(seed), np.random.default_rng(seed)
            began = time.perf_counter()
            for done in range(1, PASSES[-1] + 1):
                rows = order.permutation(len(train))
                stream.partial_fit(train[rows], labels[rows], classes=classes)
                if done in PASSES:
                    seconds = time.perf_counter() - began
                    found.setdefault((name, f"{done}"), []).append((*judged(stream, test, wanted), seconds))
            began = time.perf_counter()
            whole = make(seed).fit(train, labels)
            seconds = time.perf_counter() - began
            found.setdefault((name, "fit"), []).append((*judged(whole, test, wanted), seconds))
    return {key: tuple(np.mean(each, axis=0).tolist()) for key, each in found.items()}  # type: ignore[misc]  # a mean of triples is one


def judged(model: Any, X: Any, y: Any) -> tuple[float, float]:
    """Share of wrong labels, and log loss."""
    return float(1.0 - model.score(X, y)), float(log_loss(y, model.predict_proba(X), labels=model.classes_))


def chapter() -> tuple[str, list[Target]]:
    """Measure everything; the text and the targets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SGDClassifier's, that it has not converged
        targets, lines = [], []
        for d in (20, 100):
            for rows in CALLS:
                ours, theirs = costs(d, rows)
                ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
                lines.append(f"| {d} | {rows:,} | {statistics.median(ours):,.0f} | {statistics.median(theirs):,.0f} |")
                what = (
                    f"times the cost of SGDClassifier.partial_fit, {d} features, {rows:,} row{'s' * (rows > 1)} a call"
                )
                targets.append(Target(ratio, what, most=1.5))
        rows_of_errors, worst = [], (0.0, "")
        for name, X, y in data():
            found = errors(X, y)
            for reading in (*map(str, PASSES), "fit"):
                each = [found[side, reading] for side in SIDES]
                cells = " | ".join(f"{100 * wrong:.1f} %, {loss:.3f}" for wrong, loss, _ in each)
                where = "fit" if reading == "fit" else f"partial_fit, {reading} pass{'es' * (reading != '1')}"
                rows_of_errors.append(f"| {name} | {where} | {cells} | {each[0][2] / each[1][2]:.2f} |")
                worst = max(worst, (100 * (each[0][0] - each[1][0]), f"{name}, {where}"))
        targets.append(Target(worst[0], f"% more wrong labels than SGDClassifier, at worst ({worst[1]})", most=1.0))
    text = f"""## scikit-learn

`SIAGClassifier` beside `SGDClassifier(loss="log_loss")`, one source, defaults otherwise. A call of `partial_fit`,
checks of its input included:

| features | rows a call | siag, µs | SGD, µs |
|---:|---:|---:|---:|
{chr(10).join(lines)}

Wrong labels and log loss on a quarter of the rows, held out, means over {SPLITS} splits; features are standardised.
The last column is siag's time over that of SGD.

| data | learned by | {" | ".join(SIDES)} | time |
|---|---|---:|---:|---:|---:|
{chr(10).join(rows_of_errors)}

{table(targets)}
"""
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
