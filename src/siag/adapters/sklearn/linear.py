"""What classifier and regressor share: a linear model, learned by a server in the process of the caller."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from itertools import compress
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from siag.adapters.rows import NO_FLOATS, NO_PLACES, NO_REPORTS, NO_TABLE, Rows, scratch
from siag.adapters.sklearn.processes import dealt, train_on_processes
from siag.adapters.sklearn.turns import Reports, Turns, as_they_come
from siag.adapters.sources import Sources, is_name, one_for_each, weight_of
from siag.foundations import check
from siag.foundations.errors import BadInput, TrainingWarning, Unsuitable, shorten, warn
from siag.foundations.types import Floats, Integers
from siag.live.scales import KNOWN, doubt_about
from siag.losses import Loss
from siag.methods import SIAG, Automatic, Method
from siag.methods.fit import step_of
from siag.server import Diverged
from siag.server.in_process import InProcess
from siag.steps import Step

REPORT = 64  # rows of a report of finite data
PATIENCE = 5, 64  # passes, and reports of each source, without progress after which `fit` ends
SOME, WIDE = 200, 10_000  # rows that are looked at, and features beyond which sparse ones are not
READ = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "accept_large_sparse": False}
EXAMPLES = {"method": "SIAG()", "step": "Constant(0.1)"}
EACH = "a column of X, or an array with an entry for each row"
SCALE = "scale them: make_pipeline(StandardScaler(), …)"


class Linear(BaseEstimator):
    """A linear model that minimises the mean over sources of the mean loss over each one's rows."""

    _numeric = False  # whether y must be numbers
    _learner: InProcess | None
    _found: Floats  # w, if processes have found it
    _sources: Sources
    _column: Any  # the name of the one that says where rows came from
    _given: dict[int, float]  # rows of each source, or the sum of their weights
    _early: list[Floats] | None  # the first rows of a stream, until there are enough to be judged
    n_features_in_: int
    n_iter_: int

    def __init__(
        self,
        *,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        random_state: Any = None,
        batch_size: int | None = None,
        method: Any = None,
        step: Any = None,
        workers: int | bool | None = None,
        source_weight: Any = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.random_state = random_state
        self.batch_size = batch_size
        self.method = method
        self.step = step
        self.workers = workers
        self.source_weight = source_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None, source: Any = None) -> Self:
        """Learn from finite data.

        Args:
            X: (rows, features) numbers, dense or sparse.
            y: (rows,) labels or numbers.
            sample_weight: (rows,) how often each row counts within its source.
            source: where each row came from: the name of a column of X, which is then no feature, or (rows,) an array.
        """
        X, y, source = self._read(X, y, source, reset=True)
        if source is not None and is_name(source):
            raise BadInput("source", source, EACH)
        X, y, weights, source = weighed(X, y, sample_weight, source)
        self._learn_all(X, self._first(y), weights, source)
        return self

    @abstractmethod
    def _first(self, y: Any) -> Floats:
        """What `fit` is to predict, as numbers."""

    @abstractmethod
    def _loss(self) -> tuple[int, float, int]:
        """The loss by number, δ if it has one, and how many outputs the model has."""

    @abstractmethod
    def _ready_made(self) -> Loss:
        """The same loss, of `siag.losses`."""

    def _unit(self, labels: Floats) -> float:
        """What a loss is measured in, for `tol`."""
        return 1.0

    def __sklearn_tags__(self) -> Any:
        """It takes sparse X."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model."""
        return getattr(self, "_learner", None) is not None or hasattr(self, "_found")

    @property
    def _parts(self) -> Floats:
        """(outputs, features + 1) weights and intercept of each output, or weights alone."""
        w = self._found if self._learner is None else self._learner.w
        return w.reshape(self._loss()[2], -1)

    @property
    def _weights(self) -> Floats:
        return self._parts[:, : self.n_features_in_]

    @property
    def intercept_(self) -> Floats:
        """(outputs,) b."""
        parts = self._parts
        return parts[:, -1] if parts.shape[1] > self.n_features_in_ else np.zeros(len(parts))

    @property
    def sources_(self) -> list[Any]:
        """The sources met so far, `None` being the one that has no name."""
        return self._sources.names

    def _read(self, X: Any, y: Any, source: Any, *, reset: bool) -> tuple[Any, Any, Any]:
        """What was given, checked by scikit-learn; the column of sources apart."""
        X, source, column = split_column(X, source)
        X, y = validate_data(self, X, y, reset=reset, y_numeric=self._numeric, **READ)
        self._column = column if reset or column is not None else self._column
        return X, y, source

    def _outputs(self, X: Any) -> Floats:
        """(rows, outputs) x·v + b."""
        check_is_fitted(self)
        X = without_column(X, self._column) if self._column is not None else X
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        found: Floats = X @ self._weights.T + self.intercept_
        return found

    def _learn_all(self, X: Any, labels: Floats, weights: Floats | None, source: Any) -> None:
        """`fit`, after X and y were read."""
        sources = Sources()
        whose = sources.rows(source, X.shape[0])
        self._sources, self._early, self._given, n = sources, None, {}, len(sources)
        heavy = np.array([*self._weigh(whose, weights, X.shape[0]).values()])
        if not heavy.any():
            raise BadInput("source_weight", self.source_weight, "above 0 for one of the sources")
        self._look_for_strangers()
        self._doubt(X)
        random = check_random_state(self.random_state)
        size, passes = self._size(REPORT), check.integer("max_iter", self.max_iter)
        if self.workers is not None:
            if weights is not None:
                raise BadInput("sample_weight", weights, "None with workers", "leave out workers")
            whose = dealt(self.workers, whose, n, X.shape[0], random)
            seed, how = int(random.randint(2**31)), {"method": self.method, "step": self.step}
            data = self._ready_made(), X, labels, whose
            how["weights"] = heavy if n > 1 else None
            self._found = train_on_processes(*data, size=size, passes=passes, seed=seed, **how)
            self._learner, self.n_iter_ = None, passes
            return
        if X.shape[0] <= size and X.shape[1] <= WIDE:
            X, labels, weights, whose = _merged(X, labels, weights, whose)
        shares = _shares(weights, whose, X.shape[0])
        counts = X.shape[0] if isinstance(whose, int) else np.bincount(whose)[whose]
        turns = Turns(whose, X.shape[0], size, random if check.truth("shuffle", self.shuffle) else None)
        self._learner = self._begin(X.shape[1], n)
        for row, weight in enumerate(heavy):
            self._learner.count_for(row, weight)
        rows = self._rows(X, labels, weights if weights is None else shares * counts, heavy / heavy.mean())
        self._pass_over(rows, turns, passes, n)
        self._compare(X, labels, shares * heavy[whose])

    def _look_for_strangers(self) -> None:
        """Warn of a weight for a source that has no rows."""
        known = self._sources.names
        for name in self.source_weight if isinstance(self.source_weight, Mapping) else ():
            if name not in known:
                what = f"source_weight has {shorten(name)}, which is none of the sources, {shorten(known)}"
                warn(f"{what}; it counts for nothing here", TrainingWarning)
                return

    def _weigh(self, whose: int | Integers, weights: Floats | None, count: int) -> dict[int, float]:
        """What each source of these rows counts for, now that they are counted in, in the order of its row."""
        new, names = np.bincount(np.broadcast_to(whose, count), weights), self._sources.names
        rows = np.unique(whose).tolist()
        self._given |= {row: self._given.get(row, 0.0) + float(new[row]) for row in rows}
        return {row: weight_of(self.source_weight, names[row], self._given[row]) for row in rows}

    def _pass_over(self, rows: Rows, turns: Turns, passes: int, n: int) -> None:
        """Passes over the data until their loss stops falling."""
        best, idle, unit = math.inf, 0, self._unit(rows.y)
        tol = None if self.tol is None else check.real("tol", self.tol, low=0)
        patience = max(PATIENCE[0], -(-PATIENCE[1] // turns.rounds))
        for done in range(1, passes + 1):
            rows.told[1] = 0.0
            self._report(rows, turns.next())
            self.n_iter_ = done
            loss = float(rows.told[1]) / (n * turns.rounds)
            idle = idle + 1 if tol is not None and loss > best - tol * unit else 0
            best = min(best, loss)
            if idle >= patience:
                return
        if tol is not None and passes > patience:
            warn(f"the loss still fell after max_iter = {passes} passes; raise max_iter or tol", ConvergenceWarning)

    def _learn_some(self, X: Any, labels: Floats, weights: Floats | None, source: Any) -> None:
        """`partial_fit`, after X and y were read."""
        whose = self._sources.rows(source, X.shape[0])
        n = len(self._sources)
        if self._learner is None:
            self._learner = self._begin(X.shape[1], n, getattr(self, "_found", None))
        self._learner.grow(n)
        if self.source_weight is not None:
            if not self._learner.weighted:
                raise BadInput("source_weight", self.source_weight, "None, as when learning began", "fit anew")
            for row, weight in self._weigh(whose, weights, X.shape[0]).items():
                self._learner.count_for(row, weight)
        if self._early is not None:
            self._look(X)
        self._report(self._rows(X, labels, weights), as_they_come(whose, X.shape[0], self._size(1)))

    def _first_call(self) -> bool:
        """Whether `partial_fit` begins; then get ready for it."""
        if self.workers is not None:
            raise BadInput("workers", self.workers, "None for partial_fit", "siag.train reads streams in processes")
        first = not self.__sklearn_is_fitted__()
        if first:
            self._sources, self._early, self._learner, self._given = Sources(), [], None, {}
        return first

    def _begin(self, features: int, n: int, w0: Floats | None = None) -> InProcess:
        """A server that has heard nobody."""
        method = self.method if self.method is not None else Automatic() if self.step is None else SIAG()
        for name, value, kind in (("method", method, Method), ("step", self.step, Step | None)):
            if not isinstance(value, kind):
                raise BadInput(name, value, f"None, or one of siag.{name}s", f"such as siag.{name}s.{EXAMPLES[name]}")
        d = self._loss()[2] * (features + check.truth("fit_intercept", self.fit_intercept))
        start, weighted = np.zeros(d) if w0 is None else w0, self.source_weight is not None
        return InProcess(method, step_of(method, self.step), start, n, weighted=weighted)

    def _size(self, default: int) -> int:
        return default if self.batch_size is None else check.integer("batch_size", self.batch_size)

    def _rows(self, X: Any, labels: Floats, weights: Floats | None, heavy: Floats = NO_FLOATS) -> Rows:
        """What a server learns from; the reports are still to be said."""
        loss, delta, outputs = self._loss()
        if isinstance(X, np.ndarray):
            table: Any = X, NO_FLOATS, NO_PLACES, NO_PLACES
        else:
            table = NO_TABLE, X.data, *(each.astype(np.int32, copy=False) for each in (X.indices, X.indptr))
        given = (*table, labels, NO_FLOATS if weights is None else weights)
        *table, y, heavy = map(_read_only, given)
        how = loss, delta, check.real("alpha", self.alpha, low=0)
        what: Any = *table, X.shape[1], y, heavy, *NO_REPORTS, *how, *scratch(outputs, heavy)
        return Rows(*what)

    def _report(self, rows: Rows, reports: Reports) -> None:
        learner: Any = self._learner
        whose, starts, order = reports
        try:
            learner.learn(rows._replace(whose=whose, starts=starts, order=order))
        except Diverged as error:
            remedy = SCALE if learner.method.default_step is not None else "use a smaller step, or none"
            raise Unsuitable(f"{str(error).partition(';')[0]}: the features may be too large; {remedy}") from None

    def _look(self, X: Any) -> None:
        """Keep the first rows of a stream until there are enough to judge scales by."""
        early: Any = self._early
        early.append(_some(X).copy())
        if sum(map(len, early)) >= KNOWN:
            self._early = None
            self._doubt(np.concatenate(early))

    def _doubt(self, X: Any) -> None:
        """Warn of columns of very unequal size."""
        names = getattr(self, "feature_names_in_", ())
        some = _some(X)
        doubt = doubt_about(some, names, bool(self.fit_intercept), SCALE) if len(some) >= KNOWN else None
        if doubt is not None:
            warn(doubt.text, TrainingWarning)

    def _compare(self, X: Any, labels: Floats, share: Floats) -> None:
        """Warn if w is worse than w = 0 on the data it was learned from."""
        if isinstance(X, np.ndarray):
            loss, w = self._ready_made(), self._parts.ravel()
            zero, found = (float(share @ loss.each(v, (X, labels))) for v in (np.zeros(w.size), w))
            if not found <= zero * (1.0 + 1e-9):
                what = f"the loss is {found / zero:.3g} times that of w = 0 on the same rows"
                warn(f"{what}; use a smaller step, or none, and {SCALE}", TrainingWarning)


def without_column(X: Any, name: Any) -> Any:
    """A DataFrame without this column, if it has it."""
    names = list(getattr(X, "columns", ()))
    return X[[each for each in names if each != name]] if name in names else X


def split_column(X: Any, source: Any) -> tuple[Any, Any, Any]:
    """X without the column that says where rows came from, that column, and its name; if `source` names one."""
    if source is None or not is_name(source) or source not in list(getattr(X, "columns", ())):
        return X, source, None
    return without_column(X, source), X[source], source


def weighed(X: Any, y: Any, weights: Any, source: Any) -> tuple[Any, Any, Floats | None, Any]:
    """The rows whose weight is not 0, and their weights, if there are any."""
    if weights is None:
        return X, y, None, source
    weights = _check_sample_weight(weights, X, dtype=np.float64)
    if (weights < 0.0).any():
        raise BadInput("sample_weight", float(weights.min()), "0 or more")
    kept = weights > 0.0
    if not kept.any():
        raise BadInput("sample_weight", weights, "positive for some rows", "all weights are zero")
    if kept.all():
        return X, y, weights, source
    if not is_name(source):
        source = list(compress(one_for_each(source, X.shape[0]), kept))
    return X[kept], y[kept], weights[kept], source


def _merged(X: Any, labels: Floats, weights: Floats | None, whose: int | Integers) -> tuple[Any, Floats, Floats, Any]:
    """Equal rows of a source as one of their weights' sum, in order: a row twice is then exactly a row of weight 2."""
    table = X if isinstance(X, np.ndarray) else X.toarray()
    whole = np.column_stack([table, labels, np.broadcast_to(whose, labels.shape)])
    rows, places = np.unique(whole, axis=0, return_inverse=True)
    heavy: Floats = np.bincount(places.ravel(), weights).astype(np.float64)
    sources = whose if isinstance(whose, int) else rows[:, -1].astype(np.int64)
    return np.ascontiguousarray(rows[:, :-2]), rows[:, -2].copy(), heavy, sources


def _shares(weights: Floats | None, whose: int | Integers, count: int) -> Floats:
    """(rows,) positive numbers that sum to 1 over the rows of each source."""
    given = np.ones(count) if weights is None else weights
    return given / (given.sum() if isinstance(whose, int) else np.bincount(whose, given)[whose])


def _some(X: Any) -> Floats:
    """Some rows from all over, none of a sparse table that is very wide."""
    if not isinstance(X, np.ndarray) and X.shape[1] > WIDE:
        return np.zeros((0, X.shape[1]))
    rows = X[:: -(-X.shape[0] // SOME)]
    found: Floats = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return found


def _read_only(array: Any) -> Any:
    """A view, as of a file in memory, too, so that one piece of machine code serves both."""
    view = array.view()
    view.setflags(write=False)
    return view
