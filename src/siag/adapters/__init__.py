"""The model you already have: torch, JAX, scikit-learn and river, each thin, on its library's own tools.

Each needs an extra of the package, such as `pip install 'siag[torch]'`, and is imported when it is first asked for.
"""

from importlib import import_module
from typing import Any

HOMES: dict[str, str] = {  # name of the adapter: name of its module here
    "Jax": "jax",
    "MLflow": "tracking",
    "RiverClassifier": "river",
    "RiverRegressor": "river",
    "SIAGClassifier": "sklearn",
    "SIAGRegressor": "sklearn",
    "TensorBoard": "tracking",
    "Torch": "torch",
}

__all__ = list(HOMES)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
