"""scikit-learn estimators in which every source of data counts the same, however many rows it has."""

from siag.foundations.extras import needed

needed("sklearn.base", "sklearn")

from siag.adapters.sklearn.classifier import SIAGClassifier  # noqa: E402  # what it needs is there
from siag.adapters.sklearn.regressor import SIAGRegressor  # noqa: E402

__all__ = ["SIAGClassifier", "SIAGRegressor"]
